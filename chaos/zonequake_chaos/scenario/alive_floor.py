"""The floor: the least number of replicas of a partition that are alive at any moment of a plan.

Pure, and computed from the manifest only: which faults overlap, and how many replicas of one
partition they can take away together if chance places all victims in it. A scenario with fewer
replicas alive than a majority must declare it, in `spec.floor`.

    fault        ├─ inject ─┤├─ hold ─┤├─ recover ─┤        waitRecovered: the next one begins here
    lasts        ═══════════════════════════════════
    heldUntil: b ═════════════════ b's turn ════╌╌╌╌╌╌ away until one whose trigger is `settled`

A node counts as away if it is killed, paused, held down, cut off from its peers (or nearly so, by
slow or lossy links), or kept from its disk (or nearly so, by a slow one). A node that only loses
the API server is away for a HighAvailability zone, whose nodes stop when their Leases run out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from zonequake_chaos.errors import PlanRefused
from zonequake_chaos.scenario.faults import (
    AnyFault,
    ClockStepSpec,
    ComponentKillSpec,
    ComponentPauseSpec,
    DiskFullSpec,
    FailedFsyncSpec,
    FaultTarget,
    LinkFaultSpec,
    NetworkLossSpec,
    NetworkSlowSpec,
    ResetByHandSpec,
    RollingRestartSpec,
    ScaleSpec,
    Side,
    SlowDiskSpec,
    TargetRole,
    Traffic,
)
from zonequake_chaos.scenario.node_names import node_of_pools
from zonequake_chaos.scenario.run import ChaosRun, RunZone
from zonequake_chaos.scenario.triggers import OnSettled

API_SERVER = "kube-apiserver"

CUT_DELAY_MS = 1000.0
CUT_PERCENT = 50.0
CUT_BYTES_PER_SECOND = 5_000
"""Limits of links as bad as a cut: slower than an election time-out, losing more than TCP can
repair in that time, or filled by heartbeats alone. A member behind such links counts as cut off.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Harm:
    """The loss that one fault causes while it lasts.

    `nodes`: the nodes that the plan names, as `pool-ordinal`; `others`: the number of further
    nodes, without names; `leases_only`: they run on, but without the API server. `thing`: a
    component of the node. `lasting`: removed with its pool's size. `runs`: the victims' processes
    run on, so that another fault can hit them.
    """

    fault: str
    nodes: frozenset[str] = frozenset()
    others: int = 0
    leases_only: bool = False
    thing: str | None = None
    lasting: bool = False
    runs: bool = False


@dataclass(slots=True, kw_only=True)
class _Plan:
    """The state of the plan when a fault begins."""

    sizes: dict[str, int]
    peak: int
    held: list[tuple[str, Harm]] = field(default_factory=list)
    """Faults that hold, with the name of the fault until which they hold."""
    returning: list[Harm] = field(default_factory=list)
    """Losses of faults that are over, but whose nodes were not awaited."""
    missing: list[Harm] = field(default_factory=list)
    """Nodes that a pool of reduced size no longer has."""


def check_plan(run: ChaosRun) -> None:
    """Raises PlanRefused with a sentence for each fault that must not be injected as planned."""
    refused = list(objections(run))
    if refused:
        raise PlanRefused("\n".join(refused))


def objections(run: ChaosRun) -> Iterator[str]:
    """Yields the reasons why the plan is refused, fault by fault; nothing if it isn't."""
    spec = run.spec
    sizes = {pool.name: pool.replicas for pool in spec.pools}
    plan = _Plan(sizes=sizes, peak=sum(sizes.values()))
    for zone in spec.zones:
        members = min(zone.replicas, plan.peak)
        if spec.floor is not None and spec.floor.alive_replicas > members:
            yield (
                f"spec.floor.aliveReplicas is {spec.floor.alive_replicas}, but a partition of zone "
                f"{zone.name!r} has {members} replicas, so no fault is possible: lower the floor"
            )
    for fault in spec.faults:
        if isinstance(fault.trigger, OnSettled):
            plan.returning.clear()
            plan.missing = [harm for harm in plan.missing if _stays_missing(spec.zones)]
        problem = _impossible(fault, plan.sizes) or _twice(fault, plan)
        if problem is not None:
            yield problem
        else:
            yield from _too_few(fault, run, plan)
        _go_on(fault, plan)


def harm_of(fault: AnyFault, sizes: Mapping[str, int]) -> Harm | None:
    """Returns the loss that the fault causes in pools of these sizes; None if there is none."""
    target: FaultTarget | None = getattr(fault, "target", None)
    match fault:
        case ScaleSpec():
            gone = range(fault.replicas, sizes.get(fault.pool, 0))
            names = frozenset(f"{fault.pool}-{ordinal}" for ordinal in gone)
            return Harm(fault=fault.name, nodes=names, lasting=True) if names else None
        case ComponentPauseSpec() | ComponentKillSpec():
            nodes = sum(sizes.values()) if fault.component == API_SERVER else 0
            return Harm(fault=fault.name, others=nodes, leases_only=True, thing=fault.component)
        case RollingRestartSpec():
            return Harm(fault=fault.name, others=1)
        case NetworkLossSpec() | NetworkSlowSpec() if not _as_good_as_cut(fault):
            return None  # nodes still reach each other over slow and lossy links
        case LinkFaultSpec(between=(first, second)):
            sides = [_side_size(side, sum(sizes.values())) for side in (first, second)]
            return Harm(fault=fault.name, others=min(sides))
        case ClockStepSpec():
            return None
        case SlowDiskSpec() if fault.delay_ms < CUT_DELAY_MS:
            return None
        case _ if target is None or not fault.disturbs:
            return None
        case FailedFsyncSpec() | DiskFullSpec() | SlowDiskSpec():
            return replace(_of_target(fault, fault.target, sizes, leases_only=False), runs=True)
        case _:
            traffic = getattr(fault, "cut", None) or getattr(fault, "traffic", None)
            leases_only = traffic is Traffic.CONTROL
            return _of_target(fault, target, sizes, leases_only=leases_only)


def _as_good_as_cut(fault: NetworkLossSpec | NetworkSlowSpec) -> bool:
    """Returns whether too few packets arrive in time for the peers to count a member as alive."""
    if isinstance(fault, NetworkLossSpec):
        return fault.percent >= CUT_PERCENT
    return fault.delay_ms >= CUT_DELAY_MS or 0 < fault.bytes_per_second < CUT_BYTES_PER_SECOND


def _of_target(
    fault: AnyFault, target: FaultTarget, sizes: Mapping[str, int], *, leases_only: bool
) -> Harm:
    named = [target.node] if target.node is not None else target.nodes
    if target.role is TargetRole.ALL:
        pools = [target.pool] if target.pool is not None else list(sizes)
        nodes = {f"{pool}-{n}" for pool in pools for n in range(sizes.get(pool, 0))}
        return Harm(fault=fault.name, nodes=frozenset(nodes), leases_only=leases_only)
    if named:
        found = {node_of_pools(name, sizes) or name for name in named}
        return Harm(fault=fault.name, nodes=frozenset(found), leases_only=leases_only)
    # Victims that are not awaited accumulate, unless each repetition waits for a settled cluster.
    adds_up = not fault.wait_recovered and not isinstance(fault.trigger, OnSettled)
    count = target.count * (fault.times if adds_up else 1)
    return Harm(fault=fault.name, others=count, leases_only=leases_only)


def _side_size(side: list[str], peak: int) -> int:
    """Returns the maximum number of nodes on a side of a partition; those on the smaller one are
    away.
    """
    return sum(peak - 1 if word in (Side.FOLLOWERS, Side.OTHERS) else 1 for word in side)


def _impossible(fault: AnyFault, sizes: Mapping[str, int]) -> str | None:
    """Returns an objection if a named node does not exist then, or fewer nodes than are hit."""
    target: FaultTarget | None = getattr(fault, "target", None)
    pools = ", ".join(f"{pool} has {size}" for pool, size in sizes.items())
    named: list[str] = []
    if target is not None:
        named = [target.node] if target.node is not None else target.nodes
    elif isinstance(fault, ResetByHandSpec) and fault.survivor is not None:
        named = [fault.survivor]
    for name in named:
        if node_of_pools(name, sizes) is None:
            return (
                f"fault {fault.name!r} targets node {name!r}, which will not exist then: pool "
                f"{pools}. Give the pool more replicas before, or name another node"
            )
    if target is None:
        return None
    there = sizes.get(target.pool, 0) if target.pool is not None else sum(sizes.values())
    if not named and target.role is not TargetRole.ALL and target.count > there:
        return (
            f"fault {fault.name!r} targets {target.count} nodes, and there are {there} then: "
            f"pool {pools}. Lower target.count, or give the pool more replicas before"
        )
    return None


def _twice(fault: AnyFault, plan: _Plan) -> str | None:
    """Returns an objection if two faults hit the same thing at the same time."""
    harm = harm_of(fault, plan.sizes)
    if harm is None:
        return None
    for until, earlier in plan.held:
        same = sorted(harm.nodes & earlier.nodes)
        if harm.thing is not None and harm.thing == earlier.thing:
            same = [harm.thing]
        if same and not earlier.runs and earlier.fault != fault.name:
            return (
                f"fault {fault.name!r} targets {', '.join(same)}, which {earlier.fault!r} holds "
                f"until {until!r}: end that fault earlier (heldUntil), or choose another target"
            )
    return None


def _too_few(fault: AnyFault, run: ChaosRun, plan: _Plan) -> Iterator[str]:
    harm = harm_of(fault, plan.sizes)
    if harm is None:
        return
    others = [held for _, held in plan.held] + plan.returning + plan.missing
    for zone in run.spec.zones:
        together = [h for h in (*others, harm) if not h.leases_only or _needs_leases(zone)]
        if harm not in together:
            continue
        nodes: frozenset[str] = frozenset().union(*(h.nodes for h in together))
        away = len(nodes) + sum(h.others for h in together)
        members = min(zone.replicas, plan.peak)
        alive = max(0, members - away)
        floor = floor_of(run, zone, members)
        if alive < floor:
            earlier = [h.fault for h in together if h is not harm]
            beside = (
                f", while {', '.join(map(repr, earlier))} may still be active" if earlier else ""
            )
            majority = "a majority" if run.spec.floor is None else "spec.floor.aliveReplicas"
            yield (
                f"fault {fault.name!r} could leave {alive} of {members} replicas of a partition of "
                f"zone {zone.name!r} alive{beside}; the floor is {floor} ({majority}). To allow it "
                f"declare spec.floor: {{aliveReplicas: {alive}}}"
                + ("; or end the others before, and begin at `settled`" if earlier else "")
            )


def floor_of(run: ChaosRun, zone: RunZone, members: int) -> int:
    """Returns how many replicas of each of the zone's partitions must be alive at any time."""
    if run.spec.floor is not None:
        return run.spec.floor.alive_replicas
    return members // 2 + 1


def _go_on(fault: AnyFault, plan: _Plan) -> None:
    """Updates the plan's state after a fault: which of its losses, and of earlier ones, still
    last.
    """
    harm = harm_of(fault, plan.sizes)
    if harm is not None:
        if fault.held_until is not None:
            plan.held.append((fault.held_until, harm))
        elif harm.lasting:
            plan.missing.append(harm)
        elif not fault.wait_recovered:
            plan.returning.append(harm)
    plan.returning += [h for until, h in plan.held if until == fault.name]
    plan.held = [(until, h) for until, h in plan.held if until != fault.name]
    if isinstance(fault, ScaleSpec):
        plan.sizes[fault.pool] = fault.replicas
        there = {f"{pool}-{n}" for pool, size in plan.sizes.items() for n in range(size)}
        plan.missing = [h for h in plan.missing if not h.nodes <= there]
        plan.peak = max(plan.peak, sum(plan.sizes.values()))


def _needs_leases(zone: RunZone) -> bool:
    return zone.consistency_mode == "HighAvailability"


def _stays_missing(zones: list[RunZone]) -> bool:
    """Returns whether some zone waits forever for nodes that its pool no longer has."""
    return any(zone.data_nodes_auto_adjust_scale_down == "Infinite" for zone in zones)
