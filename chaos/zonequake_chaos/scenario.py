"""A scenario: the manifest `kind: ChaosRun`, as types.

Zones, node pools, load, faults with their triggers and targets, and what is expected. Pure: reading
and checking a file is `zonequake_chaos.manifest`, doing it is `zonequake_chaos.runner`. The same
file is to drive a cluster, pytest, the simulation and later a resource (design §6 "Scenario").

Field names in the file are camelCase with units written out: `timeout_s` is `timeoutSeconds`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from zonequake_load.control import ReadsAt
from zonequake_store.admin_protocol import Stage

_UNITS = {"_s": "_seconds", "_ms": "_milliseconds"}


def _file_name(attribute: str) -> str:
    """`catch_up_bytes_per_second` -> `catchUpBytesPerSecond`, `timeout_s` -> `timeoutSeconds`."""
    for unit, words in _UNITS.items():
        if attribute.endswith(unit):
            attribute = attribute.removesuffix(unit) + words
    head, *tail = attribute.split("_")
    return head + "".join(word.capitalize() for word in tail)


class _Part(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=_file_name
):
    """Base of all parts of a manifest."""


Name = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
Count = Annotated[int, Meta(ge=1, le=65_000)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Timer = Annotated[int, Meta(ge=0)] | Literal["Infinite"]


class Pool(_Part, frozen=True, kw_only=True):
    """A node pool and how many data nodes it has when the run begins."""

    name: Name
    replicas: Annotated[int, Meta(ge=0, le=1000)]


class Zone(_Part, frozen=True, kw_only=True):
    """A DistributionZone that the run creates and deletes; the fields are the resource's own."""

    name: Name
    partitions: Count = 8
    replicas: Count = 3
    data_nodes_auto_adjust_scale_up: Timer = 0
    data_nodes_auto_adjust_scale_down: Timer = "Infinite"
    data_nodes_filter: str | None = None
    catch_up_bytes_per_second: Annotated[int, Meta(ge=0)] = 0
    fsync: bool = True
    change_peers: Literal["Queue", "Update", "Cancel"] | None = None
    consistency_mode: Literal["StrongConsistency", "HighAvailability"] | None = None
    partition_distribution_reset_timeout: Annotated[int, Meta(ge=0)] | None = None
    storage: Literal["Persistent", "Volatile"] | None = None


class Load(_Part, frozen=True, kw_only=True):
    """What the load pods do together.

    Rates are operations per second over all pods; `bulk` keys are written once in the preload, to
    give every partition a size of about `bulk_keys_per_partition * filler_bytes`.
    """

    pods: Annotated[int, Meta(ge=1, le=20)] = 2
    register_rate: Annotated[float, Meta(ge=0)] = 100.0
    list_rate: Annotated[float, Meta(ge=0)] = 40.0
    register_keys_per_partition: Count = 4
    list_keys_per_partition: Count = 2
    processes: Count = 16
    bulk_keys_per_partition: Annotated[int, Meta(ge=0)] = 0
    filler_bytes: Annotated[int, Meta(ge=0, le=1_048_576)] = 0
    probes: bool = True
    reads_at: ReadsAt = ReadsAt.LEADER
    attempt_timeout_ms: Annotated[int, Meta(ge=10)] = 500
    operation_timeout_ms: Annotated[int, Meta(ge=10)] = 5_000


class Times(_Part, frozen=True, kw_only=True):
    """How long the phases last, and how long the run waits for what it needs."""

    before_s: Seconds = 20.0
    after_s: Seconds = 15.0
    quiet_s: Seconds = 2.0
    setup_timeout_s: Seconds = 180.0
    preload_timeout_s: Seconds = 180.0
    recovery_timeout_s: Seconds = 180.0
    final_timeout_s: Seconds = 90.0


class AtOnce(_Part, frozen=True, kw_only=True, tag_field="when", tag="now"):
    """No condition: when the fault's turn comes."""

    timeout_s: Seconds = 60.0


class AfterTime(_Part, frozen=True, kw_only=True, tag_field="when", tag="time"):
    """`after_s` seconds after the phase `faults` began, or after the fault `since` took effect."""

    after_s: Seconds
    since: str | None = None
    timeout_s: Seconds = 600.0


class OnStage(_Part, frozen=True, kw_only=True, tag_field="when", tag="stage"):
    """Some partition's leader reports one of `stages` with its progress within the bounds.

    Progress is that of the catching-up peer that is furthest behind. `other_partition_than` names
    an earlier fault, whose partition is left out.
    """

    stages: list[Stage]
    min_progress: Fraction = 0.0
    max_progress: Fraction = 1.0
    zone: str | None = None
    partition: int | None = None
    other_partition_than: str | None = None
    timeout_s: Seconds = 60.0


class PartitionKey(StrEnum):
    """Keys of a Partition resource that a trigger can watch."""

    STABLE = "stable"
    PENDING = "pending"
    PLANNED = "planned"
    SWITCH_REDUCE = "switchReduce"
    SWITCH_APPEND = "switchAppend"
    CHAIN = "chain"


class OnKey(_Part, frozen=True, kw_only=True, tag_field="when", tag="key"):
    """A partition's key is set, or is as all given conditions say.

    `empty`; it `holds` a node; it `equals` a set of nodes, in any order; it has `length` nodes, or
    links if it is the chain (whose nodes are those of its newest link); it is `forced`, or
    `from_reset`, or not. Nodes are named as in `Target.nodes`. `everywhere`: in all partitions.
    """

    key: PartitionKey
    empty: bool = False
    holds: str | None = None
    equals: list[str] | None = None
    length: Annotated[int, Meta(ge=1)] | None = None
    forced: bool | None = None
    from_reset: bool | None = None
    everywhere: bool = False
    zone: str | None = None
    partition: int | None = None
    timeout_s: Seconds = 60.0


class OnLeader(_Part, frozen=True, kw_only=True, tag_field="when", tag="leader"):
    """A partition has a leader (on `node`, if given)."""

    node: str | None = None
    zone: str | None = None
    partition: int | None = None
    timeout_s: Seconds = 60.0


class NodeState(StrEnum):
    """What a trigger can see of a data node: `answers` by a process that reports its replicas,
    `silent` is the opposite, `ready` is the pod's Ready condition beside an answer."""

    ANSWERS = "answers"
    SILENT = "silent"
    READY = "ready"


class OnNodes(_Part, frozen=True, kw_only=True, tag_field="when", tag="nodes"):
    """All of `nodes` are in `state`; they are named as in `Target.nodes`."""

    nodes: Annotated[list[str], Meta(min_length=1)]
    state: NodeState = NodeState.ANSWERS
    timeout_s: Seconds = 60.0


class OnSettled(_Part, frozen=True, kw_only=True, tag_field="when", tag="settled"):
    """Every partition has a leader, no rebalance runs, and every data node answers."""

    timeout_s: Seconds = 120.0


Trigger = AtOnce | AfterTime | OnStage | OnKey | OnLeader | OnNodes | OnSettled


class TargetRole(StrEnum):
    """Which data nodes a fault is for, seen from the partition that its trigger saw."""

    CATCHING_UP_PEER = "catching_up_peer"
    LEADER = "leader"
    FOLLOWER = "follower"
    ALL = "all"
    ANY = "any"
    NODE = "node"
    NODES = "nodes"


class Target(_Part, frozen=True, kw_only=True):
    """`count` nodes of `role`; with role `node` the one named `node`; only of `pool`, if given.

    With role `nodes` all of `nodes`, in that order: by the names of their pods, or without the
    release, as in `default-0`.
    """

    role: TargetRole
    count: Count = 1
    node: str | None = None
    nodes: list[str] = []
    pool: str | None = None


class FaultBase(_Part, frozen=True, kw_only=True, tag_field="type"):
    """What all faults have: done `times` times, each `pause_s` after the one before.

    `hold_s` lies between the effect and the recovery. With `wait_recovered` false the next step
    begins at once and the recovery phase waits instead. With `held_until` the recovery begins when
    that later fault has taken effect (or was missed), and the faults between are done meanwhile.
    """

    disturbs: ClassVar[bool] = True

    name: Name
    trigger: Trigger = msgspec.field(default_factory=AtOnce)
    hold_s: Seconds = 0.0
    wait_recovered: bool = True
    timeout_s: Seconds = 90.0
    times: Annotated[int, Meta(ge=1, le=1000)] = 1
    pause_s: Seconds = 0.0
    held_until: str | None = None


class PodKill(FaultBase, frozen=True, kw_only=True, tag="pod_kill"):
    """SIGKILL the store's process and delete its pod with grace 0, in the same breath."""

    target: Target


class ProcessKill(FaultBase, frozen=True, kw_only=True, tag="process_kill"):
    """SIGKILL the store's process; the container is restarted in place."""

    target: Target


class ProcessPause(FaultBase, frozen=True, kw_only=True, tag="process_pause"):
    """SIGSTOP the store's process for `hold_s`, then SIGCONT."""

    target: Target


class GracefulDelete(FaultBase, frozen=True, kw_only=True, tag="graceful_delete"):
    """Delete the pod with its own grace period, in which it hands over its leaderships."""

    target: Target


class RollingRestart(FaultBase, frozen=True, kw_only=True, tag="rolling_restart"):
    """Restart every node of a pool (of all pools without one), one after another."""

    pool: str | None = None


class NodeOutage(FaultBase, frozen=True, kw_only=True, tag="node_outage"):
    """Hold the pods down for `hold_s`: a finalizer keeps their successors away.

    They return in the order of their names, or of `target.nodes`, `return_gap_s` apart.
    """

    target: Target
    return_gap_s: Seconds = 0.0


class Cut(StrEnum):
    """What a cut-off pod can't reach, and what can't reach it.

    `all`: everything but itself. `peers`: the other data nodes' peer ports; clients and the
    operator still reach it. `control`: it reaches no API server, and everything else goes on.
    """

    ALL = "all"
    PEERS = "peers"
    CONTROL = "control"


class NetworkPartition(FaultBase, frozen=True, kw_only=True, tag="network_partition"):
    """Cut pods off for `hold_s`, by rules in their own network namespaces."""

    target: Target
    cut: Cut = Cut.ALL


class ForceDelete(FaultBase, frozen=True, kw_only=True, tag="force_delete"):
    """Delete the pods' objects with grace 0 while the kubelet hangs: the processes run on."""

    target: Target


class ComponentPause(FaultBase, frozen=True, kw_only=True, tag="component_pause"):
    """SIGSTOP a component of the node itself for `hold_s`: an API server that hangs."""

    component: Literal["kube-apiserver", "kubelet"] = "kube-apiserver"


class LoadPause(FaultBase, frozen=True, kw_only=True, tag="load_pause"):
    """No load and no probes for `hold_s`: nothing is written meanwhile."""

    disturbs: ClassVar[bool] = False


class Reached(FaultBase, frozen=True, kw_only=True, tag="reached"):
    """No fault, but a state that must be reached: the run is unknown if its trigger never comes."""

    disturbs: ClassVar[bool] = False


class Scale(FaultBase, frozen=True, kw_only=True, tag="scale"):
    """Set a pool's size; this is what starts a rebalance, and no harm to anyone."""

    disturbs: ClassVar[bool] = False

    pool: Name
    replicas: Annotated[int, Meta(ge=0, le=1000)]


Fault = (
    PodKill
    | ProcessKill
    | ProcessPause
    | GracefulDelete
    | RollingRestart
    | NodeOutage
    | NetworkPartition
    | ForceDelete
    | ComponentPause
    | LoadPause
    | Reached
    | Scale
)

OnTheNode = NetworkPartition | ForceDelete | ComponentPause
"""Faults that are made on the node itself, and so need an embedded cluster on this machine."""


class Expectations(_Part, frozen=True, kw_only=True):
    """What the analysis judges the run by; a limit that is absent isn't judged.

    `resets`: exactly so many forced resets in all partitions together. `sacrificed_at_most`,
    `sacrificed_at_least`, `restored_at_least`: acknowledged writes that resets took, and that an
    unwind brought back. `max_reset_window_ms` stands in for `max_window_ms` where a reset ended
    the window.
    """

    lost: Annotated[int, Meta(ge=0)] = 0
    stale: Annotated[int, Meta(ge=0)] = 0
    resets: Annotated[int, Meta(ge=0)] | None = 0
    sacrificed_at_most: Annotated[int, Meta(ge=0)] | None = 0
    sacrificed_at_least: Annotated[int, Meta(ge=0)] = 0
    restored_at_least: Annotated[int, Meta(ge=0)] = 0
    max_window_ms: Annotated[int, Meta(ge=0)] | None = None
    max_reset_window_ms: Annotated[int, Meta(ge=0)] | None = None
    p99_ratio: Annotated[float, Meta(gt=0)] | None = None
    all_rebalances_end: bool = True


class Metadata(_Part, frozen=True, kw_only=True):
    """The scenario's name and what it shows, in a sentence or two."""

    name: Name
    description: str = ""


class Spec(_Part, frozen=True, kw_only=True):
    """All that a run does."""

    pools: list[Pool]
    zones: Annotated[list[Zone], Meta(min_length=1, max_length=10)]
    load: Load = msgspec.field(default_factory=Load)
    times: Times = msgspec.field(default_factory=Times)
    faults: list[Fault] = []
    expectations: Expectations = msgspec.field(default_factory=Expectations)


class ChaosRun(_Part, frozen=True, kw_only=True):
    """The whole file."""

    api_version: Literal["zonequake.io/v1alpha1"]
    kind: Literal["ChaosRun"]
    metadata: Metadata
    spec: Spec


def fault_type(fault: Fault) -> str:
    """The fault's `type` as it stands in the file and in the events."""
    return str(type(fault).__struct_config__.tag)
