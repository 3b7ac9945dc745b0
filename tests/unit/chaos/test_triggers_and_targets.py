"""Triggers over made-up views, and the choice of targets by seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from msgspec.structs import replace as replace_struct

from tests.unit.chaos.conftest import Group
from zonequake_chaos.observe.view import ClusterView, assemble
from zonequake_chaos.scenario.faults import FaultTarget, TargetRole
from zonequake_chaos.scenario.triggers import (
    AfterTime,
    AtOnce,
    NodeState,
    OnKey,
    OnLeader,
    OnNodes,
    OnSettled,
    OnStage,
    PartitionKey,
)
from zonequake_chaos.targeting.targets import NoTarget, choose_nodes, choose_sighting
from zonequake_chaos.targeting.triggers import (
    EarlierFaults,
    PartitionPlace,
    Sighting,
    sightings,
    unsettled,
)
from zonequake_kube.objects import KeysView, LinkView, PodView, keys_view
from zonequake_protocol.admin import ReplicaRole, Stage

NOBODY = EarlierFaults()
Views = Callable[..., ClusterView]


def places(found: Sequence[Sighting]) -> list[int]:
    numbers: list[int] = []
    for sighting in found:
        assert sighting.place is not None
        numbers.append(sighting.place[1])
    return numbers


def test_a_stage_trigger_sees_exactly_the_partitions_in_that_stage(moving: ClusterView) -> None:
    assert places(sightings(OnStage(stages=[Stage.CATCHING_UP]), moving, NOBODY)) == [1, 2]
    assert places(sightings(OnStage(stages=[Stage.JOINT]), moving, NOBODY)) == [3]
    both = OnStage(stages=[Stage.CATCHING_UP, Stage.JOINT])
    assert places(sightings(both, moving, NOBODY)) == [1, 2, 3]


def test_progress_bounds_apply_to_the_slowest_catching_up_peer(moving: ClusterView) -> None:
    half = OnStage(stages=[Stage.CATCHING_UP], min_progress=0.3)
    assert places(sightings(half, moving, NOBODY)) == [1]
    early = OnStage(stages=[Stage.CATCHING_UP], max_progress=0.3)
    assert places(sightings(early, moving, NOBODY)) == [2]


def test_a_sighting_tells_stage_progress_leader_and_peers(moving: ClusterView) -> None:
    (seen,) = sightings(OnStage(stages=[Stage.CATCHING_UP], min_progress=0.3), moving, NOBODY)
    assert (seen.stage, seen.progress, seen.leader) == (Stage.CATCHING_UP, 0.5, "n1")
    assert seen.catching_up == ("n3",)
    assert seen.token == 2


def test_another_partition_than_an_earlier_faults_leaves_that_one_out(moving: ClusterView) -> None:
    trigger = OnStage(stages=[Stage.CATCHING_UP], other_partition_than="first")
    before = EarlierFaults(places={"first": ("z", 1)})
    assert places(sightings(trigger, moving, before)) == [2]


def test_a_partition_without_a_leader_is_in_no_stage(view_of: Views, group: type[Group]) -> None:
    view = view_of([group(partition=0, leader=None, followers=("n0", "n1"))])
    assert sightings(OnStage(stages=[Stage.NONE]), view, NOBODY) == []


def test_key_triggers_look_at_the_resource(moving: ClusterView) -> None:
    assert places(sightings(OnKey(key=PartitionKey.PENDING), moving, NOBODY)) == [1, 2, 3]
    assert places(sightings(OnKey(key=PartitionKey.PENDING, empty=True), moving, NOBODY)) == [0]
    assert places(sightings(OnKey(key=PartitionKey.STABLE, holds="n3"), moving, NOBODY)) == [3]


AFTER_A_RESET = KeysView(
    zone="z",
    partition=0,
    stable=("zq-default-0", "zq-default-1", "zq-default-2"),
    pending=("zq-default-2",),
    planned=("zq-default-2", "zq-default-1"),
    forced=frozenset({"pending"}),
    from_reset=frozenset({"planned"}),
    chain=(
        LinkView(nodes=("zq-default-0", "zq-default-1", "zq-default-2"), term=1, index=7),
        LinkView(nodes=("zq-default-2",), term=5_000_000_002, index=9),
    ),
)


@pytest.mark.parametrize(
    ("trigger", "holds"),
    [
        (OnKey(key=PartitionKey.PENDING, forced=True, equals=["default-2"]), True),
        (OnKey(key=PartitionKey.PENDING, forced=False), False),
        (OnKey(key=PartitionKey.PENDING, equals=["default-2", "default-1"]), False),
        (OnKey(key=PartitionKey.PLANNED, from_reset=True, equals=["default-1", "default-2"]), True),
        (OnKey(key=PartitionKey.STABLE, length=3), True),
        (OnKey(key=PartitionKey.STABLE, length=2), False),
        (OnKey(key=PartitionKey.STABLE, holds="default-1"), True),
        (OnKey(key=PartitionKey.STABLE, holds="default-3"), False),
        (OnKey(key=PartitionKey.CHAIN, length=2), True),
        (OnKey(key=PartitionKey.CHAIN, length=1), False),
        (OnKey(key=PartitionKey.CHAIN, length=2, equals=["default-2"]), True),
        (OnKey(key=PartitionKey.SWITCH_REDUCE), False),
        (OnKey(key=PartitionKey.SWITCH_REDUCE, empty=True), True),
    ],
)
def test_a_key_trigger_holds_if_all_of_its_conditions_do(
    trigger: OnKey, holds: bool, view_of: Views, group: type[Group]
) -> None:
    seen = view_of([group(partition=0, leader="n0", followers=())], keys=[AFTER_A_RESET])
    assert bool(sightings(trigger, seen, NOBODY)) is holds


def test_a_lost_volatile_replica_that_is_not_taken_out_yet_is_not_settled(
    view_of: Views, group: type[Group]
) -> None:
    calm = group(partition=0, leader="n0", followers=("n1",))
    due = KeysView(zone="z", partition=0, stable=("n0", "n1"), switch_reduce=("n1",))
    assert unsettled(view_of([calm], keys=[due]))


def test_a_member_that_waits_with_nothing_is_not_settled(
    view_of: Views, group: type[Group]
) -> None:
    calm = group(partition=0, leader="n0", followers=("n1",))
    assert not unsettled(view_of([calm]))
    assert unsettled(view_of([replace(calm, waiting=("n1",))]))


def test_a_node_trigger_asks_all_of_its_nodes(view_of: Views, group: type[Group]) -> None:
    calm = [group(partition=0, leader="zq-default-0", followers=("zq-default-1",))]
    view = view_of(calm, silent=("zq-default-1",))

    def seen(state: NodeState, *nodes: str) -> bool:
        return bool(sightings(OnNodes(nodes=list(nodes), state=state), view, NOBODY))

    assert seen(NodeState.ANSWERS, "default-0")
    assert not seen(NodeState.ANSWERS, "default-0", "default-1")
    assert seen(NodeState.SILENT, "default-1", "default-2")
    assert not seen(NodeState.SILENT, "default-1", "default-0")
    assert seen(NodeState.READY, "default-0")


def test_named_nodes_keep_their_order_and_none_may_be_absent(
    view_of: Views, group: type[Group]
) -> None:
    calm = [group(partition=0, leader="zq-default-0", followers=("zq-default-1",))]
    view = view_of(calm)
    (seen,) = sightings(AtOnce(), view, NOBODY)

    def chosen(*nodes: str) -> tuple[str, ...]:
        target = FaultTarget(role=TargetRole.NODES, nodes=list(nodes))
        return choose_nodes(target, view, seen, random.Random(1))

    assert chosen("default-1", "default-0") == ("zq-default-1", "zq-default-0")
    with pytest.raises(NoTarget, match="found no default-7 among zq-default-0, zq-default-1"):
        chosen("default-0", "default-7")


def test_a_leader_trigger_can_name_the_node(moving: ClusterView) -> None:
    assert places(sightings(OnLeader(node="n0"), moving, NOBODY)) == [0, 3]
    assert places(sightings(OnLeader(node="n9"), moving, NOBODY)) == []


def test_time_counts_from_the_begin_of_the_faults(view_of: Views, group: type[Group]) -> None:
    groups = [group(partition=0, leader="n0", followers=("n1",))]
    assert sightings(AfterTime(after_s=5), view_of(groups, at_ns=4_999_999_999), NOBODY) == []
    assert sightings(AfterTime(after_s=5), view_of(groups, at_ns=5_000_000_000), NOBODY)
    assert sightings(AtOnce(), view_of(groups), NOBODY)


def test_time_can_count_from_an_earlier_faults_effect(view_of: Views, group: type[Group]) -> None:
    view = view_of([group(partition=0, leader="n0", followers=())], at_ns=8_000_000_000)
    trigger = AfterTime(after_s=5, since="lag")
    assert sightings(trigger, view, NOBODY) == [], "it has not taken effect"
    assert sightings(trigger, view, EarlierFaults(effective_ns={"lag": 3_000_000_001})) == []
    assert sightings(trigger, view, EarlierFaults(effective_ns={"lag": 3_000_000_000}))


def test_a_key_can_be_asked_for_in_every_partition(moving: ClusterView) -> None:
    anywhere = OnKey(key=PartitionKey.PENDING, length=3)
    assert places(sightings(anywhere, moving, NOBODY)) == [1, 2, 3]
    everywhere = OnKey(key=PartitionKey.PENDING, length=3, everywhere=True)
    assert sightings(everywhere, moving, NOBODY) == []
    stable = OnKey(key=PartitionKey.STABLE, everywhere=True)
    assert places(sightings(stable, moving, NOBODY)) == [0, 1, 2, 3]


def test_settled_needs_every_partition_and_every_node(
    view_of: Views, group: type[Group], pod_of: Callable[..., PodView], moving: ClusterView
) -> None:
    calm = [group(partition=0, leader="n0", followers=("n1", "n2"))]
    assert sightings(OnSettled(), view_of(calm), NOBODY)
    assert sightings(OnSettled(), moving, NOBODY) == []
    assert any("n2 does not answer" in r for r in unsettled(view_of(calm, silent=("n2",))))
    unready = view_of(calm, pods={"n1": pod_of("n1", ready=False)})
    assert unsettled(unready) == ["n1 is not Ready"]
    planned = [group(partition=0, leader="n0", followers=("n1", "n2"), planned=("n3",))]
    assert unsettled(view_of(planned))


def test_roles_are_seen_from_the_partition_of_the_sighting(moving: ClusterView) -> None:
    (seen,) = sightings(OnStage(stages=[Stage.CATCHING_UP], min_progress=0.3), moving, NOBODY)
    rng = random.Random(1)

    def chosen(role: TargetRole, count: int = 1) -> tuple[str, ...]:
        return choose_nodes(FaultTarget(role=role, count=count), moving, seen, rng)

    assert chosen(TargetRole.CATCHING_UP_PEER) == ("n3",)
    assert chosen(TargetRole.LEADER) == ("n1",)
    assert chosen(TargetRole.FOLLOWER, 2) == ("n0", "n2")
    assert chosen(TargetRole.ALL) == ("n0", "n1", "n2", "n3")


def test_the_same_seed_chooses_the_same_targets_and_seeds_differ(moving: ClusterView) -> None:
    target = FaultTarget(role=TargetRole.ANY)
    trigger = OnStage(stages=[Stage.CATCHING_UP, Stage.JOINT])

    def draw(seed: int) -> list[tuple[PartitionPlace | None, tuple[str, ...]]]:
        rng = random.Random(f"{seed}/targets")
        drawn = []
        for _ in range(5):
            seen = choose_sighting(sightings(trigger, moving, NOBODY), rng)
            drawn.append((seen.place, choose_nodes(target, moving, seen, rng)))
        return drawn

    assert draw(7) == draw(7)
    assert len({str(draw(seed)) for seed in range(10)}) > 1


@pytest.mark.parametrize(
    "target",
    [
        FaultTarget(role=TargetRole.NODE, node="n9"),
        FaultTarget(role=TargetRole.LEADER, pool="other"),
        FaultTarget(role=TargetRole.FOLLOWER, count=4),
    ],
)
def test_an_empty_or_too_small_choice_is_never_a_quiet_pass(
    target: FaultTarget, moving: ClusterView
) -> None:
    (seen,) = sightings(OnStage(stages=[Stage.CATCHING_UP], min_progress=0.3), moving, NOBODY)
    with pytest.raises(NoTarget, match="found"):
        choose_nodes(target, moving, seen, random.Random(1))


def test_a_replica_of_a_zone_that_was_dropped_is_no_replica_of_its_namesake(
    view_of: Views, group: type[Group]
) -> None:
    """A node that was away then brings it along, and no run would ever have begun again."""
    view = view_of([group(partition=0, leader="n1", followers=("n2", "n3"))])
    stale = replace_struct(
        view.partitions["z", 0].replicas["n2"], group="z.ffffffff.0", role=ReplicaRole.WAITING
    )
    lone = replace_struct(stale, group="y.ffffffff.0", zone="y")
    nodes = [
        replace(
            node,
            report=replace_struct(node.report, replicas=[*node.report.replicas, stale, lone]),
        )
        for node in view.nodes.values()
        if node.report is not None
    ]
    keys = keys_view(
        {
            "metadata": {"ownerReferences": [{"controller": True, "uid": "00000000-1"}]},
            "spec": {"zone": "z", "partition": 0},
            "status": {"stable": {"nodes": ["n1", "n2", "n3"]}},
        }
    )
    seen = assemble(at_ns=1, began_ns=0, nodes=nodes, keys=[keys])
    assert unsettled(seen) == []
