"""Custom resources from the API server to the operator's model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from zonequake_operator.errors import ResourceError
from zonequake_operator.resources.condition_types import Condition, ConditionType, Reason
from zonequake_operator.resources.model import (
    DEFAULT_SCALE_DOWN_S,
    DEFAULT_SCALE_UP_S,
    INFINITE,
    AssignmentSet,
    AssignmentsLink,
    DataNodes,
    Departure,
    Partition,
    PartitionKeys,
    PartitionStatus,
    ResetTimer,
    Timer,
    Timers,
    TokenPeers,
    Topology,
    TopologyNode,
    Zone,
    ZoneSpec,
    ZoneStatus,
)
from zonequake_operator.resources.stored_shapes import (
    WireCondition,
    WirePartitionStatus,
    WireResetTimer,
    WireTimer,
    WireTopologyStatus,
    WireZoneSpec,
    WireZoneStatus,
    from_rfc3339,
    reset_requests,
)

T = TypeVar("T")
N = TypeVar("N", AssignmentSet, AssignmentsLink)
_TYPES = frozenset(ConditionType)
_REASONS = frozenset(Reason)


def parse_zone(obj: Mapping[str, Any]) -> Zone:
    """Parses a DistributionZone as listed.

    Raises:
        ResourceError: its status isn't of the shape that this operator writes.
    """
    meta = obj["metadata"]
    status = convert(obj.get("status") or {}, WireZoneStatus, f"status of zone {meta['name']}")
    data_nodes = None
    if status.data_nodes is not None:
        data_nodes = DataNodes(
            nodes=frozenset(status.data_nodes),
            up=_parse_timer(status.scale_up),
            down=_parse_timer(status.scale_down),
            filter=status.filter,
            topology_version=status.topology_version,
        )
    return Zone(
        name=meta["name"],
        namespace=meta["namespace"],
        uid=meta["uid"],
        generation=meta.get("generation", 1),
        resource_version=meta["resourceVersion"],
        deleting="deletionTimestamp" in meta,
        reset_requests=reset_requests(meta.get("annotations"), meta["uid"]),
        spec=parse_zone_spec(obj.get("spec") or {}),
        status=ZoneStatus(
            observed_generation=status.observed_generation,
            revision=status.revision,
            handled_revision=status.handled_revision,
            data_nodes=data_nodes,
            reset=_parse_reset_timer(status.reset),
            reset_due=status.reset_due,
        ),
        conditions=parse_conditions(status.conditions),
        summary=status.partitions,
    )


def parse_conditions(stored: Iterable[WireCondition]) -> tuple[Condition, ...]:
    """Conditions of a status. Those that only another version knows are left out: the status then
    differs from what this one says, and is written again."""
    return tuple(
        Condition(
            type=ConditionType(c.type),
            status=c.status == "True",
            reason=Reason(c.reason),
            message=c.message,
        )
        for c in stored
        if c.type in _TYPES and c.reason in _REASONS
    )


def parse_zone_spec(spec: Mapping[str, Any]) -> ZoneSpec | str:
    """Parses the spec with the documents' defaults; returns the sentence that says why it can't be
    used, if it can't.

    The time-outs' defaults are applied here and not by the CRD: a defaulted field would break the
    rule that refuses AUTO_ADJUST beside SCALE_UP (design §2).
    """
    try:
        wire = msgspec.convert(spec, WireZoneSpec)
        joint = wire.data_nodes_auto_adjust is not None
        if joint:
            both = _parse_seconds(wire.data_nodes_auto_adjust, None)
            timers = Timers(scale_up_s=both, scale_down_s=both, joint=True)
        else:
            timers = Timers(
                scale_up_s=_parse_seconds(wire.data_nodes_auto_adjust_scale_up, DEFAULT_SCALE_UP_S),
                scale_down_s=_parse_seconds(
                    wire.data_nodes_auto_adjust_scale_down, DEFAULT_SCALE_DOWN_S
                ),
            )
        reset_timeout_s = wire.partition_distribution_reset_timeout
        if reset_timeout_s < 0:
            raise msgspec.ValidationError(
                f"found the partitionDistributionResetTimeout {reset_timeout_s}, expected whole "
                "seconds (0 or more)"
            )
    except msgspec.ValidationError as error:
        return f"The spec can't be used: {error}."
    return msgspec.structs.replace(
        copied(wire, ZoneSpec),
        timers=timers,
        filter=wire.data_nodes_filter or None,
        reset_timeout_s=reset_timeout_s,
    )


def _parse_seconds(value: int | str | None, default: int | None) -> int | None:
    if value is None:
        return default
    if value == "Infinite":
        return INFINITE
    if isinstance(value, int) and value >= 0:
        return value
    raise msgspec.ValidationError(
        f"found the time-out {value!r}, expected whole seconds (0 or more) or Infinite"
    )


def _parse_timer(wire: WireTimer | None) -> Timer | None:
    if wire is None:
        return None
    return Timer(nodes=frozenset(wire.nodes), armed_ms=from_rfc3339(wire.armed_at))


def _parse_reset_timer(wire: WireResetTimer | None) -> ResetTimer | None:
    if wire is None:
        return None
    return ResetTimer(
        nodes=frozenset(wire.nodes),
        armed_ms=from_rfc3339(wire.armed_at),
        revision=wire.revision,
        topology_version=wire.topology_version,
    )


def parse_partition(obj: Mapping[str, Any]) -> Partition:
    """Parses a Partition as listed.

    Raises:
        ResourceError: its status isn't of the shape that this operator writes.
    """
    meta, number = obj["metadata"], obj["spec"]["partition"]
    wire = convert(obj.get("status") or {}, WirePartitionStatus, f"status of {meta['name']}")
    return Partition(
        number=number,
        resource_version=meta["resourceVersion"],
        keys=replace(
            copied(wire, PartitionKeys),
            stable=_unless_empty(wire.stable),
            pending=_unless_empty(wire.pending),
            planned=_unless_empty(wire.planned),
            switch_reduce=tuple(sorted(wire.switch_reduce)),
            switch_append=tuple(sorted(wire.switch_append)),
            bootstrap=_sorted_peers(wire.bootstrap),
            pending_lock=_sorted_peers(wire.pending_lock),
            chain=tuple(map(_sorted_nodes, wire.chain)),
        ),
        view=copied(wire, PartitionStatus),
    )


def owner_uid(obj: Mapping[str, Any]) -> str | None:
    """Returns the uid of the resource's controller."""
    for owner in obj["metadata"].get("ownerReferences", []):
        if owner.get("controller"):
            return str(owner["uid"])
    return None


def _unless_empty(stored: AssignmentSet | None) -> AssignmentSet | None:
    return None if stored is None or not stored.nodes else _sorted_nodes(stored)


def _sorted_nodes(stored: N) -> N:
    return msgspec.structs.replace(stored, nodes=tuple(sorted(stored.nodes)))


def _sorted_peers(stored: TokenPeers | None) -> TokenPeers | None:
    if stored is None:
        return None
    return msgspec.structs.replace(stored, peers=tuple(sorted(stored.peers)))


def parse_topology(obj: Mapping[str, Any]) -> Topology:
    """Parses a LogicalTopology.

    Raises:
        ResourceError: its status isn't of the shape that this operator writes.
    """
    wire = convert(obj.get("status") or {}, WireTopologyStatus, "status of the LogicalTopology")
    return Topology(
        version=wire.version,
        nodes={node.name: copied(node, TopologyNode) for node in wire.nodes},
        departed={each.name: copied(each, Departure) for each in wire.departed},
    )


def copied(value: object, to: type[T]) -> T:
    """Copies the fields of `value` that `to` has, too: a stored value's model, or the other way."""
    return msgspec.convert(value, to, from_attributes=True)


def convert(obj: Mapping[str, Any], to: type[T], what: str) -> T:
    """Converts a stored object to its shape. Raises ResourceError, which begins with `what`."""
    try:
        return msgspec.convert(obj, to)
    except msgspec.ValidationError as error:
        raise ResourceError(
            f"{what}: {error}; was it written by hand or by another version?"
        ) from None
