"""The operator's model to custom resources, as the API server takes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from zonequake_operator.nodes.data_nodes import deadline_down_ms, deadline_up_ms
from zonequake_operator.planning.waiting import armed
from zonequake_operator.resources.crd_schema import (
    API_VERSION,
    TOPOLOGY_NAME,
    ZONE_LABEL,
    Object,
    Wire,
    WireCondition,
    WireDeparture,
    WireLink,
    WireNode,
    WirePartitionStatus,
    WirePeer,
    WireResetDue,
    WireResetTimer,
    WireSet,
    WireSummary,
    WireTimer,
    WireTokenPeers,
    WireTopologyStatus,
    WireZoneStatus,
    partition_name,
    to_rfc3339,
)
from zonequake_operator.resources.model import (
    AssignmentSet,
    Condition,
    PartitionKeys,
    PartitionSummary,
    PartitionView,
    ResetTimer,
    Timer,
    TokenPeers,
    Topology,
    Zone,
    ZoneSpec,
    ZoneStatus,
    group_name,
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
    """A zone's whole status. `previous` is the one it replaces, for the transition times.

    `spec` gives the timers their deadlines.
    """
    nodes = status.data_nodes
    due = status.reset_due
    wire = WireZoneStatus(
        observed_generation=status.observed_generation,
        revision=status.revision,
        handled_revision=status.handled_revision,
        conditions=render_conditions(conditions, status.observed_generation, previous, now_ms),
        reset=_render_reset_timer(status.reset, spec.reset_timeout_s),
        reset_due=None
        if due is None
        else WireResetDue(revision=due.revision, topology_version=due.topology_version),
        armed=armed(status, spec),
        partitions=WireSummary(
            total=summary.total,
            available=summary.available,
            moving=summary.moving,
            at_risk=summary.at_risk,
        ),
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
    return _builtins(wire)


def render_conditions(
    conditions: Iterable[Condition], generation: int, previous: Mapping[str, Any], now_ms: int
) -> list[WireCondition]:
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
    return rendered


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
    """A new Partition, owned by its zone."""
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


def render_partition_status(keys: PartitionKeys, view: PartitionView) -> Object:
    """A partition's whole status."""
    status = _builtins(
        WirePartitionStatus(
            stable=_render_set(keys.stable),
            pending=_render_set(keys.pending),
            planned=_render_set(keys.planned),
            configuration_token=keys.configuration_token,
            bootstrap=_render_token_peers(keys.bootstrap),
            bootstrap_lineage=keys.bootstrap_lineage,
            pending_lock=_render_token_peers(keys.pending_lock),
            change_trigger_revision=keys.change_trigger_revision,
            switch_reduce=list(keys.switch_reduce),
            switch_append=list(keys.switch_append),
            reset_revision=keys.reset_revision,
            chain=[
                WireLink(
                    nodes=list(link.nodes),
                    term=link.term,
                    index=link.index,
                    token=link.token,
                    since_term=link.since_term,
                    since_index=link.since_index,
                )
                for link in keys.chain
            ],
            stopped_token=keys.stopped_token,
            leader=view.leader,
            term=view.term,
            stage=view.stage,
            state=view.state,
            waits_for=view.waits_for,
        )
    )
    status["stage"] = view.stage.value  # shown by `kubectl get zp` even at its default
    return status


def _render_set(value: AssignmentSet | None) -> WireSet | None:
    if value is None:
        return None
    return WireSet(nodes=list(value.nodes), force=value.force, from_reset=value.from_reset)


def _render_token_peers(value: TokenPeers | None) -> WireTokenPeers | None:
    if value is None:
        return None
    return WireTokenPeers(
        token=value.token,
        peers=[WirePeer(node=p.node, incarnation=p.incarnation) for p in value.peers],
    )


def render_topology(namespace: str) -> Object:
    """A new, empty LogicalTopology."""
    return {
        "apiVersion": API_VERSION,
        "kind": "LogicalTopology",
        "metadata": {"name": TOPOLOGY_NAME, "namespace": namespace},
        "spec": {},
    }


def render_topology_status(topology: Topology) -> Object:
    """A LogicalTopology's whole status."""
    return _builtins(
        WireTopologyStatus(
            version=topology.version,
            node_count=len(topology.nodes),
            node_names=sorted(topology.nodes),
            nodes=[
                WireNode(
                    name=node.name,
                    process_incarnation=node.process_incarnation,
                    storage_incarnation=node.storage_incarnation,
                    pod_uid=node.pod_uid,
                    restarts=node.restarts,
                    attributes=dict(node.attributes),
                    peer_address=node.peer_address,
                    since=node.since,
                )
                for _, node in sorted(topology.nodes.items())
            ],
            departed=[
                WireDeparture(name=name, since=departure.since, left=departure.left)
                for name, departure in sorted(topology.departed.items())
            ],
        )
    )


def _builtins(wire: Wire) -> Object:
    built: Object = msgspec.to_builtins(wire)
    return built
