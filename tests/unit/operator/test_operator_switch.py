"""The in-memory switch (`in-memory-reconfiguration`; design §3, holes 5 and 13), by its rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zonequake_operator.groups import Group, observe
from zonequake_operator.model import (
    AssignmentSet,
    ChangePeersMode,
    ConsistencyMode,
    Link,
    PartitionKeys,
    Storage,
    TokenPeers,
)
from zonequake_operator.orders import ReplicaSettings, hosts, orders
from zonequake_operator.rebalance import Wish, decide
from zonequake_operator.switch import is_switch_step, on_rebalance_done
from zonequake_store.admin_protocol import (
    Bootstrap,
    CancelChangePeers,
    ConfigurationReport,
    PeerName,
    ReconfigurationStatus,
    ReplicaStatus,
    Role,
    Stage,
    StartReplica,
    StopReplica,
)

EVERYONE = frozenset("ABCDE")
GROUP = "z.00000000.0"
SETTINGS = ReplicaSettings(
    zone="z",
    partition=0,
    partitions=1,
    fsync=True,
    catch_up_bytes_per_second=0,
    addresses={},
    storage=Storage.VOLATILE,
)
Q, U, C = ChangePeersMode.QUEUE, ChangePeersMode.UPDATE, ChangePeersMode.CANCEL


def of(nodes: str | None, **flags: bool) -> AssignmentSet | None:
    return None if not nodes else AssignmentSet(nodes=tuple(nodes), **flags)


def peer(node: str, life: int = 1) -> PeerName:
    return PeerName(node, f"{node}{life}")


def peers(nodes: str) -> list[PeerName]:
    return [peer(node) for node in nodes]


def keys(
    stable: str,
    pending: AssignmentSet | str | None = None,
    planned: AssignmentSet | str | None = None,
    *,
    reduce: str = "",
    append: str = "",
    lock: bool = False,
) -> PartitionKeys:
    pending = of(pending) if isinstance(pending, str) else pending
    planned = of(planned) if isinstance(planned, str) else planned
    return PartitionKeys(
        stable=of(stable),
        pending=pending,
        planned=planned,
        configuration_token=5,
        bootstrap=TokenPeers(token=1, peers=tuple(peers("ABC"))),
        pending_lock=TokenPeers(token=5, peers=tuple(peers(stable))) if lock else None,
        change_trigger_revision=1,
        switch_reduce=tuple(reduce),
        switch_append=tuple(append),
    )


def replica(node: str, life: int = 1, **more: object) -> ReplicaStatus:
    return ReplicaStatus(
        **{
            "group": GROUP,
            "zone": "z",
            "partition": 0,
            "incarnation": f"{node}{life}",
            "role": Role.FOLLOWER,
            "term": 3,
            "leader": "A",
            "token": 5,
            **more,
        }  # type: ignore[arg-type]
    )


def group(
    configuration: str,
    *,
    old: str = "",
    token: int = 4,
    absent: str = "",
    reborn: str = "",
    also: str = "",
    answered: frozenset[str] = EVERYONE,
    **leader: object,
) -> Group:
    """A group that A leads; `absent` nodes have nothing, `reborn` ones another replica."""
    report = ConfigurationReport(
        peers=peers(configuration), old_peers=peers(old), token=token, index=9
    )
    nodes = [n for n in sorted({*configuration, *old, *also}) if n not in absent]
    replicas = {
        n: replica(n, configuration=report if n in configuration + old else None) for n in nodes
    }
    for node in reborn:
        replicas[node] = replica(node, 2, term=0, leader=None)
    replicas["A"] = replica("A", role=Role.LEADER, configuration=report, commit=9, **leader)
    return observe(GROUP, replicas, answered)


def wish(target: str | None, *, due: bool = False, mode: ChangePeersMode = Q) -> Wish:
    return Wish(target=of(target), revision=7, due=due, mode=mode, storage=Storage.VOLATILE)


def shown(found: PartitionKeys) -> tuple[str, ...]:
    """stable, pending, planned, switchReduce, switchAppend as words."""
    sets = (found.stable, found.pending, found.planned)
    return (
        *("".join(one.nodes) if one else "" for one in sets),
        "".join(found.switch_reduce),
        "".join(found.switch_append),
    )


# ------------------------------------------------------------------------- On partition restart


def test_a_replica_that_came_back_with_nothing_leaves_its_group_first() -> None:
    after = decide(keys("ABC"), group("ABC", absent="C"), wish("ABC"), EVERYONE)
    assert shown(after) == ("ABC", "AB", "", "C", "")
    assert after.change_trigger_revision == 7
    assert hosts(after) == frozenset("AB"), "do not start the corresponding server"


def test_one_that_runs_under_another_incarnation_has_nothing_either() -> None:
    after = decide(keys("ABC"), group("ABC", reborn="C"), wish("ABC"), EVERYONE)
    assert shown(after) == ("ABC", "AB", "", "C", "")


def test_a_node_that_says_nothing_has_lost_nothing() -> None:
    silent = group("ABC", absent="C", answered=EVERYONE - {"C"})
    assert decide(keys("ABC"), silent, wish("ABC"), EVERYONE) == keys("ABC")


def test_without_a_majority_nothing_is_written_and_nobody_starts() -> None:
    left = group("ABC", absent="BC")
    assert not left.confirmed
    assert decide(keys("ABC"), left, wish("ABC"), EVERYONE) == keys("ABC")
    told = orders(keys("ABC"), left, SETTINGS, alive=EVERYONE, reachable=EVERYONE)
    assert told == []


@pytest.mark.parametrize(
    ("name", "found", "reduce"),
    [
        ("a newcomer that nobody counts yet", group("ABC", also="D", absent="D"), ""),
        ("one of the new half", group("ABCD", old="ABC", absent="D"), "D"),
        ("one of the old half", group("ABD", old="ABC", absent="C"), "C"),
    ],
)
def test_only_who_is_counted_is_written_to_switch_reduce(
    name: str, found: Group, reduce: str
) -> None:
    before = keys("ABC", "ABCD" if "new" in name else "ABD", lock=True)
    assert "".join(decide(before, found, wish("ABC"), EVERYONE).switch_reduce) == reduce, name


def test_a_forced_pending_has_nobody_to_reduce() -> None:
    before = keys("ABC", of("A", force=True))
    found = group("A", token=5, absent="C", also="B")
    assert decide(before, found, wish("ABC"), EVERYONE).switch_reduce == ()


# ---------------------------------------------------------------------------- On rebalance done


@pytest.mark.parametrize(
    ("name", "before", "applied", "calculated", "after"),
    [
        ("nothing was lost", keys("ABC", "ABD"), "ABD", "ABD", ("", "", "")),
        (
            "C was reduced and comes back",
            keys("ABC", "AB", reduce="C"),
            "AB",
            "ABC",
            ("ABC", "", "C"),
        ),
        ("C came back", keys("AB", "ABC", append="C"), "ABC", "ABC", ("", "", "")),
        ("C is reduced next", keys("ABC", "ABCD", reduce="C"), "ABCD", "ABCD", ("ABD", "C", "")),
        ("C isn't wanted any more", keys("ABC", "AB", reduce="C"), "AB", "AB", ("", "", "")),
        (
            "coming back drops who isn't wanted",
            keys("ABC", "AB", reduce="C"),
            "AB",
            "BC",
            ("BC", "", "C"),
        ),
        (
            "lost again while coming back",
            keys("AB", "ABC", reduce="C", append="C"),
            "ABC",
            "ABC",
            ("AB", "C", ""),
        ),
        (
            "one back, another lost",
            keys("AB", "ABC", reduce="B", append="C"),
            "ABC",
            "ABC",
            ("AC", "B", ""),
        ),
        ("two lost", keys("ABCDE", "ABC", reduce="DE"), "ABC", "ABCDE", ("ABCDE", "", "DE")),
        (
            "append first, reduce keeps",
            keys("ABCDE", "ABCD", reduce="DE"),
            "ABCD",
            "ABCDE",
            ("ABCDE", "D", "E"),
        ),
        (
            "no data nodes: everybody comes back",
            keys("ABC", "AB", reduce="C"),
            "AB",
            None,
            ("ABC", "", "C"),
        ),
        (
            "a reset's survivor is alone",
            keys("ABC", of("A", force=True), reduce="C"),
            "A",
            "ABC",
            ("", "", ""),
        ),
    ],
)
def test_both_switch_keys_are_written_in_every_branch(
    name: str,
    before: PartitionKeys,
    applied: str,
    calculated: str | None,
    after: tuple[str, str, str],
) -> None:
    stable = of(applied)
    assert stable is not None
    done = on_rebalance_done(before, stable, of(calculated))
    pending = "".join(done.pending.nodes) if done.pending else ""
    found = (pending, "".join(done.switch_reduce), "".join(done.switch_append))
    assert found == after, name


def test_a_switch_goes_before_planned() -> None:
    before = keys("ABC", "AB", "ABD", reduce="C", lock=True)
    after = decide(before, group("AB", token=5, absent="C"), wish("ABC"), EVERYONE)
    assert shown(after) == ("AB", "ABC", "ABD", "", "C")
    assert after.pending_lock is None


def test_the_documents_example() -> None:
    """[A, B, C] on its way to [A, B, C, D] past the point of no return; C fails and returns."""
    ways = [keys("ABC", "ABCD", lock=True)]
    reports = [
        group("ABCD", old="ABC", token=5, absent="C", stage=Stage.JOINT),
        group("ABCD", token=5, absent="C"),
        group("ABD", token=6, absent="C"),
        group("ABCD", token=7),
    ]
    for report in reports:
        ways.append(decide(ways[-1], report, wish("ABCD"), EVERYONE))
    assert [shown(way) for way in ways[1:]] == [
        ("ABC", "ABCD", "", "C", ""),
        ("ABCD", "ABD", "", "C", ""),
        ("ABD", "ABCD", "", "", "C"),
        ("ABCD", "", "", "", ""),
    ]


# ---------------------------------------------------------------------------- Hole 13: who waits


@pytest.mark.parametrize("mode", [Q, U, C])
@pytest.mark.parametrize(
    ("name", "before", "wanted", "after"),
    [
        ("forced", keys("ABC", of("A", force=True)), "AB", ("ABC", "A", "AB", "", "")),
        ("fromReset", keys("A", of("AB", from_reset=True)), "ABC", ("A", "AB", "ABC", "", "")),
        ("reducing", keys("ABC", "AB", reduce="C"), "ABD", ("ABC", "AB", "ABD", "C", "")),
        ("appending", keys("AB", "ABC", append="C"), "ABD", ("AB", "ABC", "ABD", "", "C")),
        (
            "equal to a forced pending",
            keys("ABC", of("A", force=True), "AB"),
            "A",
            ("ABC", "A", "", "", ""),
        ),
        (
            "equal to a locked pending",
            keys("ABC", "ABD", "ABE", lock=True),
            "ABD",
            ("ABC", "ABD", "", "", ""),
        ),
        ("blocked by a dead newcomer", keys("ABC", "ABX", "E"), "ABD", ("ABC", "ABD", "", "", "")),
        (
            "blocked, and C was lost",
            keys("ABC", "ABX", reduce="C"),
            "BCD",
            ("ABC", "BD", "", "C", ""),
        ),
        (
            "blocked while coming back",
            keys("AB", "ABCX", append="CX"),
            "ABC",
            ("AB", "ABC", "", "", "C"),
        ),
        (
            "the lost one alone is wanted",
            keys("ABC", "ABX", reduce="C"),
            "C",
            ("ABC", "AB", "", "C", ""),
        ),
    ],
)
def test_what_a_wish_does_in_every_mode(
    name: str, mode: ChangePeersMode, before: PartitionKeys, wanted: str, after: tuple[str, ...]
) -> None:
    nobody = Group(name=GROUP, replicas={})
    found = decide(before, nobody, wish(wanted, due=True, mode=mode), EVERYONE)
    assert shown(found) == after, name


def test_an_ordinary_pending_during_which_a_replica_was_lost_is_no_switch_step() -> None:
    assert not is_switch_step(keys("ABC", "ABCD", reduce="C"))
    assert is_switch_step(keys("ABC", "ABD", reduce="C"))
    assert not is_switch_step(keys("ABC", reduce="C"))


def test_what_replaces_a_set_of_a_reset_and_adds_nobody_stays_one() -> None:
    nobody = Group(name=GROUP, replicas={})
    forced = keys("ABC", of("A", force=True), of("ABC", from_reset=True))
    same = decide(forced, nobody, wish("ABC", due=True), EVERYONE)
    assert same.planned == of("ABC", from_reset=True), "one equal to planned leaves its flag"
    fewer = decide(forced, nobody, wish("AB", due=True), EVERYONE)
    assert fewer.planned == of("AB", from_reset=True)
    other = decide(forced, nobody, wish("ABD", due=True), EVERYONE)
    assert other.planned == of("ABD")
    blocked = keys("A", of("ABX", from_reset=True))
    assert decide(blocked, nobody, wish("AB", due=True), EVERYONE).pending == of(
        "AB", from_reset=True
    )
    assert decide(blocked, nobody, wish("AD", due=True), EVERYONE).pending == of("AD")


def test_after_a_promoted_planned_the_partition_is_due_again() -> None:
    before = keys("ABC", "ABD", "ABE", lock=True)
    done = group("ABD", token=5)
    promoted = decide(before, done, wish("ABE"), EVERYONE)
    assert shown(promoted) == ("ABD", "ABE", "", "", "")
    assert shown(decide(before, done, wish("BCD"), EVERYONE))[:3] == ("ABD", "ABE", "BCD")
    at_once = decide(before, done, wish("BCD", mode=U), EVERYONE)
    assert shown(at_once)[:3] == ("ABD", "BCD", "")


def test_nothing_is_recomputed_when_no_planned_was_promoted() -> None:
    before = keys("ABC", "ABD", lock=True)
    assert shown(decide(before, group("ABD", token=5), wish("ABE"), EVERYONE))[:3] == (
        "ABD",
        "",
        "",
    )


def test_after_the_last_phase_of_a_reset_the_partition_is_due_again() -> None:
    before = keys("A", of("AB", from_reset=True))
    after = decide(before, group("AB", token=5), wish("ABC"), EVERYONE)
    assert shown(after)[:3] == ("AB", "ABC", "")


def test_a_lost_replica_that_leaves_pending_no_majority_replaces_it() -> None:
    before = keys("ABC", "CD")
    after = decide(before, group("ABC", absent="C", also="D"), wish("CD"), EVERYONE)
    assert shown(after) == ("ABC", "D", "", "C", "")


def test_a_node_that_nobody_counts_any_more_leaves_switch_reduce_with_the_lock() -> None:
    """C was lost while [A, B] → [A, B, C] was JOINT, and that was lost with its leader."""
    before = keys("AB", "ABC", reduce="C", lock=True)
    after = decide(before, group("AB", absent="C"), wish("ABC"), EVERYONE)
    assert after.pending_lock is None
    assert shown(after) == ("AB", "ABC", "", "", "")
    told = orders(after, group("AB", absent="C"), SETTINGS, alive=EVERYONE, reachable=EVERYONE)
    starts = [node for node, order in told if isinstance(order, StartReplica) and order.volatile]
    assert starts == ["C"]


def test_the_stable_switch_of_a_highly_available_partition_keeps_the_chain() -> None:
    before = replace(
        keys("ABC", of("A", force=True)), chain=(Link(nodes=tuple("ABC"), term=1, index=1),)
    )
    asked = replace(wish("ABC"), consistency_mode=ConsistencyMode.HIGH_AVAILABILITY)
    after = decide(before, group("A", token=5), asked, frozenset("A"))
    assert [link.nodes for link in after.chain] == [("A", "B", "C"), ("A",)]


def test_a_strongly_consistent_partition_begins_a_chain_with_its_first_reset_by_hand() -> None:
    graceful = decide(keys("AB", "ABC"), group("ABC", token=5), wish("ABC"), EVERYONE)
    assert shown(graceful)[0] == "ABC"
    assert graceful.chain == ()
    forced = keys("ABC", of("A", force=True))
    after = decide(forced, group("A", token=5), wish("ABC"), frozenset("A"))
    assert [(link.nodes, link.token) for link in after.chain] == [(("A",), 5)]


# ------------------------------------------------------------------------- Full partition restart


def empty(answered: str) -> Group:
    return observe(GROUP, {}, frozenset(answered))


def test_a_full_partition_restart_begins_anew_and_says_so_in_its_keys() -> None:
    before = keys("ABC", "AB", "ABD", reduce="C", append="E")
    after = decide(before, empty("ABC"), wish("ABC"), EVERYONE)
    assert shown(after) == ("ABC", "", "", "", "")
    assert after.bootstrap is None
    assert after.bootstrap_lineage == after.configuration_token == 6
    told = orders(after, empty("ABC"), SETTINGS, alive=EVERYONE, reachable=EVERYONE)
    assert [node for node, _ in told] == ["A", "B", "C"]
    fresh = observe(GROUP, {n: replica(n, 2, term=0, leader=None, token=6) for n in "ABC"})
    decided = decide(after, fresh, wish("ABC"), EVERYONE)
    assert decided.bootstrap == TokenPeers(token=6, peers=tuple(peer(n, 2) for n in "ABC"))
    told = orders(decided, fresh, SETTINGS, alive=EVERYONE, reachable=EVERYONE)
    assert [order for _, order in told if isinstance(order, Bootstrap) and order.lineage == 6]


@pytest.mark.parametrize(
    ("name", "found", "storage"),
    [
        ("one hasn't said anything yet", empty("AB"), Storage.VOLATILE),
        ("files may still be somewhere", empty("ABC"), Storage.PERSISTENT),
    ],
)
def test_no_other_restart_begins_anew(name: str, found: Group, storage: Storage) -> None:
    asked = replace(wish("ABC"), storage=storage)
    assert decide(keys("ABC"), found, asked, EVERYONE) == keys("ABC"), name
    told = orders(keys("ABC"), found, SETTINGS, alive=EVERYONE, reachable=found.answered)
    assert told == [], "nobody starts with nothing while others may hold the data"


def test_a_group_that_left_its_stable_members_may_still_be_led() -> None:
    moved = ConfigurationReport(peers=peers("CDE"), token=5, index=9)
    replicas = {n: replica(n, configuration=moved, leader=None) for n in "DE"}
    found = observe(GROUP, replicas, EVERYONE)
    before = keys("ABC", "CDE", lock=True)
    assert decide(before, found, wish("CDE"), EVERYONE) == before


def test_remains_elsewhere_are_erased_when_a_group_begins_anew() -> None:
    old = ConfigurationReport(peers=peers("ABD"), token=4, index=9)
    found = observe(GROUP, {"D": replica("D", configuration=old, leader=None)}, EVERYONE)
    after = decide(keys("ABC"), found, wish("ABC"), EVERYONE)
    assert after.bootstrap_lineage
    told = orders(after, found, SETTINGS, alive=EVERYONE, reachable=EVERYONE)
    assert [node for node, order in told if isinstance(order, StopReplica)] == ["D"]


# ------------------------------------------------------------------ Approach 2: cancelChangePeers


def test_a_new_wish_cancels_the_running_change() -> None:
    running = group(
        "ABC", also="D", stage=Stage.CATCHING_UP, stage_token=5, stage_peers=peers("ABD")
    )
    waiting = decide(keys("ABC", "ABD"), running, wish("ABE", due=True, mode=C), EVERYONE)
    assert shown(waiting)[:3] == ("ABC", "ABD", "ABE")
    settings = replace(SETTINGS, mode=C)
    told = orders(waiting, running, settings, alive=EVERYONE, reachable=EVERYONE)
    assert told == [("A", CancelChangePeers(group=GROUP, term=3, token=5))]
    cancelled = group("ABC", also="D", reconfiguration_status=ReconfigurationStatus.CANCELLED)
    after = decide(waiting, cancelled, wish("ABE", mode=C), EVERYONE)
    assert shown(after)[:3] == ("ABC", "ABE", "")


@pytest.mark.parametrize(
    ("name", "before", "stage"),
    [
        ("its lock is taken", keys("ABC", "ABD", "ABE", lock=True), Stage.CATCHING_UP),
        ("it is past catching up", keys("ABC", "ABD", "ABE"), Stage.JOINT),
        ("it is a step of a switch", keys("AB", "ABC", "ABE", append="C"), Stage.CATCHING_UP),
        ("it is a reset's", keys("A", of("AB", from_reset=True), "ABE"), Stage.CATCHING_UP),
        ("nothing else is planned", keys("ABC", "ABD"), Stage.CATCHING_UP),
    ],
)
def test_a_change_is_not_cancelled(name: str, before: PartitionKeys, stage: Stage) -> None:
    running = group("ABC", also="D", stage=stage, stage_token=5, stage_peers=peers("ABD"))
    settings = replace(SETTINGS, mode=C)
    told = orders(before, running, settings, alive=EVERYONE, reachable=EVERYONE)
    assert not [order for _, order in told if isinstance(order, CancelChangePeers)], name


def test_a_change_that_failed_by_itself_moves_planned_only_after_the_answer() -> None:
    failed = group("ABC", also="D", reconfiguration_status=ReconfigurationStatus.CATCH_UP_TIMEOUT)
    before = keys("ABC", "ABD", "ABE")
    assert decide(before, failed, wish("ABE", mode=C), EVERYONE) == before
    settings = replace(SETTINGS, mode=C)
    told = orders(before, failed, settings, alive=EVERYONE, reachable=EVERYONE)
    assert [type(order) for _, order in told] == [CancelChangePeers]
