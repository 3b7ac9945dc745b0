"""Custom resources' shapes as the API server holds them; names, and times as they are written.

The structs mirror the schemas (charts/zonequake/templates/crds), together with the values of the
model that are stored as they are (`ResourceStruct`). Unknown fields are ignored, so that a newer
CRD doesn't stop an older operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from zonequake_operator.errors import ResourceError
from zonequake_operator.resources.model import (
    DEFAULT_RESET_TIMEOUT_S,
    AssignmentSet,
    AssignmentsLink,
    PartitionStatus,
    PartitionSummary,
    PlainZoneFields,
    ResetDue,
    ResetRequest,
    ResourceStruct,
    TokenPeers,
)
from zonequake_protocol.admin import PeerName

GROUP = "zonequake.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
FINALIZER = f"{GROUP}/operator"
TOPOLOGY_NAME = "topology"
"""The one LogicalTopology of a namespace."""
ZONE_LABEL = f"{GROUP}/zone"
Object = dict[str, Any]


class WireZoneSpec(PlainZoneFields, frozen=True, kw_only=True):
    data_nodes_auto_adjust: int | str | None = None
    data_nodes_auto_adjust_scale_up: int | str | None = None
    data_nodes_auto_adjust_scale_down: int | str | None = None
    data_nodes_filter: str | None = None
    partition_distribution_reset_timeout: int = DEFAULT_RESET_TIMEOUT_S


class WireTimer(ResourceStruct, frozen=True):
    nodes: list[str]
    armed_at: str
    deadline: str | None = None


class WireResetTimer(ResourceStruct, frozen=True):
    nodes: list[str]
    armed_at: str
    revision: int
    topology_version: int
    deadline: str | None = None


class WireCondition(ResourceStruct, frozen=True):
    type: str
    status: str
    reason: str
    message: str
    observed_generation: int = 0
    last_transition_time: str = ""


class WireZoneStatus(ResourceStruct, frozen=True):
    observed_generation: int = 0
    revision: int = 0
    handled_revision: int = 0
    topology_version: int = 0
    data_nodes: list[str] | None = None
    data_node_count: int | None = None
    filter: str | None = None
    scale_up: WireTimer | None = None
    scale_down: WireTimer | None = None
    reset: WireResetTimer | None = None
    reset_due: ResetDue | None = None
    armed: str = ""
    partitions: PartitionSummary = PartitionSummary()
    conditions: tuple[WireCondition, ...] = ()


class WirePartitionStatus(PartitionStatus, frozen=True, kw_only=True):
    stable: AssignmentSet | None = None
    pending: AssignmentSet | None = None
    planned: AssignmentSet | None = None
    configuration_token: int = 0
    bootstrap: TokenPeers | None = None
    bootstrap_lineage: int = 0
    pending_lock: TokenPeers | None = None
    change_trigger_revision: int = 0
    switch_reduce: tuple[str, ...] = ()
    switch_append: tuple[str, ...] = ()
    reset_revision: int = 0
    chain: tuple[AssignmentsLink, ...] = ()
    stopped_token: int = 0


class WireNode(ResourceStruct, frozen=True):
    name: str
    process_incarnation: str
    storage_incarnation: str
    pod_uid: str
    restarts: int = 0
    attributes: Mapping[str, str] = {}
    peer_address: str = ""
    since: int = 0
    lease_session: int = 0


class WireDeparture(ResourceStruct, frozen=True):
    name: str
    since: int
    left: int


class WireTopologyStatus(ResourceStruct, frozen=True):
    version: int = 0
    node_count: int | None = None
    node_names: tuple[str, ...] = ()  # `kubectl get` can't show a field of each node
    nodes: tuple[WireNode, ...] = ()
    departed: tuple[WireDeparture, ...] = ()


RESET_ZONE_ANNOTATION = "zonequake.io/reset-zone"
"""The uid of the zone for which the requests were written."""
RESET_ANNOTATION = "zonequake.io/reset"
"""Annotation of a DistributionZone with the requests of `zonequake reset`, {partition:
[configurationToken, topologyVersion, [node, incarnation]]}; the replica is left out if the
partition goes on from the newest data that is left.
"""


class WireResetRequest(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    token: int
    topology_version: int
    survivor: tuple[str, str] | None = None


def reset_requests(annotations: Mapping[str, str] | None, uid: str) -> dict[int, ResetRequest]:
    """Reads the partitions that a zone's annotation asks to be reset; none if it can't be read, or
    if it was written for another zone than the one with this uid.
    """
    annotations = annotations or {}
    if annotations.get(RESET_ZONE_ANNOTATION, uid) != uid:
        return {}  # made again from a manifest or a backup of a former zone
    text = annotations.get(RESET_ANNOTATION, "{}")
    try:
        found = msgspec.json.decode(text, type=dict[int, WireResetRequest])
    except msgspec.DecodeError:
        return {}  # written by hand; the command shows that nothing came of it
    return {
        number: ResetRequest(
            token=wire.token,
            topology_version=wire.topology_version,
            survivor=None if wire.survivor is None else PeerName(*wire.survivor),
        )
        for number, wire in found.items()
    }


def render_reset_requests(requests: Mapping[int, ResetRequest]) -> str:
    """Renders the annotation's value, as `reset_requests` reads it."""
    wire = {
        str(n): [
            r.token,
            r.topology_version,
            *([] if r.survivor is None else [(r.survivor.node, r.survivor.incarnation)]),
        ]
        for n, r in sorted(requests.items())
    }
    return msgspec.json.encode(wire).decode()


def partition_name(zone: str, number: int) -> str:
    """Name of a Partition resource."""
    return f"{zone}-{number}"


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
