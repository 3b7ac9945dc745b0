"""Random schedules of every scenario: no rule is broken, and enough is reached.

A failing seed replays alone: zonequake simulate --scenario NAME --seed N --trace
"""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from zonequake_simulation import SCENARIOS, simulate
from zonequake_simulation.scenario import SMALL
from zonequake_store.raft.api import RaftSettings

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(600)]

SEEDS = 8
"""Of each scenario. `make test-all` hunts with 21,000 others."""
MOST_SEEDS = 60
"""Of one in which nodes die seldom at one of the moments."""


def died_at_each_write(reached: Counter[str]) -> bool:
    """Returns whether nodes died before a write was stored, and after it, still unheard of."""
    return all(
        reached[f"crashed {moment} log write{end}"] + reached[f"crashed {moment} data write{end}"]
        for moment, end in (("before a", ""), ("between a", " and its word"))
    )


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_every_rule_holds_in_every_scenario(name: str) -> None:
    reached: Counter[str] = Counter()
    for seed in range(MOST_SEEDS):
        if seed >= SEEDS and (SCENARIOS[name].is_volatile or died_at_each_write(reached)):
            break  # a death at one of the two moments is rare: some scenarios need more seeds
        report = simulate(seed, SCENARIOS[name])
        assert report.rule is None, (
            f"zonequake simulate --scenario {name} --seed {seed} --trace: {report.violation}"
        )
        reached.update(report.tally)
    assert reached["commits"] > SEEDS * 15
    assert reached["elections"] > SEEDS * 2
    assert reached["operations ok"] > SEEDS * 20
    for fault in SCENARIOS[name].faults:
        # One that was planned a few times may have met nothing; one that never does is no fault.
        planned, bites = reached[f"fault {fault}"], reached[f"bites {fault}"]
        assert bites or planned < 8, f"{fault} was planned {planned} times and changed nothing"
    assert reached["messages lost"] > 100
    assert reached["messages doubled"] > 100
    assert reached["messages overtaken"] > 100
    assert reached["ms between the clocks"] > SEEDS * 50
    assert SCENARIOS[name].is_volatile or died_at_each_write(reached)


@pytest.mark.parametrize(
    "settings",
    [
        dataclasses.replace(SMALL, catch_up_bytes_per_second=2_000),
        RaftSettings(catch_up_silence_ticks=40),
    ],
    ids=["slow-catch-up", "large-limits"],
)
def test_other_settings_break_no_rule_either(settings: RaftSettings) -> None:
    scenario = dataclasses.replace(SCENARIOS["reconfiguration"], settings=settings)
    reached: Counter[str] = Counter()
    for seed in range(5_000, 5_010):
        report = simulate(seed, scenario)
        assert report.rule is None, f"seed {seed}: {report.violation}"
        reached.update(report.tally)
    assert reached["reconfigurations"] > 10
