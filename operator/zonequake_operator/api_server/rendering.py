"""The operator's model to custom resources, as the API server takes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from zonequake_operator.nodes.data_nodes import deadline_down_ms, deadline_up_ms
from zonequake_operator.planning.waiting import armed
from zonequake_operator.resources.condition_types import Condition
from zonequake_operator.resources.model import (
    PartitionKeys,
    PartitionStatus,
    PartitionSummary,
    ResetTimer,
    ResourceStruct,
    Timer,
    Topology,
    Zone,
    ZoneSpec,
    ZoneStatus,
    group_name,
)
from zonequake_operator.resources.parsing import copied
from zonequake_operator.resources.stored_shapes import (
    API_VERSION,
    TOPOLOGY_NAME,
    ZONE_LABEL,
    Object,
    WireCondition,
    WireDeparture,
    WireNode,
    WirePartitionStatus,
    WireResetTimer,
    WireTimer,
    WireTopologyStatus,
    WireZoneStatus,
    partition_name,
    to_rfc3339,
)


def render_zone_status(
    status: ZoneStatus,
    *,
    spec: ZoneSpec,
    conditions: Iterable[Condition],
    summary: PartitionSummary,
    previous: Mapping[str, Any],
    now_ms: int,
) -> Object:
    """Renders a zone's whole status. `previous` is the one it replaces, for the transition times.

    `spec` gives the timers their deadlines.
    """
    nodes = status.data_nodes
    wire = WireZoneStatus(
        observed_generation=status.observed_generation,
        revision=status.revision,
        handled_revision=status.handled_revision,
        conditions=render_conditions(conditions, status.observed_generation, previous, now_ms),
        reset=_render_reset_timer(status.reset, spec.reset_timeout_s),
        reset_due=status.reset_due,
        armed=armed(status, spec),
        partitions=summary,
    )
    if nodes is not None:
        wire = msgspec.structs.replace(
            wire,
            topology_version=nodes.topology_version,
            data_nodes=sorted(nodes.nodes),
            data_node_count=len(nodes.nodes),
            filter=nodes.filter,
            scale_up=_render_timer(nodes.up, deadline_up_ms(nodes, spec.timers)),
            scale_down=_render_timer(nodes.down, deadline_down_ms(nodes, spec.timers)),
        )
    return as_json(wire)


def render_conditions(
    conditions: Iterable[Condition], generation: int, previous: Mapping[str, Any], now_ms: int
) -> tuple[WireCondition, ...]:
    """Conditions of a status; one that stays as it was in `previous` keeps its transition time."""
    before = {c["type"]: c for c in previous.get("conditions", [])}
    rendered = []
    for condition in conditions:
        value = "True" if condition.status else "False"
        old = before.get(condition.type, {})
        since = old.get("lastTransitionTime") if old.get("status") == value else None
        rendered.append(
            WireCondition(
                type=condition.type,
                status=value,
                reason=condition.reason,
                message=condition.message,
                observed_generation=generation,
                last_transition_time=since or to_rfc3339(now_ms),
            )
        )
    return tuple(rendered)


def _render_timer(timer: Timer | None, deadline_ms: int | None) -> WireTimer | None:
    if timer is None:
        return None
    return WireTimer(
        nodes=sorted(timer.nodes),
        armed_at=to_rfc3339(timer.armed_ms),
        deadline=None if deadline_ms is None else to_rfc3339(deadline_ms),
    )


def _render_reset_timer(timer: ResetTimer | None, timeout_s: int) -> WireResetTimer | None:
    if timer is None:
        return None
    return WireResetTimer(
        nodes=sorted(timer.nodes),
        armed_at=to_rfc3339(timer.armed_ms),
        deadline=to_rfc3339(timer.armed_ms + timeout_s * 1000),
        revision=timer.revision,
        topology_version=timer.topology_version,
    )


def render_partition(zone: Zone, number: int) -> Object:
    """Renders a new Partition, owned by its zone."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Partition",
        "metadata": {
            "name": partition_name(zone.name, number),
            "namespace": zone.namespace,
            "labels": {"app.kubernetes.io/name": "zonequake", ZONE_LABEL: zone.name},
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": "DistributionZone",
                    "name": zone.name,
                    "uid": zone.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "zone": zone.name,
            "partition": number,
            "group": group_name(zone.name, zone.uid, number),
        },
    }


def render_partition_status(keys: PartitionKeys, view: PartitionStatus) -> Object:
    """Renders a partition's whole status."""
    status = as_json(copied(keys, WirePartitionStatus))
    status |= as_json(view)
    status["stage"] = view.stage.value  # shown by `kubectl get zp` even at its default
    return status


def render_topology(namespace: str) -> Object:
    """Renders a new, empty LogicalTopology."""
    return {
        "apiVersion": API_VERSION,
        "kind": "LogicalTopology",
        "metadata": {"name": TOPOLOGY_NAME, "namespace": namespace},
        "spec": {},
    }


def render_topology_status(topology: Topology) -> Object:
    """Renders a LogicalTopology's whole status."""
    return as_json(
        WireTopologyStatus(
            version=topology.version,
            node_count=len(topology.nodes),
            node_names=tuple(sorted(topology.nodes)),
            nodes=tuple(copied(node, WireNode) for _, node in sorted(topology.nodes.items())),
            departed=tuple(
                WireDeparture(name=name, since=departure.since, left=departure.left)
                for name, departure in sorted(topology.departed.items())
            ),
        )
    )


def as_json(wire: ResourceStruct) -> Object:
    """Returns the value as the API server gives it back: lists, never tuples."""
    built: Object = msgspec.json.decode(msgspec.json.encode(wire))
    return built
