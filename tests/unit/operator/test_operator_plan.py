"""The whole planner over whole zones: revisions, settled zones, pauses, filters, gates."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.unit.made_up_nodes import left, node_identity
from tests.unit.operator.settled_zone import (
    FOUR,
    UID,
    conditions,
    healthy,
    reports,
    settle,
    topology,
    zone,
)
from zonequake_operator.planning.applied import stored
from zonequake_operator.planning.plan import WritePartition, WriteZone, calculated_sets, plan
from zonequake_operator.resources.condition_types import ConditionType, Reason
from zonequake_operator.resources.model import (
    AssignmentSet,
    ChangeAttempts,
    ConsistencyMode,
    PartitionKeys,
    PartitionState,
    PartitionStatus,
    ResetDue,
    StorageKind,
    Timers,
    ZoneSnapshot,
    ZoneSpec,
    group_name,
)
from zonequake_protocol.admin import (
    ChangePeers,
    ReplicaRole,
    ReplicasReport,
    ReplicaStatus,
    ResetPeers,
    Stage,
    StartReplica,
)


def test_a_settled_zone_causes_no_write_and_no_order() -> None:
    snapshot = healthy()
    decided = plan(replace(snapshot, now_ms=10**9))
    assert (decided.writes, decided.orders) == ([], [])
    assert decided.settled
    assert decided.behind == frozenset()
    assert conditions(snapshot)[ConditionType.READY] == (True, Reason.ALL_PARTITIONS_SERVE)
    assert conditions(snapshot)[ConditionType.SYNCED] == (True, Reason.SPEC_APPLIED)


def test_a_zone_whose_group_still_runs_a_change_is_neither_settled_nor_synced() -> None:
    snapshot = healthy()
    stuck = {
        n: replace_replicas(
            r, lambda each: caught_up(each) if each.role is ReplicaRole.LEADER else each
        )
        for n, r in snapshot.reports.items()
    }
    after, decided = settle(replace(snapshot, reports=stuck))
    assert not decided.settled
    assert conditions(after)[ConditionType.SYNCED] == (False, Reason.REBALANCING)
    assert conditions(after)[ConditionType.PROGRESSING] == (True, Reason.REBALANCING)
    assert after.zone.summary.moving == 4
    for number, partition in after.partitions.items():
        before = snapshot.partitions[number].keys
        assert partition.keys.pending == before.stable
        assert partition.keys.configuration_token > 7, "the unwanted change is replaced"
    sent = [send.order for send in decided.orders]
    assert {type(order) for order in sent} == {ChangePeers}
    paused = replace(snapshot.zone, spec=ZoneSpec(partitions=4, paused=True), generation=2)
    assert not settle(replace(snapshot, reports=stuck, zone=paused))[1].settled


def caught_up(of: ReplicaStatus) -> ReplicaStatus:
    """A leader that waits for a grant."""
    assert of.configuration is not None
    return msgspec.structs.replace(
        of,
        stage=Stage.CATCHING_UP,
        stage_token=7,
        token=7,
        stage_peers=of.configuration.peers,
        caught_up=True,
    )


def test_a_new_zone_writes_its_revision_before_anything_else() -> None:
    first = plan(
        ZoneSnapshot(
            now_ms=0,
            zone=zone(ZoneSpec(partitions=2)),
            partitions={},
            topology=topology("A"),
            reports={},
        )
    )
    assert ([type(write) for write in first.writes], first.orders) == ([WriteZone], [])


def test_no_order_leaves_for_keys_that_are_not_stored() -> None:
    snapshot = ZoneSnapshot(
        now_ms=0,
        zone=zone(ZoneSpec(partitions=2)),
        partitions={},
        topology=topology("A"),
        reports={"A": ReplicasReport(node=node_identity("A"), replicas=[])},
    )
    while True:
        decided = plan(snapshot)
        sent = [send.order for send in decided.orders]
        for order in sent:
            assert isinstance(order, StartReplica)
            assert snapshot.partitions[order.partition].keys.configuration_token == order.token
        if sent:
            break
        snapshot = stored(snapshot, decided)
    assert len(sent) == 2


def test_an_event_that_moves_nothing_writes_nothing_per_partition() -> None:
    snapshot = healthy(ZoneSpec(partitions=4, timers=Timers(scale_up_s=0, scale_down_s=None)))
    left = replace(snapshot, topology=topology("A", "B", "C", version=2))
    written: list[type] = []
    for _ in range(10):
        decided = plan(left)
        written += [type(write) for write in decided.writes]
        if not decided.writes and not decided.orders:
            break
        left = stored(left, decided)
    assert WritePartition not in written
    assert written == [WriteZone], "it is accepted and handled in one write"
    assert left.zone.status.revision == 2
    assert left.zone.status.handled_revision == 2


def test_a_new_node_moves_partitions_and_the_revision_is_handled_once() -> None:
    snapshot = healthy()
    joined = topology("A", "B", "C", "D", "E", version=2)
    joined = replace(
        joined,
        nodes={n: replace(t, since=2 if n == "E" else 1) for n, t in joined.nodes.items()},
    )
    after, decided = settle(replace(snapshot, topology=joined))
    moving = [p for p in after.partitions.values() if p.keys.pending is not None]
    assert moving
    assert all("E" in p.keys.pending.nodes for p in moving)  # type: ignore[union-attr]
    assert after.zone.status.handled_revision == after.zone.status.revision == 2
    assert not decided.settled
    assert conditions(after)[ConditionType.PROGRESSING] == (True, Reason.REBALANCING)


@pytest.mark.parametrize(
    ("handled", "triggers", "due"),
    [
        (5, (5, 5, 5, 5), ()),
        (5, (1, 1, 1, 1), ()),
        (4, (5, 4, 5, 1), (1, 3)),
        (4, (1, 1, 1, 1), (0, 1, 2, 3)),
    ],
)
def test_a_partition_is_due_below_the_zones_revision_unless_either_revision_says_handled(
    handled: int, triggers: tuple[int, ...], due: tuple[int, ...]
) -> None:
    snapshot = healthy()
    status = replace(snapshot.zone.status, revision=5, handled_revision=handled)
    at = {
        n: replace(p, keys=replace(p.keys, change_trigger_revision=triggers[n]))
        for n, p in snapshot.partitions.items()
    }
    asked = replace(snapshot, zone=replace(snapshot.zone, status=status), partitions=at)

    def elsewhere(nodes: object, partitions: int, replicas: int) -> list[AssignmentSet]:
        return [AssignmentSet.of("X")] * partitions

    writes = [a for a in plan(asked, calculate=elsewhere).writes if isinstance(a, WritePartition)]
    assert tuple(write.number for write in writes) == due
    assert {write.keys.change_trigger_revision for write in writes} <= {5}


def test_without_data_nodes_there_is_no_calculated_set() -> None:
    assert calculated_sets((), 2, 3) == [None, None]
    assert calculated_sets(("B", "A"), 1, 3) == [AssignmentSet.of("A", "B")]


def test_orders_follow_stored_keys_not_those_that_are_about_to_be_written() -> None:
    snapshot = healthy(
        ZoneSpec(partitions=1, consistency_mode=ConsistencyMode.HIGH_AVAILABILITY), nodes="ABC"
    )
    keys = snapshot.partitions[0].keys
    assert keys.stable is not None
    survivor = keys.stable.nodes[1]
    alone = {survivor: replace_replicas(snapshot.reports[survivor], alive_without_leader)}
    lost = replace(topology(survivor, version=2), departed=left("".join({*"ABC"} - {survivor}), 2))
    due = ResetDue(revision=2, topology_version=2)
    status = replace(snapshot.zone.status, revision=2, handled_revision=2, reset_due=due)
    status = replace(
        status,
        data_nodes=replace(status.data_nodes, topology_version=2),  # type: ignore[type-var]
    )
    asked = replace(
        snapshot, zone=replace(snapshot.zone, status=status), reports=alone, topology=lost
    )
    decided = plan(asked)
    (write,) = [a for a in decided.writes if isinstance(a, WritePartition) and a.urgent]
    assert write.keys.pending == AssignmentSet(nodes=(survivor,), force=True)
    assert not decided.orders, "nothing is stored yet"
    sent = [send.order for send in plan(stored(asked, decided)).orders]
    assert [type(order) for order in sent] == [ResetPeers]


def test_a_filter_that_matches_no_node_keeps_the_assignments() -> None:
    snapshot = healthy()
    changed = replace(
        snapshot,
        zone=replace(snapshot.zone, spec=ZoneSpec(partitions=4, filter='"HDD"'), generation=2),
    )
    after, _ = settle(changed)
    assert {n: p.keys for n, p in after.partitions.items()} == {
        n: p.keys for n, p in snapshot.partitions.items()
    }
    assert conditions(after)[ConditionType.READY] == (False, Reason.NO_DATA_NODES)


def test_an_invalid_filter_is_shown_with_its_position_and_the_old_one_stays_in_force() -> None:
    snapshot = healthy(ZoneSpec(partitions=4, filter='"SSD"'))
    changed = replace(
        snapshot,
        zone=replace(snapshot.zone, spec=ZoneSpec(partitions=4, filter='("SSD"'), generation=2),
    )
    after, _ = settle(changed)
    assert conditions(after)[ConditionType.READY] == (False, Reason.INVALID_FILTER)
    assert "position 7" in after.zone.conditions[0].message
    assert after.zone.status.data_nodes.filter == '"SSD"'  # type: ignore[union-attr]
    assert after.zone.status.observed_generation == 2
    assert (plan(after).writes, plan(after).orders) == ([], [])


def test_a_paused_zone_changes_nothing_but_starts_replicas_of_restarted_nodes() -> None:
    snapshot = healthy()
    waiting = {
        n: replace_replicas(r, waiting_replica) if n == "A" else r
        for n, r in snapshot.reports.items()
    }
    paused = replace(
        snapshot,
        zone=replace(snapshot.zone, spec=ZoneSpec(partitions=4, paused=True), generation=2),
        reports=waiting,
        topology=topology("B", version=9),
    )
    after, decided = settle(paused)
    assert after.zone.status.revision == 1
    assert decided.orders
    assert decided.writes == []
    assert {(send.node, type(send.order)) for send in decided.orders} == {("A", StartReplica)}
    assert conditions(after)[ConditionType.PAUSED] == (True, Reason.PAUSED_BY_SPEC)


def replace_replicas(report: ReplicasReport, change) -> ReplicasReport:  # type: ignore[no-untyped-def]
    return ReplicasReport(node=report.node, replicas=[change(r) for r in report.replicas])


def waiting_replica(of: ReplicaStatus) -> ReplicaStatus:
    return ReplicaStatus(
        group=of.group,
        zone=of.zone,
        partition=of.partition,
        incarnation=of.incarnation,
        role=ReplicaRole.WAITING,
        term=0,
        token=of.token,
    )


def test_a_restarted_process_gets_start_orders_for_all_its_replicas_at_once() -> None:
    snapshot = healthy()
    held = len(snapshot.reports["A"].replicas)
    restarted = dict(snapshot.reports)
    restarted["A"] = replace_replicas(restarted["A"], waiting_replica)
    decided = plan(replace(snapshot, reports=restarted))
    starts = decided.orders
    assert len(starts) == held > 0
    assert {(a.node, type(a.order)) for a in starts} == {("A", StartReplica)}
    assert "A" in decided.behind


def fresh(spec: ZoneSpec, *namesakes: str) -> ZoneSnapshot:
    return ZoneSnapshot(
        now_ms=1000,
        zone=zone(spec),
        partitions={},
        namesakes=frozenset(namesakes),
        topology=topology("A", "B", "C"),
        reports={},
    )


def test_a_zone_says_which_partitions_of_an_earlier_one_are_in_its_way_and_how_to_delete_them() -> (
    None
):
    after, _ = settle(fresh(FOUR, "z-1", "z-3", "z-4", "y-0"))
    assert sorted(after.partitions) == [0, 2], "nothing else waits for them"
    ready = next(c for c in after.zone.conditions if c.type is ConditionType.READY)
    assert (ready.status, ready.reason) == (False, Reason.PARTITIONS_IN_THE_WAY)
    assert ready.message == (
        "2 of 4 partitions can't be created: Partitions of an earlier zone of this name are in "
        "their place. Once nothing needs them: kubectl delete partitions.zonequake.io "
        "--namespace ns z-1 z-3"
    )
    assert conditions(after)[ConditionType.SYNCED] == (False, Reason.APPLYING)

    freed, _ = settle(replace(after, namesakes=frozenset()))
    assert sorted(freed.partitions) == [0, 1, 2, 3]
    assert all(p.keys.stable for p in freed.partitions.values()), "these begin, too"
    assert conditions(freed)[ConditionType.READY] == (False, Reason.STARTING)
    assert conditions(freed)[ConditionType.SYNCED] == (True, Reason.SPEC_APPLIED)


def test_a_zone_with_many_partitions_in_its_way_names_some_of_them_at_a_time() -> None:
    after, _ = settle(fresh(ZoneSpec(partitions=900), *(f"z-{n}" for n in range(900))))
    ready = next(c for c in after.zone.conditions if c.type is ConditionType.READY)
    assert ready.message.startswith("900 of 900 partitions")
    assert ready.message.endswith(" z-38 z-39")


def with_rate(snapshot: ZoneSnapshot, *, told: int | None, wanted: int) -> ZoneSnapshot:
    """Its replicas run with the catch-up rate `told`, and its spec has `wanted`."""
    spec = ZoneSpec(partitions=4, catch_up_bytes_per_second=wanted)
    reports = {
        n: replace_replicas(
            r, lambda each: msgspec.structs.replace(each, catch_up_bytes_per_second=told)
        )
        for n, r in snapshot.reports.items()
    }
    return replace(snapshot, zone=replace(snapshot.zone, spec=spec, generation=2), reports=reports)


def test_a_changed_catch_up_rate_reaches_the_replicas_that_run_and_changes_nothing_else() -> None:
    snapshot = healthy()
    running = {(n, r.group) for n, report in snapshot.reports.items() for r in report.replicas}
    after, decided = settle(with_rate(snapshot, told=0, wanted=500))
    sent = [(send.node, send.order) for send in decided.orders]
    assert {(node, order.group) for node, order in sent} == running
    assert len(sent) == len(running), "each of them once"
    for _, order in sent:
        assert isinstance(order, StartReplica)
        assert (order.catch_up_bytes_per_second, order.token) == (500, 1)
    assert {n: p.keys.stable for n, p in after.partitions.items()} == {
        n: p.keys.stable for n, p in snapshot.partitions.items()
    }
    _, decided = settle(with_rate(after, told=500, wanted=500))
    assert (decided.orders, decided.settled) == ([], True), "all of them have it"


def test_a_rate_is_never_told_to_nodes_that_do_not_report_theirs() -> None:
    _, decided = settle(with_rate(healthy(), told=None, wanted=500))
    assert decided.orders == [], "they would be told forever"


def test_a_replica_that_is_told_a_new_rate_keeps_the_token_that_it_has_seen() -> None:
    """A leader with the present token, that cancelled an earlier change, seems to have cancelled
    this one."""
    snapshot = with_rate(healthy(), told=0, wanted=500)
    reports = {
        n: replace_replicas(r, lambda each: msgspec.structs.replace(each, token=3))
        for n, r in snapshot.reports.items()
    }
    newer = {
        n: replace(p, keys=replace(p.keys, configuration_token=9))
        for n, p in snapshot.partitions.items()
    }
    _, decided = settle(replace(snapshot, partitions=newer, reports=reports))
    assert {send.order.token for send in decided.orders} == {3}


def test_a_replica_far_behind_its_leader_keeps_its_node_behind() -> None:
    snapshot = healthy()
    follower = next(
        n
        for n, r in snapshot.reports.items()
        if any(x.role is ReplicaRole.FOLLOWER for x in r.replicas)
    )
    late = replace(snapshot, reports=reports(snapshot, {follower: 3999}))
    assert plan(late).behind == {follower}
    near = replace(snapshot, reports=reports(snapshot, {follower: 4000}))
    assert plan(near).behind == frozenset()


def test_a_broken_member_is_named_with_its_reason() -> None:
    def break_down(replica: ReplicaStatus) -> ReplicaStatus:
        return msgspec.structs.replace(
            replica, role=ReplicaRole.BROKEN, broken_reason="its CRC is wrong"
        )

    snapshot = healthy(nodes="ABC")
    leads = {
        n
        for n, r in snapshot.reports.items()
        if any(x.role is ReplicaRole.LEADER for x in r.replicas)
    }
    node = min(set("ABC") - leads) if leads != set("ABC") else "C"
    hurt = dict(snapshot.reports)
    hurt[node] = replace_replicas(hurt[node], break_down)
    after, _ = settle(replace(snapshot, reports=hurt))
    degraded = next(c for c in after.zone.conditions if c.type is ConditionType.DEGRADED)
    assert f"on {node}. Broken: partition 0 on {node}" in degraded.message
    assert degraded.message.endswith("the first one because its CRC is wrong.")


def test_lost_members_are_named_and_the_risk_is_told() -> None:
    snapshot = healthy(nodes="ABC")
    one_gone = {n: r for n, r in snapshot.reports.items() if n != "C"}
    after, _ = settle(replace(snapshot, reports=one_gone))
    degraded = next(c for c in after.zone.conditions if c.type is ConditionType.DEGRADED)
    assert degraded.status
    assert degraded.message == "4 partitions miss members on C."
    assert conditions(after)[ConditionType.DATA_AT_RISK] == (True, Reason.NO_FURTHER_LOSS_ALLOWED)
    two_gone = {"B": snapshot.reports["B"]}
    after, _ = settle(replace(snapshot, reports=two_gone))
    assert conditions(after)[ConditionType.DATA_AT_RISK] == (True, Reason.MAJORITY_LOST)
    assert conditions(after)[ConditionType.READY] == (False, Reason.PARTITIONS_WITHOUT_LEADER)


def test_a_timer_wakes_the_zone_at_its_deadline() -> None:
    spec = ZoneSpec(partitions=1, timers=Timers(scale_up_s=300, scale_down_s=None))
    snapshot = healthy(spec, nodes="AB")
    joined = topology("A", "B", "C", version=2)
    after, decided = settle(replace(snapshot, topology=joined, now_ms=5000))
    assert decided.wake_at_ms == 305_000
    assert after.zone.status.revision == 2
    fired, _ = settle(replace(after, now_ms=305_000))
    assert fired.zone.status.revision == 3
    assert fired.zone.status.data_nodes.nodes == frozenset("ABC")  # type: ignore[union-attr]


def test_a_zone_that_is_being_deleted_is_left_alone() -> None:
    snapshot = healthy()
    deleting = replace(snapshot, zone=replace(snapshot.zone, deleting=True), reports={})
    assert (plan(deleting).writes, plan(deleting).orders) == ([], [])


def test_an_unreadable_spec_is_shown_and_nothing_moves() -> None:
    snapshot = healthy()
    broken = replace(snapshot, zone=replace(snapshot.zone, spec="Bad.", generation=2))
    after, _ = settle(broken)
    assert conditions(after)[ConditionType.READY] == (False, Reason.INVALID_SPEC)
    assert after.partitions == snapshot.partitions


def test_partitions_keep_a_set_whose_nodes_are_fewer_than_replicas() -> None:
    snapshot = healthy(ZoneSpec(partitions=2, replicas=3), nodes="AB")
    assert {p.keys.stable for p in snapshot.partitions.values()} == {AssignmentSet.of("A", "B")}
    assert conditions(snapshot)[ConditionType.DEGRADED] == (
        True,
        Reason.FEWER_NODES_THAN_REPLICAS,
    )
    assert PartitionKeys() not in [p.keys for p in snapshot.partitions.values()]


def bootstrapped(nodes: str = "ABC") -> ZoneSnapshot:
    """A new zone whose members all know their group and haven't elected a leader yet."""
    snapshot = healthy(nodes=nodes)
    return replace(
        snapshot,
        partitions={n: replace(p, view=PartitionStatus()) for n, p in snapshot.partitions.items()},
        reports={n: replace_replicas(r, candidate) for n, r in snapshot.reports.items()},
    )


def candidate(of: ReplicaStatus) -> ReplicaStatus:
    return msgspec.structs.replace(of, role=ReplicaRole.CANDIDATE, leader=None)


def test_a_partition_has_no_state_before_its_first_leader_and_then_one_at_once() -> None:
    waiting, decided = settle(bootstrapped())
    assert {h.view.state for h in decided.health.values()} == {None}
    assert {p.view.state for p in waiting.partitions.values()} == {None}
    led = replace(waiting, reports=reports(waiting))
    views = [a for a in plan(led).writes if isinstance(a, WritePartition)]
    assert [(a.view.state, a.urgent) for a in views] == [(PartitionState.AVAILABLE, True)] * 4


def test_later_states_wait_for_their_turn() -> None:
    snapshot = healthy(nodes="ABC")
    silent = {n: replace_replicas(r, candidate) for n, r in snapshot.reports.items()}
    views = [
        a for a in plan(replace(snapshot, reports=silent)).writes if isinstance(a, WritePartition)
    ]
    assert [(a.view.state, a.urgent) for a in views] == [(PartitionState.UNAVAILABLE, False)] * 4


def test_a_write_that_raises_the_revision_says_in_itself_that_it_is_not_synced() -> None:
    snapshot = healthy()
    changed = [
        replace(snapshot, topology=topology(*"ABCDE", version=2)),
        replace(
            snapshot,
            zone=replace(
                snapshot.zone, spec=msgspec.structs.replace(FOUR, replicas=2), generation=2
            ),
        ),
        replace(
            snapshot,
            zone=replace(
                snapshot.zone, spec=msgspec.structs.replace(FOUR, filter='"SSD'), generation=2
            ),
            topology=topology(*"ABCDE", version=2),
        ),
        replace(snapshot, zone=zone(FOUR), partitions={}),
    ]
    for one in changed:
        raised = False
        for _ in range(20):
            decided = plan(one)
            for write in decided.writes:
                if isinstance(write, WriteZone):
                    synced = {c.type: c.status for c in write.conditions}[ConditionType.SYNCED]
                    behind = write.status.handled_revision != write.status.revision
                    raised = raised or write.status.revision != one.zone.status.revision
                    assert not (synced and behind)
                    nodes = (write.status.data_nodes, one.zone.status.data_nodes)
                    assert nodes[0] == nodes[1] or not synced
            one = stored(one, decided)
        assert raised


def without_replicas(snapshot: ZoneSnapshot, *nodes: str) -> ZoneSnapshot:
    """These nodes came back with nothing; no node leads a group that needs them."""
    found = {}
    for name, report in snapshot.reports.items():
        kept = [] if name in nodes else [follow(replica) for replica in report.replicas]
        found[name] = msgspec.structs.replace(report, replicas=kept)
    return replace(snapshot, reports=found)


def follow(replica: ReplicaStatus) -> ReplicaStatus:
    """It is alive: it had a leader, which it hears no more."""
    return msgspec.structs.replace(replica, role=ReplicaRole.FOLLOWER, leader=None, had_leader=True)


def alive_without_leader(replica: ReplicaStatus) -> ReplicaStatus:
    return msgspec.structs.replace(follow(replica), had_leader=True)


def test_a_partition_says_for_whom_it_waits_when_members_came_back_with_nothing() -> None:
    volatile = ZoneSpec(partitions=1, storage=StorageKind.VOLATILE)
    snapshot = without_replicas(healthy(volatile, nodes="ABC"), "A", "B")
    after, decided = settle(snapshot)
    risk = next(c for c in after.zone.conditions if c.type is ConditionType.DATA_AT_RISK)
    assert risk.message == (
        "1 partitions have lost their majority: 0. "
        "Partition 0 can only be reset by hand: A, B came back with nothing."
    ), "C is there, and no majority"
    assert decided.orders == [], "do nothing"

    silent = replace(snapshot, reports={n: r for n, r in snapshot.reports.items() if n != "C"})
    after, _ = settle(silent)
    risk = next(c for c in after.zone.conditions if c.type is ConditionType.DATA_AT_RISK)
    assert risk.message.endswith("Partition 0 waits for C: A, B came back with nothing.")


def test_a_volatile_partition_of_which_nothing_is_left_starts_anew() -> None:
    volatile = ZoneSpec(partitions=1, storage=StorageKind.VOLATILE)
    after, decided = settle(without_replicas(healthy(volatile, nodes="ABC"), "A", "B", "C"))
    assert after.partitions[0].keys.bootstrap is None
    sent = [send.order for send in decided.orders]
    assert [type(order) for order in sent] == [StartReplica] * 3
    assert all(isinstance(order, StartReplica) and order.volatile for order in sent)


def test_a_change_that_was_asked_for_too_often_is_told_with_its_error() -> None:
    snapshot = healthy()
    (number, partition), *_ = snapshot.partitions.items()
    keys = partition.keys
    moving = replace(
        keys, pending=AssignmentSet.of("A", "B"), configuration_token=keys.configuration_token + 1
    )

    def give_up(replica: ReplicaStatus) -> ReplicaStatus:
        if replica.partition != number or replica.role is not ReplicaRole.LEADER:
            return replica
        return msgspec.structs.replace(replica, reconfiguration_error="D has not answered for 10 s")

    failing = replace(
        snapshot,
        partitions={**snapshot.partitions, number: replace(partition, keys=moving)},
        reports={n: replace_replicas(r, give_up) for n, r in snapshot.reports.items()},
        retry_threshold=3,
    )
    group = group_name("z", UID, number)
    for count, reason in ((3, Reason.REBALANCING), (4, Reason.RETRY_THRESHOLD_PASSED)):
        asked = {group: ChangeAttempts(token=moving.configuration_token, count=count)}
        after, _ = settle(replace(failing, attempts=asked))
        assert conditions(after)[ConditionType.PROGRESSING] == (True, reason)
    told = next(c for c in after.zone.conditions if c.type is ConditionType.PROGRESSING)
    assert told.message == (
        f"1 partitions make no progress: {number}. The change of partition {number} was asked for "
        "4 times; its leader said: D has not answered for 10 s. It is retried forever."
    )
    another = {group: ChangeAttempts(token=moving.configuration_token - 1, count=9)}
    after, _ = settle(replace(failing, attempts=another))
    assert conditions(after)[ConditionType.PROGRESSING] == (True, Reason.REBALANCING)
