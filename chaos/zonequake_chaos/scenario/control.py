"""The control of a run measures the cost of the machine itself, before the faults.

    before │ control: nodes that hold nothing are restarted │ faults: those that hold data are

A pool gets further data nodes once the zones are served; no zone takes them, since the zones'
scale-up timers are infinite. They are restarted one after another, exactly as by a
`rolling_restart`, and the load goes on as after the faults. No replica is affected, so any slowdown
in that time is the cost of kubelet, container runtime and starting processes.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from zonequake_chaos.observe.view import ClusterView
from zonequake_chaos.scenario.faults import RollingRestartSpec
from zonequake_chaos.scenario.run import ChaosRun, Control, RunSpec
from zonequake_chaos.scenario.triggers import OnSettled

CONTROL = "control"
"""The name of the phase, and of its fault in plan, events and verdict."""


def control_nodes(spec: RunSpec, release: str) -> tuple[str, ...]:
    """Returns the pods that hold no replica; none without a control."""
    control = spec.control
    if control is None:
        return ()
    first = _size_of(spec, control)
    return tuple(f"{release}-{control.pool}-{first + n}" for n in range(control.nodes))


def control_fault(nodes: Iterable[str]) -> RollingRestartSpec:
    """Returns the restart of these nodes, as a fault of the plan."""
    return RollingRestartSpec(name=CONTROL, trigger=OnSettled(), nodes=list(nodes), timeout_s=120.0)


def with_control(spec: RunSpec, pool: str) -> int:
    """Returns the number of nodes of the pool, including those of the control."""
    size = next(each.replicas for each in spec.pools if each.name == pool)
    control = spec.control
    return size + (control.nodes if control is not None and control.pool == pool else 0)


def without_control(run: ChaosRun) -> ChaosRun:
    """Returns the same run without a control, for a target whose members all hold data."""
    return msgspec.structs.replace(run, spec=msgspec.structs.replace(run.spec, control=None))


def holding(view: ClusterView, nodes: Iterable[str]) -> list[str]:
    """Returns replicas on nodes that should hold none, as `default-3 holds chaos/0`."""
    wanted = set(nodes)
    return sorted(
        f"{node} holds {partition.zone}/{partition.partition}"
        for partition in view.partitions.values()
        for node in wanted & {*partition.members, *partition.replicas}
    )


def _size_of(spec: RunSpec, control: Control) -> int:
    return next(pool.replicas for pool in spec.pools if pool.name == control.pool)
