"""Random schedules of every scenario: no rule is broken, and enough is reached.

A failing seed replays alone: zonequake simulate --scenario NAME --seed N --trace
"""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from zonequake_simulation import SCENARIOS, simulate
from zonequake_simulation.scenario import SMALL
from zonequake_store.raft.api import Settings

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(600)]

SEEDS = 100
"""Of all scenarios together without an operator. `make test-all` hunts with 21,000 others."""
OPERATED_SEEDS = 80
"""Of those with the real operator."""
SLICES = 2
"""Of each scenario, so that two processes have equal work."""


@pytest.mark.parametrize("part", range(SLICES))
@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_no_rule_is_broken(name: str, part: int) -> None:
    operated = SCENARIOS[name].is_operated
    alike = sum(each.is_operated is operated for each in SCENARIOS.values())
    count = -(-(OPERATED_SEEDS if operated else SEEDS) // (alike * SLICES))
    reached: Counter[str] = Counter()
    for seed in range(part * count, (part + 1) * count):
        report = simulate(seed, SCENARIOS[name])
        assert report.rule is None, (
            f"zonequake simulate --scenario {name} --seed {seed} --trace: {report.violation}"
        )
        reached.update(report.tally)
    assert reached["commits"] > 10 * count
    assert reached["elections"] > count
    assert reached["crashes"] > 0


@pytest.mark.parametrize(
    "settings",
    [
        dataclasses.replace(SMALL, catch_up_bytes_per_second=2_000),
        Settings(catch_up_silence_ticks=40),
    ],
    ids=["slow-catch-up", "large-limits"],
)
def test_other_settings_break_no_rule_either(settings: Settings) -> None:
    scenario = dataclasses.replace(SCENARIOS["reconfiguration"], settings=settings)
    reached: Counter[str] = Counter()
    for seed in range(5_000, 5_030):
        report = simulate(seed, scenario)
        assert report.rule is None, f"seed {seed}: {report.violation}"
        reached.update(report.tally)
    assert reached["reconfigurations"] > 30
