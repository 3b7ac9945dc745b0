"""The numbered plan of a run: printed before the run, and again with states after it.

Pure: names and results of steps. `zonequake_chaos.runner.plan.plan_text` draws it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from zonequake_chaos.observe.view import ClusterView
from zonequake_chaos.scenario import faults
from zonequake_chaos.scenario.control import CONTROL
from zonequake_chaos.scenario.faults import AnyFault, fault_type
from zonequake_chaos.scenario.run import ChaosRun, RunLoad, RunSpec
from zonequake_chaos.targeting.targets import (
    Chooser,
    NoTarget,
    choose_nodes,
    choose_sighting,
    target_in_words,
)
from zonequake_chaos.targeting.triggers import EarlierFaults, sightings, trigger_in_words


class StepState(StrEnum):
    """The state of a step."""

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    MISSED = "missed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(slots=True, kw_only=True)
class PlanStep:
    """One numbered line; the runner finds it by `key`."""

    number: str
    key: str
    title: str
    state: StepState = StepState.PLANNED
    note: str = ""
    took_s: float | None = None
    steps: list[PlanStep] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class RunPlan:
    """The tree of one run."""

    scenario: str
    description: str
    seed: int
    steps: list[PlanStep]

    def walk(self) -> Iterator[PlanStep]:
        """Yields all steps, parents first."""
        pending = list(self.steps)
        while pending:
            step = pending.pop(0)
            yield step
            pending[:0] = step.steps

    def step(self, key: str) -> PlanStep:
        """Returns the step with that key. Raises KeyError."""
        for step in self.walk():
            if step.key == key:
                return step
        raise KeyError(key)


class PlanBuilder(Protocol):
    """Builds the tree for a scenario."""

    def __call__(self, run: ChaosRun, *, seed: int, target: str = "") -> RunPlan: ...


def build_plan(run: ChaosRun, *, seed: int, target: str = "") -> RunPlan:
    """Returns the tree for a scenario; `target`: the system under test, if it isn't our store."""
    spec = run.spec
    times = spec.times
    zones = ", ".join(
        f"{zone.name} ({zone.partitions} partitions × {zone.replicas} replicas)"
        for zone in spec.zones
    )
    pools = ", ".join(f"{pool.name} {pool.replicas}" for pool in spec.pools)
    made, gone = f"pools {pools}; zones {zones}", "zones, pool sizes"
    if target:
        made, gone = f"{target} with {spec.pools[0].replicas} members", target
    phases = [
        ("setup", f"Set up: {made}; {spec.load.pods} load pods"),
        ("preload", _preload_in_words(spec.load)),
        ("before", f"Steady load for {times.before_s:g} s"),
        *_control_phase(spec),
        ("faults", "Faults" if spec.faults else "No faults"),
        ("recovery", f"Recover: every rebalance ends, then {times.after_s:g} s of load"),
        ("quiet", f"Quiet for {times.quiet_s:g} s, then dump every replica"),
        ("final", "Read every key by two processes"),
        ("collect", "Collect histories, events, logs and metrics"),
        ("clean", f"Clean up: load, {gone}"),
    ]
    steps = [
        PlanStep(number=str(number), key=key, title=title)
        for number, (key, title) in enumerate(phases, 1)
    ]
    phase = next(step for step in steps if step.key == "faults")
    phase.steps = [
        PlanStep(
            number=f"{phase.number}.{number}",
            key=f"fault:{fault.name}",
            title=_fault_in_words(fault),
        )
        for number, fault in enumerate(spec.faults, 1)
    ]
    for step in steps:
        if step.key == CONTROL:
            title = "restart of each, one after another, from a settled state on"
            step.steps = [PlanStep(number=f"{step.number}.1", key=f"fault:{CONTROL}", title=title)]
    return RunPlan(
        scenario=run.metadata.name, description=run.metadata.description, seed=seed, steps=steps
    )


def _control_phase(spec: RunSpec) -> list[tuple[str, str]]:
    control = spec.control
    if control is None:
        return []
    what = f"{control.nodes} more nodes of pool {control.pool}, which hold no data"
    return [(CONTROL, f"Control: {what}; then {spec.times.after_s:g} s of load")]


def predict_targets(plan: RunPlan, run: ChaosRun, view: ClusterView, chooser: Chooser) -> None:
    """Notes at each fault the nodes that it would target in the state `view`."""
    for fault in run.spec.faults:
        target: faults.FaultTarget | None = getattr(fault, "target", None)
        if target is None:
            continue
        step = plan.step(f"fault:{fault.name}")
        seen = sightings(fault.trigger, view, EarlierFaults())
        if not seen:
            step.note = "target known when the trigger comes"
            continue
        try:
            names = choose_nodes(target, view, choose_sighting(seen, chooser), chooser)
        except NoTarget as reason:
            step.note = f"no target now: {reason}"
        else:
            step.note = f"now: {', '.join(names)}"


def _fault_in_words(fault: AnyFault) -> str:
    target: faults.FaultTarget | None = getattr(fault, "target", None)
    match fault:
        case faults.ScaleSpec():
            what = f"scale pool {fault.pool} to {fault.replicas}"
        case faults.RollingRestartSpec():
            whom = ", ".join(fault.nodes) or f"every node of {fault.pool or 'all pools'}"
            what = f"restart {whom}, one after another"
        case faults.ComponentPauseSpec():
            what = f"pause of the node's {fault.component}"
        case faults.ComponentKillSpec():
            what = f"kill of the node's {fault.component}, whenever it is back"
        case faults.ClockStepSpec():
            what = f"step of the wall clock of {target_in_words(fault.target)} by {fault.step_s} s"
        case faults.OperatorPauseSpec():
            what = "pause of the operator"
        case faults.OperatorKillSpec():
            what = "kill of the operator"
        case faults.LoadPauseSpec():
            what = "no load"
        case faults.ResetByHandSpec():
            what = _reset_in_words(fault)
        case faults.ReachedSpec():
            what = "reached"
        case faults.LinkFaultSpec():
            what = f"{fault_type(fault).replace('_', ' ')} {_links_in_words(fault)}"
        case _:
            assert target is not None
            what = f"{fault_type(fault).replace('_', ' ')} of {target_in_words(target)}"
    held = f", for {fault.hold_s:g} s" if fault.hold_s else ""
    if fault.held_until is not None:
        held = f", until {fault.held_until}"
    times = f", {fault.times} times every {fault.pause_s:g} s" if fault.times > 1 else ""
    return f"{fault.name}: {what} {trigger_in_words(fault.trigger)}{held}{times}"


def _reset_in_words(fault: faults.ResetByHandSpec) -> str:
    numbers = ", ".join(map(str, fault.partitions))
    where = f" of zone {fault.zone}" if fault.zone else ""
    what = f"partitions {numbers}{where}"
    if not numbers:
        what = f"all partitions{where} that lost their majority"
    onto = f", from the data of {fault.survivor}" if fault.survivor else ""
    return f"reset by hand of {what}{onto},"


def _links_in_words(fault: faults.LinkFaultSpec) -> str:
    both = fault.direction is faults.Direction.BOTH
    way = "" if both else f", {fault.direction.value} alone"
    if fault.between is not None:
        first, second = (", ".join(side) for side in fault.between)
        return f"between {first} and {second}{way}"
    assert fault.target is not None, "checked when the manifest was read"
    return f"of {target_in_words(fault.target)}{way}"


def _preload_in_words(load: RunLoad) -> str:
    if not load.bulk_keys_per_partition:
        return "Preload: every key once"
    size_kib = load.bulk_keys_per_partition * load.filler_bytes / 1024
    return f"Preload: every key once, and {size_kib:,.0f} KiB of filler in each partition"
