"""What people are told when a node's Lease is in trouble, and which zones it concerns."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as with_fields

from tests.unit.operator.test_operator_topology import identity
from zonequake_operator.planning.conditions import judge
from zonequake_operator.planning.kubernetes_events import EventReason, announce
from zonequake_operator.planning.plan import WriteZone, plan
from zonequake_operator.resources.condition_types import Condition, ConditionType, Reason
from zonequake_operator.resources.leases import Lease, NodeLeaseTrouble, TroubleKind, troubles
from zonequake_operator.resources.model import (
    AssignmentSet,
    ConsistencyMode,
    Partition,
    PartitionKeys,
    Topology,
    Zone,
    ZoneSnapshot,
    ZoneSpec,
    ZoneStatus,
)
from zonequake_protocol.admin import LeaseTrouble

SINCE_MS = 1_800_000_000_123
NODE = "zq-default-0"
EXPIRED = NodeLeaseTrouble(kind=TroubleKind.EXPIRED, since_ms=SINCE_MS, why="GET …: Cannot connect")
NOT_RENEWED = replace(EXPIRED, kind=TroubleKind.NOT_RENEWED)
FENCED = NodeLeaseTrouble(
    kind=TroubleKind.FENCED, since_ms=0, why="counted as left after topology 7"
)


def lease(fenced: str | None = None, holder: str = "p1") -> Lease:
    return Lease(
        name=NODE,
        holder=holder,
        session=1,
        fenced=fenced,
        duration_s=8,
        resource_version="1",
        renewed_ms=SINCE_MS,
    )


def test_what_a_node_says_of_its_lease_is_its_trouble() -> None:
    said = with_fields(
        identity(), lease_trouble=LeaseTrouble.EXPIRED, lease_unrenewed_since_ms=SINCE_MS,
        lease_problem="GET …: Cannot connect",
    )  # fmt: skip
    assert troubles({NODE: said}, {NODE: lease()}) == {NODE: EXPIRED}
    warned = with_fields(said, lease_trouble=LeaseTrouble.NOT_RENEWED)
    assert troubles({NODE: warned}, {NODE: lease()}) == {NODE: NOT_RENEWED}
    assert troubles({NODE: identity()}, {NODE: lease()}) == {}


def test_a_fence_is_the_trouble_of_the_process_that_it_was_taken_from_and_that_still_answers() -> (
    None
):
    fenced = lease(fenced="counted as left")
    trouble = troubles({NODE: identity()}, {NODE: fenced})[NODE]
    assert (trouble.kind, trouble.since_ms) == (TroubleKind.FENCED, SINCE_MS)
    assert troubles({NODE: identity("p2")}, {NODE: fenced}) == {}, "its process ended"
    assert troubles({}, {NODE: fenced}) == {}, "who is silent is told as missing"


def condition(of: dict[str, NodeLeaseTrouble] | None) -> Condition | None:
    found = judge(
        generation=1,
        spec=ZoneSpec(),
        status=ZoneStatus(),
        health={},
        filter_problem=None,
        data_nodes=["A"],
        retry_threshold=10,
        lease_troubles=of,
    )
    return next((c for c in found if c.type is ConditionType.LEASE_TROUBLE), None)


def test_a_zone_that_needs_no_leases_has_no_such_condition() -> None:
    assert condition(None) is None
    healthy = condition({})
    assert healthy is not None
    assert (healthy.status, healthy.reason) == (False, Reason.LEASES_RENEWED)


@pytest.mark.parametrize(
    ("trouble", "reason", "means"),
    [
        (NOT_RENEWED, Reason.LEASE_NOT_RENEWED, "acknowledges until its Lease runs out"),
        (EXPIRED, Reason.LEASE_EXPIRED, "acknowledges nothing of HighAvailability zones"),
        (FENCED, Reason.LEASE_FENCED, "has left, until it has taken its Lease again"),
    ],
)
def test_the_condition_says_which_node_since_when_what_it_means_why_and_what_to_do(
    trouble: NodeLeaseTrouble, reason: Reason, means: str
) -> None:
    found = condition({NODE: trouble})
    assert found is not None
    assert (found.status, found.reason) == (True, reason)
    for part in (NODE, means, trouble.why, "Make sure that it reaches the API server"):
        assert part in found.message
    assert ("2027-01-15T08:00:00.000Z" in found.message) == bool(trouble.since_ms)


def test_the_worst_trouble_is_named_first_and_the_message_keeps_within_its_limit() -> None:
    long = replace(NOT_RENEWED, why="x" * 5000)
    found = condition({f"n{number}": long for number in range(9)} | {"z": FENCED})
    assert found is not None
    assert found.reason is Reason.LEASE_FENCED
    assert found.message.startswith("z ")
    assert "5 more nodes are in trouble" in found.message
    assert len(found.message) < 4096


def zone(of: dict[str, NodeLeaseTrouble] | None, version: str = "7") -> Zone:
    stored = condition(of)
    return Zone(
        name="z",
        namespace="n",
        uid="12345678-0000",
        generation=1,
        resource_version=version,
        spec=ZoneSpec(partitions=1, consistency_mode=ConsistencyMode.HIGH_AVAILABILITY),
        status=ZoneStatus(),
        conditions=() if stored is None else (stored,),
    )


def said(
    before: dict[str, NodeLeaseTrouble] | None, after: dict[str, NodeLeaseTrouble]
) -> list[EventReason]:
    return [one.reason for one in announce(zone(before), zone(after), {"LeaseTrouble": "then"})]


def test_trouble_is_told_once_when_it_begins_when_it_becomes_worse_and_when_it_ends() -> None:
    assert said({}, {NODE: NOT_RENEWED}) == [EventReason.LEASE_TROUBLE]
    assert said({NODE: NOT_RENEWED}, {NODE: EXPIRED}) == [EventReason.LEASE_TROUBLE]
    assert said({NODE: EXPIRED}, {"another": EXPIRED}) == []
    assert said({NODE: EXPIRED}, {}) == [EventReason.LEASES_RENEWED]
    assert said(None, {}) == [], "a zone that has just begun"
    begun = announce(zone({}), zone({NODE: NOT_RENEWED}), {"LeaseTrouble": "then"})
    worse = announce(zone({NODE: NOT_RENEWED}), zone({NODE: EXPIRED}), {"LeaseTrouble": "then"})
    assert begun[0].is_warning
    assert begun[0].once != worse[0].once


@pytest.mark.parametrize(
    ("mode", "node", "concerned"),
    [
        (ConsistencyMode.HIGH_AVAILABILITY, "A", True),
        (ConsistencyMode.HIGH_AVAILABILITY, "X", False),
        (ConsistencyMode.STRONG_CONSISTENCY, "A", False),
    ],
)
def test_only_high_availability_zones_with_replicas_on_the_node_are_concerned(
    mode: ConsistencyMode, node: str, concerned: bool
) -> None:
    keys = PartitionKeys(stable=AssignmentSet.of("A", "B"))
    decided = plan(
        ZoneSnapshot(
            now_ms=0,
            zone=replace(zone({}), spec=ZoneSpec(partitions=1, consistency_mode=mode)),
            partitions={0: Partition(number=0, resource_version="1", keys=keys)},
            topology=Topology(),
            reports={},
            lease_troubles={node: EXPIRED},
        )
    )
    (write,) = [action for action in decided.writes if isinstance(action, WriteZone)]
    troubled = [c for c in write.conditions if c.type is ConditionType.LEASE_TROUBLE and c.status]
    assert bool(troubled) == concerned
    assert write.urgent
