"""The report of one seed, as a value that travels between processes."""

from __future__ import annotations

from dataclasses import dataclass, field

from zonequake_simulation.plan import FaultPlan
from zonequake_simulation.scenario import Scenario
from zonequake_simulation.simulation import Simulation
from zonequake_simulation.violation import Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedReport:
    """The report of one seed. `rule` is that of the violation, None if there was none."""

    seed: int
    scenario: str
    steps: int
    now_ms: float
    rule: str | None
    violation: str | None
    phase: str | None
    tally: dict[str, int] = field(default_factory=dict)


def simulate(
    seed: int, scenario: Scenario, *, plan: FaultPlan | None = None, steps: int | None = None
) -> SeedReport:
    """Runs, settles and judges one seed. `steps` default: the scenario's."""
    found: Violation | None = None
    phase = "run"
    with Simulation(seed, scenario, plan) as simulation:
        try:
            simulation.run(steps)
            phase = "settle"
            simulation.settle()
            phase = "judge"
            simulation.judge()
        except Violation as violation:
            found = violation
        return SeedReport(
            seed=seed,
            scenario=scenario.name,
            steps=simulation.steps,
            now_ms=simulation.now_ms,
            rule=found.rule if found else None,
            violation=str(found) if found else None,
            phase=phase if found else None,
            tally=dict(simulation.tally),
        )
