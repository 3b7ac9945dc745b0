"""Custom resources as the API server holds them, to and from the operator's model.

Nothing else knows field names of the CRDs (charts/zonequake/templates/crds). The wire structs
mirror the schemas; unknown fields are ignored, so that a newer CRD doesn't stop an older operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from zonequake_store.admin_protocol import PeerName, Stage

from .data_nodes import deadline_down_ms, deadline_up_ms
from .errors import ResourceError
from .model import (
    DEFAULT_PARTITIONS,
    DEFAULT_REPLICAS,
    DEFAULT_SCALE_DOWN_S,
    DEFAULT_SCALE_UP_S,
    INFINITE,
    AssignmentSet,
    ChangePeersMode,
    Condition,
    ConditionType,
    DataNodes,
    Partition,
    PartitionKeys,
    PartitionState,
    PartitionSummary,
    PartitionView,
    Reason,
    Timer,
    Timers,
    TokenPeers,
    Topology,
    TopologyNode,
    Zone,
    ZoneSpec,
    ZoneStatus,
    group_name,
)

GROUP = "zonequake.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
FINALIZER = f"{GROUP}/operator"
TOPOLOGY_NAME = "topology"
"""The one LogicalTopology of a namespace."""
ZONE_LABEL = f"{GROUP}/zone"

Object = dict[str, Any]
T = TypeVar("T")


class _Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of the wire structs: camelCase, empty fields left out."""


class _ZoneSpec(_Wire, frozen=True):
    partitions: int = DEFAULT_PARTITIONS
    replicas: int = DEFAULT_REPLICAS
    data_nodes_auto_adjust: int | str | None = None
    data_nodes_auto_adjust_scale_up: int | str | None = None
    data_nodes_auto_adjust_scale_down: int | str | None = None
    data_nodes_filter: str | None = None
    fsync: bool = True
    change_peers: ChangePeersMode = ChangePeersMode.QUEUE
    catch_up_bytes_per_second: int = 0
    paused: bool = False


class _Timer(_Wire, frozen=True):
    nodes: list[str]
    armed_at: str
    deadline: str | None = None


class _Condition(_Wire, frozen=True):
    type: str
    status: str
    reason: str
    message: str
    observed_generation: int = 0
    last_transition_time: str = ""


class _Summary(_Wire, frozen=True):
    total: int = 0
    available: int = 0
    moving: int = 0


class _ZoneStatus(_Wire, frozen=True):
    observed_generation: int = 0
    revision: int = 0
    handled_revision: int = 0
    topology_version: int = 0
    data_nodes: list[str] | None = None
    data_node_count: int = 0
    filter: str | None = None
    scale_up: _Timer | None = None
    scale_down: _Timer | None = None
    partitions: _Summary = _Summary()
    conditions: list[_Condition] = []


class _Set(_Wire, frozen=True):
    nodes: list[str]
    force: bool = False
    from_reset: bool = False


class _Peer(_Wire, frozen=True):
    node: str
    incarnation: str


class _TokenPeers(_Wire, frozen=True):
    token: int
    peers: list[_Peer]


class _PartitionStatus(_Wire, frozen=True):
    stable: _Set | None = None
    pending: _Set | None = None
    planned: _Set | None = None
    configuration_token: int = 0
    bootstrap: _TokenPeers | None = None
    pending_lock: _TokenPeers | None = None
    change_trigger_revision: int = 0
    leader: str | None = None
    term: int = 0
    stage: Stage = Stage.NONE
    state: PartitionState | None = None  # absent until the first leader


class _Node(_Wire, frozen=True):
    name: str
    process_incarnation: str
    storage_incarnation: str
    pod_uid: str
    restarts: int = 0
    attributes: dict[str, str] = {}
    peer_address: str = ""
    since: int = 0


class _TopologyStatus(_Wire, frozen=True):
    version: int = 0
    node_count: int = 0
    node_names: list[str] = []  # `kubectl get` can't show a field of each node
    nodes: list[_Node] = []


# ---------------------------------------------------------------------------------------- zones


def parse_zone(obj: Mapping[str, Any]) -> Zone:
    """A DistributionZone as listed.

    Raises:
        ResourceError: its status isn't of the shape that this operator writes.
    """
    meta = obj["metadata"]
    status = _convert(obj.get("status") or {}, _ZoneStatus, f"status of zone {meta['name']}")
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
        spec=parse_zone_spec(obj.get("spec") or {}),
        status=ZoneStatus(
            observed_generation=status.observed_generation,
            revision=status.revision,
            handled_revision=status.handled_revision,
            data_nodes=data_nodes,
        ),
        conditions=tuple(
            Condition(
                type=ConditionType(c.type),
                status=c.status == "True",
                reason=Reason(c.reason),
                message=c.message,
            )
            for c in status.conditions
        ),
        summary=PartitionSummary(
            total=status.partitions.total,
            available=status.partitions.available,
            moving=status.partitions.moving,
        ),
    )


def parse_zone_spec(spec: Mapping[str, Any]) -> ZoneSpec | str:
    """The spec with the documents' defaults, or the sentence that says why it can't be used.

    The time-outs' defaults are applied here and not by the CRD: a defaulted field would break the
    rule that refuses AUTO_ADJUST beside SCALE_UP (design §2).
    """
    try:
        wire = msgspec.convert(spec, _ZoneSpec)
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
    except msgspec.ValidationError as error:
        return f"The spec can't be used: {error}."
    return ZoneSpec(
        partitions=wire.partitions,
        replicas=wire.replicas,
        timers=timers,
        filter=wire.data_nodes_filter or None,
        change_peers=wire.change_peers,
        catch_up_bytes_per_second=wire.catch_up_bytes_per_second,
        fsync=wire.fsync,
        paused=wire.paused,
    )


def render_zone_status(
    status: ZoneStatus,
    *,
    timers: Timers,
    conditions: Iterable[Condition],
    summary: PartitionSummary,
    previous: Mapping[str, Any],
    now_ms: int,
) -> Object:
    """A zone's whole status. `previous` is the one it replaces, for the transition times."""
    before = {c["type"]: c for c in previous.get("conditions", [])}
    rendered = []
    for condition in conditions:
        value = "True" if condition.status else "False"
        old = before.get(condition.type, {})
        since = old.get("lastTransitionTime") if old.get("status") == value else None
        rendered.append(
            _Condition(
                type=condition.type,
                status=value,
                reason=condition.reason,
                message=condition.message,
                observed_generation=status.observed_generation,
                last_transition_time=since or to_rfc3339(now_ms),
            )
        )
    nodes = status.data_nodes
    wire = _ZoneStatus(
        observed_generation=status.observed_generation,
        revision=status.revision,
        handled_revision=status.handled_revision,
        conditions=rendered,
        partitions=_Summary(
            total=summary.total, available=summary.available, moving=summary.moving
        ),
    )
    if nodes is not None:
        wire = msgspec.structs.replace(
            wire,
            topology_version=nodes.topology_version,
            data_nodes=sorted(nodes.nodes),
            data_node_count=len(nodes.nodes),
            filter=nodes.filter,
            scale_up=_render_timer(nodes.up, deadline_up_ms(nodes, timers)),
            scale_down=_render_timer(nodes.down, deadline_down_ms(nodes, timers)),
        )
    return _builtins(wire)


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


def _parse_timer(wire: _Timer | None) -> Timer | None:
    if wire is None:
        return None
    return Timer(nodes=frozenset(wire.nodes), armed_ms=from_rfc3339(wire.armed_at))


def _render_timer(timer: Timer | None, deadline_ms: int | None) -> _Timer | None:
    if timer is None:
        return None
    return _Timer(
        nodes=sorted(timer.nodes),
        armed_at=to_rfc3339(timer.armed_ms),
        deadline=None if deadline_ms is None else to_rfc3339(deadline_ms),
    )


# ----------------------------------------------------------------------------------- partitions


def partition_name(zone: str, number: int) -> str:
    """Name of a Partition resource."""
    return f"{zone}-{number}"


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


def parse_partition(obj: Mapping[str, Any]) -> Partition:
    """A Partition as listed.

    Raises:
        ResourceError: its status isn't of the shape that this operator writes.
    """
    meta, number = obj["metadata"], obj["spec"]["partition"]
    wire = _convert(obj.get("status") or {}, _PartitionStatus, f"status of {meta['name']}")
    return Partition(
        number=number,
        resource_version=meta["resourceVersion"],
        keys=PartitionKeys(
            stable=_parse_set(wire.stable),
            pending=_parse_set(wire.pending),
            planned=_parse_set(wire.planned),
            configuration_token=wire.configuration_token,
            bootstrap=_parse_token_peers(wire.bootstrap),
            pending_lock=_parse_token_peers(wire.pending_lock),
            change_trigger_revision=wire.change_trigger_revision,
        ),
        view=PartitionView(leader=wire.leader, term=wire.term, stage=wire.stage, state=wire.state),
    )


def owner_uid(obj: Mapping[str, Any]) -> str | None:
    """The uid of the resource's controller."""
    for owner in obj["metadata"].get("ownerReferences", []):
        if owner.get("controller"):
            return str(owner["uid"])
    return None


def render_partition_status(keys: PartitionKeys, view: PartitionView) -> Object:
    """A partition's whole status."""
    status = _builtins(
        _PartitionStatus(
            stable=_render_set(keys.stable),
            pending=_render_set(keys.pending),
            planned=_render_set(keys.planned),
            configuration_token=keys.configuration_token,
            bootstrap=_render_token_peers(keys.bootstrap),
            pending_lock=_render_token_peers(keys.pending_lock),
            change_trigger_revision=keys.change_trigger_revision,
            leader=view.leader,
            term=view.term,
            stage=view.stage,
            state=view.state,
        )
    )
    status["stage"] = view.stage.value  # shown by `kubectl get zp` even at its default
    return status


def _parse_set(wire: _Set | None) -> AssignmentSet | None:
    if wire is None or not wire.nodes:
        return None
    return AssignmentSet(
        nodes=tuple(sorted(wire.nodes)), force=wire.force, from_reset=wire.from_reset
    )


def _render_set(value: AssignmentSet | None) -> _Set | None:
    if value is None:
        return None
    return _Set(nodes=list(value.nodes), force=value.force, from_reset=value.from_reset)


def _parse_token_peers(wire: _TokenPeers | None) -> TokenPeers | None:
    if wire is None:
        return None
    peers = tuple(sorted(PeerName(p.node, p.incarnation) for p in wire.peers))
    return TokenPeers(token=wire.token, peers=peers)


def _render_token_peers(value: TokenPeers | None) -> _TokenPeers | None:
    if value is None:
        return None
    return _TokenPeers(
        token=value.token,
        peers=[_Peer(node=p.node, incarnation=p.incarnation) for p in value.peers],
    )


# ------------------------------------------------------------------------------------- topology


def render_topology(namespace: str) -> Object:
    """A new, empty LogicalTopology."""
    return {
        "apiVersion": API_VERSION,
        "kind": "LogicalTopology",
        "metadata": {"name": TOPOLOGY_NAME, "namespace": namespace},
        "spec": {},
    }


def parse_topology(obj: Mapping[str, Any]) -> Topology:
    """A LogicalTopology.

    Raises:
        ResourceError: its status isn't of the shape that this operator writes.
    """
    wire = _convert(obj.get("status") or {}, _TopologyStatus, "status of the LogicalTopology")
    return Topology(
        version=wire.version,
        nodes={
            node.name: TopologyNode(
                name=node.name,
                process_incarnation=node.process_incarnation,
                storage_incarnation=node.storage_incarnation,
                pod_uid=node.pod_uid,
                restarts=node.restarts,
                attributes=node.attributes,
                peer_address=node.peer_address,
                since=node.since,
            )
            for node in wire.nodes
        },
    )


def render_topology_status(topology: Topology) -> Object:
    """A LogicalTopology's whole status."""
    return _builtins(
        _TopologyStatus(
            version=topology.version,
            node_count=len(topology.nodes),
            node_names=sorted(topology.nodes),
            nodes=[
                _Node(
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
        )
    )


# ----------------------------------------------------------------------------------------- both


def to_rfc3339(unix_ms: int) -> str:
    """`2026-11-21T05:00:00.250Z`."""
    moment = datetime.fromtimestamp(unix_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{unix_ms % 1000:03d}Z"


def from_rfc3339(text: str) -> int:
    """Unix milliseconds.

    Raises:
        ResourceError: not a time.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ResourceError(f"found the time {text!r}, expected RFC 3339") from None
    return round(moment.timestamp() * 1000)


def _convert(obj: Mapping[str, Any], to: type[T], what: str) -> T:
    try:
        return msgspec.convert(obj, to)
    except msgspec.ValidationError as error:
        raise ResourceError(
            f"{what}: {error}; was it written by hand or by another version?"
        ) from None


def _builtins(wire: _Wire) -> Object:
    built: Object = msgspec.to_builtins(wire)
    return built
