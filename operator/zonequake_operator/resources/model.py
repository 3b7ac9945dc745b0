"""The operator's domain values: plain, frozen, without behaviour that could surprise.

Names follow the documents `distribution-zones` and `rebalance`; design §2 and §3. All times are
unix milliseconds (`_ms`), since the resources keep deadlines as RFC 3339 with milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from zonequake_operator.resources.condition_types import Condition
from zonequake_operator.resources.leases import NodeLeaseTrouble
from zonequake_operator.resources.rights import Right
from zonequake_protocol.admin import PeerName, ReplicasReport, ReplicaStatus, Stage

INFINITE = None
"""A time-out that never ends (`Infinite` in a spec)."""

DEFAULT_PARTITIONS = 25
DEFAULT_REPLICAS = 3
DEFAULT_SCALE_UP_S = 0
DEFAULT_SCALE_DOWN_S = INFINITE
DEFAULT_RESET_TIMEOUT_S = 5


class ResourceStruct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base of values that custom resources hold as they are: camelCase, defaults left out."""


class ChangePeersMode(StrEnum):
    """The effect of a new wish on a running change (document `rebalance`, "Adjustable
    changePeers").

    `QUEUE` is the base algorithm: it waits in `planned`. `UPDATE` is approach 1: it replaces
    `pending` until the lock is taken. `CANCEL` is approach 2: it waits in `planned`, and a change
    that can be cancelled gives way to it.
    """

    QUEUE = "Queue"
    UPDATE = "Update"
    CANCEL = "Cancel"


class ConsistencyMode(StrEnum):
    """The behaviour of a partition without a majority (document `high-availability`)."""

    STRONG_CONSISTENCY = "StrongConsistency"
    HIGH_AVAILABILITY = "HighAvailability"


class StorageKind(StrEnum):
    """The storage of replicas; `VOLATILE` ones lose their data with their process."""

    PERSISTENT = "Persistent"
    VOLATILE = "Volatile"


class PartitionState(StrEnum):
    """Global state of a partition, the worst that a client may meet.

    `AVAILABLE`: a leader, and every stable member follows it. `DEGRADED`: a leader, some member
    missing. `READ_ONLY`: no majority, but a replica that can serve bounded reads. `UNAVAILABLE`: no
    replica, or a majority without a leader.
    """

    AVAILABLE = "Available"
    DEGRADED = "Degraded"
    READ_ONLY = "ReadOnly"
    UNAVAILABLE = "Unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timers:
    """The zone's data nodes time-outs in whole seconds, with the documents' defaults applied.

    `joint`: dataNodesAutoAdjust was given, so that both directions share one timer.
    """

    scale_up_s: int | None = DEFAULT_SCALE_UP_S
    scale_down_s: int | None = DEFAULT_SCALE_DOWN_S
    joint: bool = False


class PlainZoneFields(ResourceStruct, frozen=True, kw_only=True):
    """The fields of a zone's spec that the operator takes as the resource has them."""

    partitions: int = DEFAULT_PARTITIONS
    replicas: int = DEFAULT_REPLICAS
    change_peers: ChangePeersMode = ChangePeersMode.UPDATE
    consistency_mode: ConsistencyMode = ConsistencyMode.STRONG_CONSISTENCY
    storage: StorageKind = StorageKind.PERSISTENT
    catch_up_bytes_per_second: int = 0
    fsync: bool = True
    paused: bool = False


class ZoneSpec(PlainZoneFields, frozen=True, kw_only=True):
    """The spec of a zone, as its user wrote it."""

    timers: Timers = Timers()
    filter: str | None = None
    reset_timeout_s: int = DEFAULT_RESET_TIMEOUT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """An armed timer: the nodes it will add or remove, and when its newest event came."""

    nodes: frozenset[str]
    armed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataNodes:
    """A zone's data nodes with both timers, as of `topology_version` and under `filter`."""

    nodes: frozenset[str]
    up: Timer | None = None
    down: Timer | None = None
    filter: str | None = None
    topology_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyNode:
    """A node of the logical topology.

    `since` is the topology version at which this process joined; `restarts` is its container's
    restart count then, so that a later count proves that this process has ended. `lease_session`:
    the session of its Lease with which it is in the topology, the only one that its replicas are
    permitted in; 0: it has had none.
    """

    name: str
    process_incarnation: str
    storage_incarnation: str
    pod_uid: str
    restarts: int
    attributes: Mapping[str, str]
    peer_address: str
    since: int
    lease_session: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """A process that has left: the topology versions at which it joined and left."""

    since: int
    left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The logical topology; its version grows by one with each change. `nodes` by name.

    `departed`: the newest departure of each node that ever left, by name, so that the nodes alive
    at an event's version can still be determined. A node that was replaced at once by its successor
    is in both.
    """

    version: int = 0
    nodes: Mapping[str, TopologyNode] = field(default_factory=dict)
    departed: Mapping[str, Departure] = field(default_factory=dict)


class PartitionSummary(ResourceStruct, frozen=True, kw_only=True, omit_defaults=False):
    """Numbers for `kubectl get dz`. `at_risk`: the majority is lost, or is with one more loss.

    Stored with its zeros: an empty column would look unknown.
    """

    total: int = 0
    available: int = 0
    moving: int = 0
    at_risk: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetTimer:
    """The armed partitionDistributionResetTimeout: "saveTimerIntent(revision, currentTime())".

    `nodes` have left since it was first armed; `topology_version` and `revision` are those of the
    newest of these events.
    """

    nodes: frozenset[str]
    armed_ms: int
    revision: int
    topology_version: int


class ResetDue(ResourceStruct, frozen=True, kw_only=True):
    """The reset timer has fired: partitions whose `reset_revision` is lower are judged for it."""

    revision: int
    topology_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneStatus:
    """A zone's own state: `revision` is the documents' event.revision (design §3, Revision)."""

    observed_generation: int = 0
    revision: int = 0
    handled_revision: int = 0
    data_nodes: DataNodes | None = None
    reset: ResetTimer | None = None
    reset_due: ResetDue | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRequest:
    """A reset by hand was asked for: for the keys with this token, and for the majority that was
    missing at this version of the topology. Other keys, and one that came back since, are another
    loss.

    `survivor`: the replica that is to go on, also one of an older lineage than the newest; None:
    the newest of the newest lineage.
    """

    token: int
    topology_version: int
    survivor: PeerName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A DistributionZone. `spec` is the sentence that says what is wrong if it can't be used.

    `reset_requests`: partitions to be reset by hand.
    """

    name: str
    namespace: str
    uid: str
    generation: int
    resource_version: str
    spec: ZoneSpec | str
    status: ZoneStatus
    deleting: bool = False
    conditions: tuple[Condition, ...] = ()
    summary: PartitionSummary = field(default_factory=PartitionSummary)
    reset_requests: Mapping[int, ResetRequest] = field(default_factory=dict)


class AssignmentSet(ResourceStruct, frozen=True, kw_only=True):
    """A set of nodes, sorted; `force` and `from_reset` are for the reset (design, holes 7, 13)."""

    nodes: tuple[str, ...]
    force: bool = False
    from_reset: bool = False

    @classmethod
    def of(cls, *nodes: str) -> AssignmentSet:
        """Returns the plain set of these nodes."""
        return cls(nodes=tuple(sorted(set(nodes))))


class TokenPeers(ResourceStruct, frozen=True, kw_only=True):
    """A configuration decided on: its token and its peers with incarnations, by node."""

    token: int
    peers: tuple[PeerName, ...]


class AssignmentsLink(ResourceStruct, frozen=True, kw_only=True):
    """An AssignmentsLink (`high-availability`, "Chain of assignments"): a stable set, and where its
    configuration stands in the log (whole term, index).

    `token`: of the forced set that its lineage began with; 0 if there was none. `since_term` and
    `since_index`: where the link stood before the second phase of its reset replaced it; user
    entries from there on were written under it, too.
    """

    nodes: tuple[str, ...]
    term: int = 0
    index: int = 0
    token: int = 0
    since_term: int | None = None
    since_index: int | None = None

    @property
    def since(self) -> tuple[int, int]:
        """The (whole term, index) after which this link's user entries begin."""
        if self.since_term is None or self.since_index is None:
            return self.term, self.index
        return self.since_term, self.since_index


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionKeys:
    """The documents' metastore keys of one partition; an empty key is None, or ().

    Written together with one compare-and-swap, which is the documents' atomic multi-invoke.
    `chain` is kept for HighAvailability zones, oldest link first. `bootstrap_lineage`: the token of
    `bootstrap` if the group started over, because all its replicas had lost their data; else 0.
    `stopped_token`: what `configuration_token` was when no member of the group was alive any more,
    until it leads again; else 0.
    """

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

    @property
    def is_stopped(self) -> bool:
        """Returns whether the whole group has stopped, and not led since (holes 7 and 9)."""
        return self.stopped_token > 0

    @property
    def stable_nodes(self) -> frozenset[str]:
        """Nodes of stable; none if the key is empty."""
        return _nodes(self.stable)

    @property
    def pending_nodes(self) -> frozenset[str]:
        """Nodes of pending; none if the key is empty."""
        return _nodes(self.pending)

    @property
    def planned_nodes(self) -> frozenset[str]:
        """Nodes of planned; none if the key is empty."""
        return _nodes(self.planned)

    @property
    def is_forced(self) -> bool:
        """Returns whether the first phase of a reset runs."""
        return self.pending is not None and self.pending.force

    @property
    def is_resetting(self) -> bool:
        """Returns whether one of a reset's two phases runs."""
        return self.pending is not None and (self.pending.force or self.pending.from_reset)


def _nodes(value: AssignmentSet | None) -> frozenset[str]:
    return frozenset(value.nodes if value else ())


class PartitionStatus(ResourceStruct, frozen=True, kw_only=True):
    """The status beside the keys, for people and triggers; written on transitions only.

    `state` is None until the group had its first leader: no client can have missed it before.
    `waits_for`: a sentence on what the partition waits for; empty if nothing.
    """

    leader: str | None = None
    term: int = 0
    stage: Stage = Stage.NONE
    state: PartitionState | None = None
    waits_for: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A Partition resource."""

    number: int
    resource_version: str
    keys: PartitionKeys = PartitionKeys()
    view: PartitionStatus = field(default_factory=PartitionStatus)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeAttempts:
    """The number of requests for a change of peers: the one with this token."""

    token: int
    count: int


DEFAULT_RETRY_THRESHOLD = 10
"""Attempts of one change; Ignite 3 writes a warning after as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneSnapshot:
    """Everything that a decision about one zone rests on.

    `reports` holds only nodes that aren't silent; `outdated` are those of them that were asked for
    before a node was last counted out. `partitions` is by number; `namesakes` are the names of
    Partitions that an earlier zone of its name left. `inspected`: what replicas that
    wait for their start order showed of themselves, by node and group. `attempts`: how often this
    operator asked each group for its change; more than `retry_threshold` are shown.
    `lease_troubles`: by node. `missing_rights`: of the operator.
    """

    now_ms: int
    zone: Zone
    partitions: Mapping[int, Partition]
    topology: Topology
    reports: Mapping[str, ReplicasReport]
    namesakes: frozenset[str] = frozenset()
    outdated: frozenset[str] = frozenset()
    inspected: Mapping[str, Mapping[str, ReplicaStatus]] = field(default_factory=dict)
    attempts: Mapping[str, ChangeAttempts] = field(default_factory=dict)
    lease_troubles: Mapping[str, NodeLeaseTrouble] = field(default_factory=dict)
    missing_rights: frozenset[Right] = frozenset()
    retry_threshold: int = DEFAULT_RETRY_THRESHOLD


def group_name(zone: str, uid: str, partition: int) -> str:
    """Returns the name of the Raft group of a partition (interfaces, Names)."""
    return f"{zone}.{uid[:8]}.{partition}"
