"""Random schedules of a whole group. A failing seed replays alone: `run_seed(SEED)`."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from simulated_group import SMALL, SimulatedGroup

from zonequake_store.raft.api import Settings

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(300)]

SEEDS = 300
STEPS = 1500


def run_seed(seed: int, settings: Settings = SMALL, steps: int = STEPS) -> SimulatedGroup:
    group = SimulatedGroup(seed, settings=settings)
    try:
        group.run(steps)
        group.settle()
    except Exception as error:
        error.add_note(f"seed {seed}, step {group.steps}, {group.now} ms")
        raise
    return group


def test_every_rule_holds_at_every_step_and_all_settles_in_quiet() -> None:
    reached: Counter[str] = Counter()
    for seed in range(SEEDS):
        group = run_seed(seed)
        reached += group.reached
        reached["chosen"] += group.check.chosen_to
    least = {
        "chosen": 20 * SEEDS,
        "reads": SEEDS,
        "aborted reads": 20,
        "LeaderElected": 2 * SEEDS,
        "ConfigurationApplied": SEEDS,
        "ReconfigurationError": 5,
        "cancels": 5,
        "snapshots": 20,
        "TIMEOUT_NOW": 20,
    }
    missed = {name: reached[name] for name, count in least.items() if reached[name] < count}
    assert not missed, f"the schedules don't reach enough of what they are for: {missed}"


@pytest.mark.parametrize(
    "settings",
    [
        dataclasses.replace(SMALL, catch_up_bytes_per_second=2000),
        Settings(catch_up_silence_ticks=40),
    ],
    ids=["slow-catch-up", "large-limits"],
)
def test_other_settings_keep_every_rule_too(settings: Settings) -> None:
    for seed in range(5000, 5060):
        run_seed(seed, settings)


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = run_seed(7), run_seed(7)
    assert (first.now, first.steps, first.reached, first.check.chosen) == (
        second.now,
        second.steps,
        second.reached,
        second.check.chosen,
    )
