"""Does one fault of a scenario: trigger, targets, six verbs, and a record of each step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from zonequake_chaos.errors import FaultFailed
from zonequake_chaos.faults.life import FaultLife, FaultWorld, Injection, Proof, Victim
from zonequake_chaos.faults.registry import life_of
from zonequake_chaos.observe.view import ClusterView
from zonequake_chaos.record.clock import Moment, RunClock
from zonequake_chaos.record.event_log import EventLog
from zonequake_chaos.runner.landings import Kill, Landing
from zonequake_chaos.scenario.faults import (
    AnyFault,
    ComponentKillSpec,
    ComponentPauseSpec,
    LinkFaultSpec,
    LoadPauseSpec,
    NodeOutageSpec,
    OperatorKillSpec,
    OperatorPauseSpec,
    PodKillSpec,
    PowerLossSpec,
    ProcessKillSpec,
    ReachedSpec,
    ResetByHandSpec,
    RollingRestartSpec,
    ScaleSpec,
    TargetRole,
    fault_type,
)
from zonequake_chaos.scenario.triggers import OnStage
from zonequake_chaos.targeting.targets import (
    Chooser,
    NoTarget,
    choose_nodes,
    choose_sides,
    choose_sighting,
    named_nodes,
)
from zonequake_chaos.targeting.triggers import (
    EarlierFaults,
    PartitionPlace,
    Sighting,
    sightings,
    trigger_in_words,
)
from zonequake_kube.errors import ChaosError, ClusterError, WaitExpired
from zonequake_protocol.admin import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class LastingFault:
    """A fault that lasts while others are done."""

    life: FaultLife
    injection: Injection
    described: dict[str, object]


@dataclass(slots=True, kw_only=True)
class FaultResults:
    """The results of the faults so far: misses with their reasons, landings of faults bound
    to a stage, and kills.
    """

    places: dict[str, PartitionPlace | None] = field(default_factory=dict)
    landings: list[Landing] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    missed: dict[str, str] = field(default_factory=dict)
    effective: dict[str, int] = field(default_factory=dict)
    """The time at which each fault first took effect, monotonic ns, by name."""
    recovering: list[tuple[FaultLife, Injection]] = field(default_factory=list)
    held: dict[str, list[LastingFault]] = field(default_factory=dict)
    """Held faults, by the name of the fault until which they hold."""
    cut_short: dict[str, str] = field(default_factory=dict)
    """Faults that were over before their recovery began, with the evidence."""


async def inject_fault(
    fault: AnyFault,
    *,
    world: FaultWorld,
    chooser: Chooser,
    done: FaultResults,
    note: Callable[[str], None],
    apart: frozenset[str] = frozenset(),
) -> None:
    """Injects `fault` as many times as its `times` says. A fault that can't land is recorded, and
    the run goes on.

    `apart`: nodes that no fault may target, those of the control. Raises HarnessError only if a
    part of the fault could not be undone.
    """
    for repetition in range(fault.times):
        if repetition:
            await asyncio.sleep(fault.pause_s)
        if not await _inject_once(
            fault, world=world, chooser=chooser, done=done, note=note, apart=apart
        ):
            break
    await release(fault.name, done=done, events=world.events)


async def release(until: str, *, done: FaultResults, events: EventLog) -> None:
    """Begins the recovery of the faults that were held until this one."""
    for held in done.held.pop(until, []):
        events.emit("fault.stop", held.described, place=held.injection.sighting.place)
        await _recover(held.life, held.injection, done=done, events=events)
        done.recovering.append((held.life, held.injection))


async def _inject_once(
    fault: AnyFault,
    *,
    world: FaultWorld,
    chooser: Chooser,
    done: FaultResults,
    note: Callable[[str], None],
    apart: frozenset[str],
) -> bool:
    try:
        view, sighting = await _wait_for_trigger(fault, world, chooser, done)
        there = {name: node for name, node in view.nodes.items() if name not in apart}
        nodes, opposite = _choose(fault, replace(view, nodes=there), sighting, chooser)
    except (WaitExpired, NoTarget) as reason:
        _miss(fault, world, done, str(reason))
        return False
    done.places[fault.name] = sighting.place
    injection = Injection(
        world=world,
        name=fault.name,
        victims=tuple(Victim.of(view.nodes[name]) for name in nodes),
        sighting=sighting,
        timeout_s=fault.timeout_s,
        hold_s=fault.hold_s,
        opposite=tuple(Victim.of(view.nodes[name]) for name in opposite),
        held=fault.held_until is not None,
    )
    described = _described(fault, nodes, sighting)
    life = life_of(fault)
    try:
        await life.prepare(injection)
    except (FaultFailed, ClusterError, WaitExpired) as error:
        await life.clean_up(injection)
        _miss(fault, world, done, f"it could not be prepared: {error}")
        return False
    note(f"{', '.join(nodes) or sighting.what}, seen: {_seen(sighting)}")
    injected = world.clock.now()
    world.events.emit("fault.start", described, place=sighting.place, at=injected)
    try:
        await life.inject(injection)
        proof = await life.wait_until_effective(injection)
    except ChaosError as error:
        await life.clean_up(injection)
        _miss(fault, world, done, f"no proof of its effect: {error}")
        return False
    world.events.emit("fault.effective", described | {"proof": proof}, place=sighting.place)
    done.effective.setdefault(fault.name, world.clock.now().time_ns)
    done.landings += _landings(fault, injection, injected, proof, world.clock)
    done.kills += _kills(fault, injection, injected)
    if fault.held_until is not None:
        held = LastingFault(life=life, injection=injection, described=described)
        done.held.setdefault(fault.held_until, []).append(held)
        return True
    await release(fault.name, done=done, events=world.events)
    await asyncio.sleep(fault.hold_s)
    world.events.emit("fault.stop", described, place=sighting.place)
    await _recover(life, injection, done=done, events=world.events)
    if fault.wait_recovered:
        await finish(life, injection, described)
    else:
        done.recovering.append((life, injection))
    return True


async def _recover(
    life: FaultLife, injection: Injection, *, done: FaultResults, events: EventLog
) -> None:
    """Ends a fault; one that ended before its time counts as missed."""
    await life.recover(injection)
    if injection.ended_early is not None:
        reason = f"it ended early: {injection.ended_early}"
        done.cut_short[injection.name] = reason
        events.emit("fault.missed", {"fault": injection.name, "reason": reason})


async def finish(life: FaultLife, injection: Injection, described: dict[str, object]) -> None:
    """Waits until the victims are back, and pays the fault's debts. Raises WaitExpired."""
    await life.wait_until_recovered(injection)
    await life.clean_up(injection)
    proof = {} if injection.back is None else {"proof": injection.back}
    injection.world.events.emit(
        "fault.recovered", described | proof, place=injection.sighting.place
    )


async def _wait_for_trigger(
    fault: AnyFault, world: FaultWorld, chooser: Chooser, done: FaultResults
) -> tuple[ClusterView, Sighting]:
    """Waits for the trigger; returns it with the view that showed it. Raises WaitExpired."""

    def look(view: ClusterView) -> tuple[ClusterView, Sighting] | None:
        before = EarlierFaults(places=done.places, effective_ns=done.effective)
        seen = sightings(fault.trigger, view, before)
        return (view, choose_sighting(seen, chooser)) if seen else None

    with world.observer.armed():
        return await world.observer.wait(
            look,
            timeout_s=fault.trigger.timeout_s,
            waiting_for=lambda view: f"{trigger_in_words(fault.trigger)}; saw {_stages(view)}",
        )


def _choose(
    fault: AnyFault, view: ClusterView, sighting: Sighting, chooser: Chooser
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the victims, and the other side if the fault is between two sides."""
    match fault:
        case (
            ScaleSpec()
            | ComponentPauseSpec()
            | ComponentKillSpec()
            | OperatorPauseSpec()
            | OperatorKillSpec()
            | LoadPauseSpec()
            | ReachedSpec()
        ):
            return (), ()
        case ResetByHandSpec():
            return tuple(named_nodes([fault.survivor] if fault.survivor else [], view)), ()
        case RollingRestartSpec():
            nodes = [n.name for n in view.nodes.values() if fault.pool in (None, n.pod.pool)]
            if fault.nodes:
                nodes = named_nodes(fault.nodes, view)
            if not nodes:
                raise NoTarget(f"pool {fault.pool} has no data node, expected at least one")
            return tuple(chooser.sample(sorted(nodes), len(nodes))), ()
        case LinkFaultSpec(between=(first, second)):
            return choose_sides(first, second, view, sighting, chooser)
        case _:
            assert fault.target is not None, "checked when the manifest was read"
            return choose_nodes(fault.target, view, sighting, chooser), ()


def _landings(
    fault: AnyFault, injection: Injection, injected: Moment, proof: Proof, clock: RunClock
) -> list[Landing]:
    """Returns one landing for each victim of a fault that is bound to a stage."""
    if not isinstance(fault.trigger, OnStage) or injection.sighting.place is None:
        return []
    gone_ns = proof.get("gone_ns")
    if not isinstance(gone_ns, dict):
        return []
    now = clock.now()
    wall_offset_ns = now.wall_ns - now.time_ns
    target = getattr(fault, "target", None)
    return [
        Landing(
            fault=fault.name,
            place=injection.sighting.place,
            victim=victim.node,
            was_leader=target is not None and target.role is TargetRole.LEADER,
            asked=tuple(fault.trigger.stages),
            injected=injected,
            gone=Moment(
                time_ns=gone_ns[victim.node],
                wall_ns=gone_ns[victim.node] + wall_offset_ns,
                clock=now.clock,
            ),
            progress_seen=injection.sighting.progress,
        )
        for victim in injection.victims
    ]


def _kills(fault: AnyFault, injection: Injection, injected: Moment) -> list[Kill]:
    """Returns one kill for each victim of a fault that ends processes by SIGKILL."""
    if not isinstance(fault, PodKillSpec | ProcessKillSpec | PowerLossSpec | NodeOutageSpec):
        return []
    return [
        Kill(fault=fault.name, victim=victim.node, injected=injected)
        for victim in injection.victims
    ]


def _miss(fault: AnyFault, world: FaultWorld, done: FaultResults, reason: str) -> None:
    done.missed[fault.name] = reason
    world.events.emit("fault.missed", {"fault": fault.name, "reason": reason})


def _described(fault: AnyFault, nodes: tuple[str, ...], sighting: Sighting) -> dict[str, object]:
    target = getattr(fault, "target", None)
    return {
        "fault": fault.name,
        "type": fault_type(fault),
        "targets": list(nodes),
        "trigger": {
            "what": sighting.what,
            "stage": sighting.stage,
            "progress": sighting.progress,
            "partition": sighting.place[1] if sighting.place is not None else None,
            "leader": sighting.leader,
            "token": sighting.token,
            "role": target.role if target is not None else None,
        },
    }


def _seen(sighting: Sighting) -> str:
    progress = f" at {sighting.progress:.0%}" if sighting.progress is not None else ""
    return f"{sighting.what}{progress}"


def _stages(view: ClusterView) -> str:
    counts = dict.fromkeys(Stage, 0)
    for partition in view.partitions.values():
        counts[partition.stage] += 1
    return ", ".join(f"{count} × {stage.value}" for stage, count in counts.items() if count)
