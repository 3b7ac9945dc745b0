"""The parts of a scenario that etcd supports, and those that it does not. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from zonequake_chaos.scenario.faults import (
    AnyFault,
    FaultTarget,
    OperatorKillSpec,
    OperatorPauseSpec,
    ResetByHandSpec,
    ScaleSpec,
    TargetRole,
)
from zonequake_chaos.scenario.run import ChaosRun, RunZone
from zonequake_chaos.scenario.triggers import OnKey, OnStage
from zonequake_kube.errors import UsageError

LEAST_HEARTBEATS = 5
"""The least election time-out that etcd accepts, in heartbeats."""


def check_run(run: ChaosRun) -> None:
    """Raises UsageError with every part of the scenario that etcd does not support."""
    problems = list(unsuited(run))
    if problems:
        raise UsageError(
            f"{run.metadata.name} can't be run with --target etcd: " + "; ".join(problems)
        )


def unsuited(run: ChaosRun) -> Iterator[str]:
    """Yields each part of the scenario that etcd does not support, as text."""
    spec = run.spec
    if len(spec.zones) > 1:
        kept = spec.zones[0]
        yield (
            f"it has {len(spec.zones)} zones, and an etcd is one group: keep one, for instance by "
            f"--set 'zones=[{{name: {kept.name}, partitions: {kept.partitions}, "
            f"replicas: {kept.replicas}}}]'"
        )
    for zone in spec.zones:
        yield from _unsuited_zone(zone)
    if len(spec.pools) > 1:
        yield f"it has {len(spec.pools)} pools, and an etcd's members are all alike: keep one"
    nodes, members = spec.pools[0].replicas, spec.zones[0].replicas
    if nodes != members:
        yield (
            f"its pool has {nodes} nodes for {members} replicas, and each member of an etcd "
            f"holds everything: --set pools.0.replicas={members}"
        )
    for fault in spec.faults:
        for problem in _unsuited_fault(fault):
            yield f"fault {fault.name!r} {problem}"
    wanted = spec.expectations
    if wanted.resets or wanted.sacrificed_at_least or wanted.restored_at_least:
        yield "it expects forced resets, which etcd does not do by itself"
    settings = spec.etcd
    if settings.election_timeout_ms < LEAST_HEARTBEATS * settings.heartbeat_ms:
        yield (
            f"etcd.electionTimeoutMilliseconds {settings.election_timeout_ms} must be at least "
            f"{LEAST_HEARTBEATS} times etcd.heartbeatMilliseconds {settings.heartbeat_ms}"
        )


def _unsuited_zone(zone: RunZone) -> Iterator[str]:
    if zone.consistency_mode == "HighAvailability":
        yield f"zone {zone.name} is of mode HighAvailability, which etcd does not have"
    if zone.storage == "Volatile":
        yield f"zone {zone.name} is volatile, and an etcd keeps its log on disk"
    if zone.data_nodes_filter is not None:
        yield f"zone {zone.name} filters its data nodes, and an etcd's members are fixed"


def _unsuited_fault(fault: AnyFault) -> Iterator[str]:
    target: FaultTarget | None = getattr(fault, "target", None)
    if isinstance(fault, ScaleSpec):
        yield "scales a pool, and an etcd's members are fixed"
    if isinstance(fault, OperatorPauseSpec | OperatorKillSpec):
        yield "targets our operator, which does not manage an etcd"
    if isinstance(fault, ResetByHandSpec):
        yield "resets partitions by hand, which only our operator can do"
    if isinstance(fault.trigger, OnStage):
        yield "waits for a stage of a rebalance, which etcd does not have"
    if isinstance(fault.trigger, OnKey):
        key = fault.trigger.key.value
        yield f"waits for the key {key} of a Partition, which etcd does not have"
    if target is not None and target.role is TargetRole.CATCHING_UP_PEER:
        yield "targets a catching-up peer, which etcd does not report"
