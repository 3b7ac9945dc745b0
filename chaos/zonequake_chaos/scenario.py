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
    """`after_s` seconds after the phase `faults` began."""

    after_s: Seconds
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


class OnKey(_Part, frozen=True, kw_only=True, tag_field="when", tag="key"):
    """A partition's key is set, is empty, or holds the node `holds`."""

    key: PartitionKey
    empty: bool = False
    holds: str | None = None
    zone: str | None = None
    partition: int | None = None
    timeout_s: Seconds = 60.0


class OnLeader(_Part, frozen=True, kw_only=True, tag_field="when", tag="leader"):
    """A partition has a leader (on `node`, if given)."""

    node: str | None = None
    zone: str | None = None
    partition: int | None = None
    timeout_s: Seconds = 60.0


class OnSettled(_Part, frozen=True, kw_only=True, tag_field="when", tag="settled"):
    """Every partition has a leader, no rebalance runs, and every data node answers."""

    timeout_s: Seconds = 120.0


Trigger = AtOnce | AfterTime | OnStage | OnKey | OnLeader | OnSettled


class TargetRole(StrEnum):
    """Which data nodes a fault is for, seen from the partition that its trigger saw."""

    CATCHING_UP_PEER = "catching_up_peer"
    LEADER = "leader"
    FOLLOWER = "follower"
    ALL = "all"
    ANY = "any"
    NODE = "node"


class Target(_Part, frozen=True, kw_only=True):
    """`count` nodes of `role`; with role `node` the one named `node`; only of `pool`, if given."""

    role: TargetRole
    count: Count = 1
    node: str | None = None
    pool: str | None = None


class FaultBase(_Part, frozen=True, kw_only=True, tag_field="type"):
    """What all faults have: done `times` times, each `pause_s` after the one before.

    `hold_s` lies between the effect and the recovery. With `wait_recovered` false the next step
    begins at once and the recovery phase waits instead.
    """

    disturbs: ClassVar[bool] = True

    name: Name
    trigger: Trigger = msgspec.field(default_factory=AtOnce)
    hold_s: Seconds = 0.0
    wait_recovered: bool = True
    timeout_s: Seconds = 90.0
    times: Annotated[int, Meta(ge=1, le=1000)] = 1
    pause_s: Seconds = 0.0


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
    """Delete the pod with its own grace period, preStop hook included."""

    target: Target


class RollingRestart(FaultBase, frozen=True, kw_only=True, tag="rolling_restart"):
    """Restart every node of a pool (of all pools without one), one after another."""

    pool: str | None = None


class NodeOutage(FaultBase, frozen=True, kw_only=True, tag="node_outage"):
    """Hold the pod down for `hold_s`: a finalizer keeps its successor away."""

    target: Target


class Scale(FaultBase, frozen=True, kw_only=True, tag="scale"):
    """Set a pool's size; this is what starts a rebalance, and no harm to anyone."""

    disturbs: ClassVar[bool] = False

    pool: Name
    replicas: Annotated[int, Meta(ge=0, le=1000)]


Fault = PodKill | ProcessKill | ProcessPause | GracefulDelete | RollingRestart | NodeOutage | Scale


class Expectations(_Part, frozen=True, kw_only=True):
    """What the analysis judges the run by; a limit that is absent isn't judged."""

    lost: Annotated[int, Meta(ge=0)] = 0
    stale: Annotated[int, Meta(ge=0)] = 0
    max_window_ms: Annotated[int, Meta(ge=0)] | None = None
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
