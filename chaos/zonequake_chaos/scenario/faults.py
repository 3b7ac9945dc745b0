"""The manifest's faults and their targets, as types.

Pure: `zonequake_chaos.faults` injects them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from zonequake_chaos.scenario.fields import FilePath, ManifestPart, Name, PositiveCount, Seconds
from zonequake_chaos.scenario.triggers import AtOnce, Trigger


class TargetRole(StrEnum):
    """The data nodes that a fault targets, relative to the partition that its trigger saw."""

    CATCHING_UP_PEER = "catching_up_peer"
    LEADER = "leader"
    FOLLOWER = "follower"
    ALL = "all"
    ANY = "any"
    NODE = "node"
    NODES = "nodes"


class FaultTarget(ManifestPart, frozen=True, kw_only=True):
    """`count` nodes of `role`; with role `node` the one named `node`; only of `pool`, if given.

    With role `nodes` all of `nodes`, in that order: by the names of their pods, or without the
    release, as in `default-0`.
    """

    role: TargetRole
    count: PositiveCount = 1
    node: str | None = None
    nodes: list[str] = msgspec.field(default_factory=list)
    pool: str | None = None


class FaultSpec(ManifestPart, frozen=True, kw_only=True, tag_field="type"):
    """The common fields of all faults: done `times` times, each `pause_s` after the one before.

    `hold_s` lies between the effect and the recovery. With `wait_recovered` false the next step
    begins at once and the recovery phase waits instead. With `held_until` the recovery begins when
    that later fault has taken effect (or was missed), and the faults between are done meanwhile.

    `disturbs`: members are harmed. `challenges`: the system must cope with it, so that a run
    whose only effective fault it is shows something.
    """

    disturbs: ClassVar[bool] = True
    challenges: ClassVar[bool] = True

    name: Name
    trigger: Trigger = msgspec.field(default_factory=AtOnce)
    hold_s: Seconds = 0.0
    wait_recovered: bool = True
    timeout_s: Seconds = 90.0
    times: Annotated[int, Meta(ge=1, le=1000)] = 1
    pause_s: Seconds = 0.0
    held_until: str | None = None


class PodKillSpec(FaultSpec, frozen=True, kw_only=True, tag="pod_kill"):
    """SIGKILL the store's process and delete its pod with grace 0, at the same time."""

    target: FaultTarget


class ProcessKillSpec(FaultSpec, frozen=True, kw_only=True, tag="process_kill"):
    """SIGKILL the store's process; the container is restarted in place."""

    target: FaultTarget


class ProcessPauseSpec(FaultSpec, frozen=True, kw_only=True, tag="process_pause"):
    """SIGSTOP the store's process for `hold_s`, then SIGCONT."""

    target: FaultTarget


class GracefulDeleteSpec(FaultSpec, frozen=True, kw_only=True, tag="graceful_delete"):
    """Delete the pod with its own grace period, in which it hands over its leaderships."""

    target: FaultTarget


class RollingRestartSpec(FaultSpec, frozen=True, kw_only=True, tag="rolling_restart"):
    """Restart every node of a pool (of all pools without one), one after another; or `nodes`."""

    pool: str | None = None
    nodes: list[str] = msgspec.field(default_factory=list)


class NodeOutageSpec(FaultSpec, frozen=True, kw_only=True, tag="node_outage"):
    """Hold the pods down for `hold_s`: a finalizer keeps their successors away.

    They return in the order of their names, or of `target.nodes`, `return_gap_s` apart.
    """

    target: FaultTarget
    return_gap_s: Seconds = 0.0


class Traffic(StrEnum):
    """The packets of a pod that a link fault affects.

    `all`: everything. `peers`: the members' port for each other. `clients`: their port for clients.
    `control`: the API server's ports.
    """

    ALL = "all"
    PEERS = "peers"
    CLIENTS = "clients"
    CONTROL = "control"


class Direction(StrEnum):
    """Relative to the target: packets to it (`inbound`), packets from it (`outbound`), or both."""

    BOTH = "both"
    INBOUND = "inbound"
    OUTBOUND = "outbound"


class Side(StrEnum):
    """Words for one side of a link beside the names of nodes."""

    LEADER = "leader"
    FOLLOWER = "follower"
    FOLLOWERS = "followers"
    OTHERS = "others"


class LinkFaultSpec(FaultSpec, frozen=True, kw_only=True):
    """The common fields of faults of links: the pods, the direction, and the packets.

    Either `target`: all its links; or `between`: the links from the nodes of the first side to
    those of the second, each a list of names and of the words of `Side`. `direction` is relative to
    the target, or to the first side.
    """

    target: FaultTarget | None = None
    between: tuple[list[str], list[str]] | None = None
    direction: Direction = Direction.BOTH


class NetworkPartitionSpec(LinkFaultSpec, frozen=True, kw_only=True, tag="network_partition"):
    """Cut links for `hold_s`, by rules in the pods' own network namespaces."""

    cut: Traffic = Traffic.ALL


class NetworkLossSpec(LinkFaultSpec, frozen=True, kw_only=True, tag="network_loss"):
    """Lose `percent` of the packets for `hold_s`, each at random in the kernel."""

    percent: Annotated[float, Meta(gt=0, lt=100)]
    traffic: Traffic = Traffic.PEERS


class NetworkSlowSpec(LinkFaultSpec, frozen=True, kw_only=True, tag="network_slow"):
    """Delay packets for `hold_s`: by `delay_ms`, give or take `jitter_ms`, and by a rate.

    `bytes_per_second` is for each direction of each target; 0: no limit.
    """

    delay_ms: Annotated[float, Meta(ge=0, le=60_000)] = 0.0
    jitter_ms: Annotated[float, Meta(ge=0, le=60_000)] = 0.0
    bytes_per_second: Annotated[int, Meta(ge=0)] = 0
    traffic: Traffic = Traffic.PEERS


class ForceDeleteSpec(FaultSpec, frozen=True, kw_only=True, tag="force_delete"):
    """Delete the pods' objects with grace 0 while the kubelet hangs: the processes run on."""

    target: FaultTarget


class ComponentPauseSpec(FaultSpec, frozen=True, kw_only=True, tag="component_pause"):
    """SIGSTOP a component of the node itself for `hold_s`: an API server that hangs."""

    component: Literal["kube-apiserver", "kubelet"] = "kube-apiserver"


class ComponentKillSpec(FaultSpec, frozen=True, kw_only=True, tag="component_kill"):
    """SIGKILL a component of the node again and again for `hold_s`: connections are refused."""

    component: Literal["kube-apiserver"] = "kube-apiserver"


class OperatorPauseSpec(FaultSpec, frozen=True, kw_only=True, tag="operator_pause"):
    """SIGSTOP the operator's processes for `hold_s`: nothing is decided, no replica takes over."""


class OperatorKillSpec(FaultSpec, frozen=True, kw_only=True, tag="operator_kill"):
    """SIGKILL the operator's processes; the kubelet restarts their containers."""


class FailedFsyncSpec(FaultSpec, frozen=True, kw_only=True, tag="failed_fsync"):
    """Make fsync, fdatasync and msync of the pods' processes fail with EIO for `hold_s`, or as long
    as these processes live."""

    target: FaultTarget


class DiskFullSpec(FaultSpec, frozen=True, kw_only=True, tag="disk_full"):
    """Fill the pods' volumes for `hold_s`; only volumes that are file systems of their own."""

    target: FaultTarget


class DiskCalls(StrEnum):
    """The system calls that a slow disk delays."""

    SYNCS = "syncs"
    WRITES = "writes"


class SlowDiskSpec(FaultSpec, frozen=True, kw_only=True, tag="slow_disk"):
    """Delay each sync or write of the pods' processes by `delay_ms` for `hold_s`, or as long as
    these processes live.

    `files`: only calls for these, as absolute paths in the pod, in which * stands for any part of a
    name; they must exist when the fault begins.
    """

    target: FaultTarget
    delay_ms: Annotated[float, Meta(gt=0, le=60_000)]
    calls: DiskCalls = DiskCalls.SYNCS
    files: list[FilePath] = msgspec.field(default_factory=list)


class PowerLossSpec(FaultSpec, frozen=True, kw_only=True, tag="power_loss"):
    """Kill the pods' processes and drop what their volumes had not synced; only volumes that are
    file systems of their own.
    """

    target: FaultTarget


class ClockStepSpec(FaultSpec, frozen=True, kw_only=True, tag="clock_step"):
    """Step the wall clock of the pods' processes by `step_s` for `hold_s`, forward or back."""

    target: FaultTarget
    step_s: Annotated[int, Meta(ge=-3_000_000_000, le=3_000_000_000)]


class LoadPauseSpec(FaultSpec, frozen=True, kw_only=True, tag="load_pause"):
    """No load and no probes for `hold_s`: nothing is written meanwhile."""

    disturbs: ClassVar[bool] = False
    challenges: ClassVar[bool] = False


class ResetByHandSpec(FaultSpec, frozen=True, kw_only=True, tag="reset_by_hand"):
    """Give up lost majorities as `zonequake reset` does: those of `partitions`. Default: all lost
    ones.

    `zone` may be omitted if the run has only one. `survivor`: the node to continue with, named as
    in `Target.nodes`. Default: the one with the newest data.
    """

    zone: str | None = None
    partitions: list[Annotated[int, Meta(ge=0)]] = msgspec.field(default_factory=list)
    survivor: str | None = None


class ReachedSpec(FaultSpec, frozen=True, kw_only=True, tag="reached"):
    """No fault, but a state that must be reached: the run is unknown if its trigger never comes."""

    disturbs: ClassVar[bool] = False
    challenges: ClassVar[bool] = False


class ScaleSpec(FaultSpec, frozen=True, kw_only=True, tag="scale"):
    """Set a pool's size; this starts a rebalance, and harms no node."""

    disturbs: ClassVar[bool] = False

    pool: Name
    replicas: Annotated[int, Meta(ge=0, le=1000)]


AnyFault = (
    PodKillSpec
    | ProcessKillSpec
    | ProcessPauseSpec
    | GracefulDeleteSpec
    | RollingRestartSpec
    | NodeOutageSpec
    | NetworkPartitionSpec
    | NetworkLossSpec
    | NetworkSlowSpec
    | ForceDeleteSpec
    | ComponentPauseSpec
    | ComponentKillSpec
    | FailedFsyncSpec
    | DiskFullSpec
    | SlowDiskSpec
    | PowerLossSpec
    | ClockStepSpec
    | OperatorPauseSpec
    | OperatorKillSpec
    | LoadPauseSpec
    | ResetByHandSpec
    | ReachedSpec
    | ScaleSpec
)

OnTheNode = ForceDeleteSpec | ComponentPauseSpec | ComponentKillSpec
"""Faults that are made on the node itself, and so need an embedded cluster on this machine."""

ByAgent = (
    NetworkPartitionSpec
    | NetworkLossSpec
    | NetworkSlowSpec
    | FailedFsyncSpec
    | DiskFullSpec
    | SlowDiskSpec
    | PowerLossSpec
    | ClockStepSpec
)
"""Faults that need a shell on the node of a pod: the fault agent, or an embedded cluster here."""


Bounded = LinkFaultSpec | FailedFsyncSpec | SlowDiskSpec
"""Faults that the node ends by itself after some time, even if the harness has died."""

HELD_AT_MOST_S = 1800.0
"""That time of a `Bounded` fault that is held until another one takes effect."""


def least_duration_s(fault: AnyFault) -> float:
    """Returns how long the fault takes at least, by its holds and the pauses between them."""
    return fault.hold_s * fault.times + fault.pause_s * (fault.times - 1)


def fault_type(fault: AnyFault) -> str:
    """Returns the fault's `type`, as in the file and in the events."""
    return str(type(fault).__struct_config__.tag)
