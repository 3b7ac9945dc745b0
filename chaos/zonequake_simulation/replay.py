"""Repeats one seed: traced, or with the fewest faults that still break the same rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from zonequake_kube.errors import UsageError
from zonequake_simulation.plan import FaultPlan
from zonequake_simulation.report import simulate
from zonequake_simulation.scenario import Scenario
from zonequake_simulation.shrink import shrink
from zonequake_simulation.simulation import Simulation
from zonequake_simulation.trace import TraceEvent, TraceKind
from zonequake_simulation.violation import Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The result of a traced seed. `key`: the one whose operations broke a rule, if one did."""

    events: list[TraceEvent]
    violation: Violation | None
    key: str | None
    tally: dict[str, int]


def replay(seed: int, scenario: Scenario, *, plan: FaultPlan | None, steps: int) -> Replay:
    """Runs, settles and judges a seed with its trace; a broken rule becomes the last event."""
    violation: Violation | None = None
    with Simulation(seed, scenario, plan, trace=True) as simulation:
        try:
            simulation.run(steps)
            simulation.settle()
            simulation.judge()
        except Violation as found:
            violation = found
        events = list(simulation.events)
        key = None
        if violation is not None:
            named = violation.facts.get("key")
            key = named if isinstance(named, str) else None
            events.append(
                TraceEvent(
                    time_ms=int(simulation.now_ms),
                    node="",
                    kind=TraceKind.VIOLATION,
                    text=str(violation),
                    key=key,
                )
            )
        return Replay(events=events, violation=violation, key=key, tally=dict(simulation.tally))


def shrunk(
    seed: int,
    scenario: Scenario,
    *,
    plan: FaultPlan | None,
    steps: int,
    progress: Callable[[int, int], None],
) -> tuple[str, FaultPlan]:
    """Returns the rule that a seed breaks, and the fewest of its faults that still break it.

    Raises UsageError if the seed breaks none.
    """
    whole = plan or FaultPlan.random(seed, scenario)
    rule = simulate(seed, scenario, plan=whole, steps=steps).rule
    if rule is None:
        raise UsageError(f"seed {seed} of {scenario.name} breaks no rule: nothing to shrink")
    needed = shrink(
        whole.faults,
        lambda part: simulate(seed, scenario, plan=FaultPlan(part), steps=steps).rule == rule,
        progress=progress,
    )
    return rule, FaultPlan(needed)


def write_plan(path: Path, plan: FaultPlan) -> None:
    """Writes a plan as JSON, for `read_plan`."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(plan)) + b"\n")


def read_plan(path: Path) -> FaultPlan:
    """Reads a plan from a file. Raises UsageError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=FaultPlan)
    except OSError as error:
        raise UsageError(f"--plan {path} can't be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise UsageError(f"--plan {path} is no plan as --shrink writes it: {error}") from error
