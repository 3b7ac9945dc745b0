"""Resources there and back, and specs with the documents' defaults."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonequake_operator.api_server.rendering import (
    render_partition,
    render_partition_status,
    render_topology_status,
    render_zone_status,
)
from zonequake_operator.errors import ResourceError
from zonequake_operator.resources.condition_types import Condition, ConditionType, Reason
from zonequake_operator.resources.model import (
    AssignmentSet,
    AssignmentsLink,
    DataNodes,
    Departure,
    PartitionKeys,
    PartitionState,
    PartitionStatus,
    PartitionSummary,
    ResetDue,
    ResetTimer,
    Timer,
    Timers,
    TokenPeers,
    Topology,
    TopologyNode,
    ZoneSpec,
    ZoneStatus,
)
from zonequake_operator.resources.parsing import (
    parse_partition,
    parse_topology,
    parse_zone,
    parse_zone_spec,
)
from zonequake_operator.resources.stored_shapes import from_rfc3339, to_rfc3339
from zonequake_protocol.admin import PeerName, Stage

META = {"name": "z", "namespace": "ns", "uid": "u", "resourceVersion": "5", "generation": 2}
SPEC = ZoneSpec(timers=Timers(scale_up_s=300, scale_down_s=None), reset_timeout_s=7)
STATUS = ZoneStatus(
    observed_generation=2,
    revision=7,
    handled_revision=6,
    data_nodes=DataNodes(
        nodes=frozenset("AB"),
        up=Timer(nodes=frozenset("C"), armed_ms=1_700_000_000_123),
        down=Timer(nodes=frozenset("B"), armed_ms=1_700_000_001_000),
        filter='"SSD"',
        topology_version=4,
    ),
    reset=ResetTimer(
        nodes=frozenset("B"), armed_ms=1_700_000_001_000, revision=6, topology_version=3
    ),
    reset_due=ResetDue(revision=5, topology_version=2),
)
READY = Condition(
    type=ConditionType.READY, status=True, reason=Reason.ALL_PARTITIONS_SERVE, message="All."
)


def rendered(previous: dict[str, object], now_ms: int, ready: Condition = READY) -> dict:  # type: ignore[type-arg]
    return render_zone_status(
        STATUS,
        spec=SPEC,
        conditions=[ready],
        summary=PartitionSummary(total=3, available=2, moving=1),
        previous=previous,
        now_ms=now_ms,
    )


def test_a_zone_s_status_comes_back_as_it_went() -> None:
    zone = parse_zone({"metadata": META, "spec": {}, "status": rendered({}, 5)})
    assert zone.status == STATUS
    assert zone.conditions == (READY,)
    assert zone.summary == PartitionSummary(total=3, available=2, moving=1)


def test_deadlines_are_shown_to_the_millisecond_and_infinite_ones_are_not() -> None:
    status = rendered({}, 5)
    assert status["scaleUp"]["armedAt"] == "2023-11-14T22:13:20.123Z"
    assert status["scaleUp"]["deadline"] == "2023-11-14T22:18:20.123Z"
    assert "deadline" not in status["scaleDown"]
    assert status["reset"]["deadline"] == "2023-11-14T22:13:28.000Z"


def test_a_transition_time_moves_only_when_the_status_flips() -> None:
    first = rendered({}, 1000)
    again = rendered(first, 9000)
    assert again == first
    flipped = rendered(
        first,
        9000,
        Condition(type=ConditionType.READY, status=False, reason=Reason.STARTING, message="No."),
    )
    assert flipped["conditions"][0]["lastTransitionTime"] == to_rfc3339(9000)


@pytest.mark.parametrize(
    ("spec", "timers"),
    [
        ({}, Timers(scale_up_s=0, scale_down_s=None)),
        ({"dataNodesAutoAdjustScaleUp": 300}, Timers(scale_up_s=300, scale_down_s=None)),
        ({"dataNodesAutoAdjustScaleDown": 5}, Timers(scale_up_s=0, scale_down_s=5)),
        ({"dataNodesAutoAdjust": 9}, Timers(scale_up_s=9, scale_down_s=9, joint=True)),
        (
            {"dataNodesAutoAdjust": "Infinite"},
            Timers(scale_up_s=None, scale_down_s=None, joint=True),
        ),
    ],
)
def test_time_outs_have_the_documents_defaults(spec: dict[str, object], timers: Timers) -> None:
    parsed = parse_zone_spec(spec)
    assert isinstance(parsed, ZoneSpec)
    assert parsed.timers == timers


@pytest.mark.parametrize(
    "spec", [{"dataNodesAutoAdjust": -1}, {"dataNodesAutoAdjust": "soon"}, {"replicas": "three"}]
)
def test_a_spec_that_cannot_be_used_gives_a_sentence(spec: dict[str, object]) -> None:
    parsed = parse_zone_spec(spec)
    assert isinstance(parsed, str)
    assert parsed.startswith("The spec can't be used: ")


def test_partition_keys_come_back_as_they_went() -> None:
    peers = (PeerName("A", "1"), PeerName("B", "2"))
    keys = PartitionKeys(
        stable=AssignmentSet.of("B", "A"),
        pending=AssignmentSet(nodes=("C",), force=True),
        planned=AssignmentSet(nodes=("A", "C"), from_reset=True),
        configuration_token=9,
        bootstrap=TokenPeers(token=1, peers=peers),
        pending_lock=TokenPeers(token=9, peers=peers),
        change_trigger_revision=3,
        switch_reduce=("A",),
        switch_append=("B", "C"),
        reset_revision=2,
        chain=(
            AssignmentsLink(nodes=("A", "B"), term=1, index=7),
            AssignmentsLink(nodes=("C",), term=3, index=9),
        ),
    )
    view = PartitionStatus(leader="A", term=4, stage=Stage.JOINT, state=PartitionState.DEGRADED)
    zone = parse_zone({"metadata": META, "spec": {}})
    obj = render_partition(zone, 12)
    assert obj["spec"] == {"zone": "z", "partition": 12, "group": "z.u.12"}
    obj["metadata"]["resourceVersion"] = "8"
    obj["status"] = render_partition_status(keys, view)
    parsed = parse_partition(obj)
    assert (parsed.number, parsed.keys, parsed.view) == (12, keys, view)


def test_a_topology_comes_back_as_it_went() -> None:
    node = TopologyNode(
        name="A",
        process_incarnation="p",
        storage_incarnation="s",
        pod_uid="u",
        restarts=2,
        attributes={"a": "b"},
        peer_address="x:1",
        since=3,
        lease_session=4,
    )
    topology = Topology(version=3, nodes={"A": node}, departed={"B": Departure(since=1, left=2)})
    status = render_topology_status(topology)
    assert status["nodeNames"] == ["A"]
    assert parse_topology({"status": status}) == topology


def test_a_status_written_by_hand_is_refused_with_its_place() -> None:
    with pytest.raises(ResourceError, match=r"status of zone z.*revision"):
        parse_zone({"metadata": META, "spec": {}, "status": {"revision": "many"}})


def test_a_condition_that_only_another_version_knows_stops_no_zone() -> None:
    known = {"type": "Ready", "status": "True", "reason": "AllPartitionsServe", "message": "All."}
    stored = [known, known | {"type": "Sparkling"}, known | {"reason": "ByMagic"}]
    zone = parse_zone({"metadata": META, "spec": {}, "status": {"conditions": stored}})
    assert zone.conditions == (READY,)


@given(st.integers(0, 4_000_000_000_000))
def test_times_come_back_to_the_millisecond(unix_ms: int) -> None:
    assert from_rfc3339(to_rfc3339(unix_ms)) == unix_ms


def test_a_partition_without_a_first_leader_shows_no_state() -> None:
    status = render_partition_status(PartitionKeys(configuration_token=1), PartitionStatus())
    assert "state" not in status
    assert status["stage"] == "NONE"


def test_conditions_of_a_newer_operator_or_of_another_controller_are_no_obstacle() -> None:
    """An operator that was rolled back could read none of its zones any more."""
    status = rendered({}, 0)
    status["conditions"] += [
        {"type": "Verified", "status": "True", "reason": "Idle", "message": ""},
        {"type": "Paused", "status": "True", "reason": "NotInventedYet", "message": ""},
    ]
    obj = {"metadata": META, "spec": {}, "status": status}
    assert parse_zone(obj).conditions == (READY,)
