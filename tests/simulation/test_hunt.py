"""The hunt of `make test-all` tells what breaks, and how to see it again."""

from __future__ import annotations

import time

import pytest

from tests.simulation.detection import by_name
from tests.simulation.hunt import main

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(600)]


def test_a_hunt_begins_at_the_clock_and_ends_with_0_if_no_rule_breaks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before_ms = time.time_ns() // 1_000_000
    assert main(["--seeds", "3", "--only", "raft", "volatile", "--jobs", "1"]) == 0
    told = capsys.readouterr().out.splitlines()
    first = int(told[0].removeprefix("seeds ").partition("..")[0])
    assert before_ms <= first <= time.time_ns() // 1_000_000
    assert told[-1] == "6 seeds, 0 broken"


def test_a_hunt_prints_the_command_for_each_seed_that_breaks_a_rule_and_ends_with_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_name()["read-without-a-round"].apply(monkeypatch)
    assert main(["--seeds", "10", "--base", "0", "--only", "raft", "--jobs", "1"]) == 1
    told = capsys.readouterr().out
    assert "    zonequake simulate --scenario raft --seed " in told
    [last] = [line for line in told.splitlines() if line.startswith("10 seeds, ")]
    assert int(last.split()[2]) == told.count(" --trace")
    assert int(last.split()[2]) > 0


def test_a_hunt_in_which_nothing_is_committed_shows_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.simulation.hunt.simulate_many", lambda *_, **__: [])
    assert main(["--seeds", "1", "--only", "raft"]) == 1
    assert "raft committed nothing" in capsys.readouterr().out
