"""`zonequake simulate` as a stranger meets it: words, errors, exit codes, files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from zonequake_chaos import cli
from zonequake_chaos.errors import UsageError
from zonequake_chaos.simulation import SCENARIOS, FaultPlan
from zonequake_chaos.simulation.replay import read_plan, shrunk, write_plan
from zonequake_chaos.simulation.seeds import find_scenario, parse_seeds
from zonequake_store.raft.log import RaftLog


def ended(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """The exit code of `zonequake simulate` with these words."""
    monkeypatch.setattr(sys, "argv", ["zonequake", "simulate", *words])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert isinstance(left.value.code, int)
    return left.value.code


def vote_for_any_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault that one of the first seeds shows."""
    monkeypatch.setattr(RaftLog, "is_up_to_date", lambda log, index, term: True)


def test_a_range_has_both_its_ends() -> None:
    assert list(parse_seeds("3..5")) == [3, 4, 5]
    assert list(parse_seeds("7")) == [7]


@pytest.mark.parametrize("text", ["", "a", "1..", "..4", "-1..4", "1-4", "4..1", "1.5..2"])
def test_a_wrong_range_is_refused_with_what_was_given(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_seeds(text)
    assert text in str(refused.value)


def test_an_unknown_scenario_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(UsageError) as refused:
        find_scenario("nonsense")
    assert all(name in str(refused.value) for name in SCENARIOS)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--seeds", "0..1", "--seed", "1"),
        ("--seeds", "x"),
        ("--seed", "-1"),
        ("--seed", "1", "--scenario", "nonsense"),
        ("--seeds", "0..3", "--trace"),
        ("--seed", "1", "--trace", "--shrink"),
        ("--seed", "1", "--out", "x.svg"),
        ("--seed", "1", "--trace", "--plan", "nowhere.json"),
    ],
)
def test_wrong_usage_ends_with_254(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended(monkeypatch, *words) == 254


def test_seeds_that_break_no_rule_are_told_and_end_with_0(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(monkeypatch, "--seeds", "0..1", "--jobs", "1") == 0
    told = capsys.readouterr().out
    assert "seed 0: " in told
    assert "seed 1: " in told
    assert "elections" in told
    assert "2 seeds, no rule was broken" in told


def test_each_seed_is_one_json_object_if_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(monkeypatch, "--seeds", "0..1", "--jobs", "1", "--json") == 0
    reports = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [report["seed"] for report in reports] == [0, 1]
    assert all(report["rule"] is None and report["tally"]["commits"] > 0 for report in reports)


def test_seeds_in_which_nothing_is_committed_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zonequake_chaos.simulation.command.summed", lambda reports: {"commits": 0})
    monkeypatch.setattr("zonequake_chaos.simulation.command._summarize", lambda *given: None)
    assert ended(monkeypatch, "--seed", "0", "--jobs", "1") == 2


def test_a_broken_rule_ends_with_1_and_says_how_to_replay_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    vote_for_any_log(monkeypatch)
    assert ended(monkeypatch, "--seeds", "0..9", "--jobs", "1") == 1
    told = capsys.readouterr().out
    assert "breaks a rule" in told
    assert "zonequake simulate --scenario raft --seed " in told


def test_a_trace_prints_the_same_each_time_and_draws_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    picture = tmp_path / "seed.svg"
    words = ("--seed", "4", "--trace", "--steps", "300", "--out", str(picture))
    assert ended(monkeypatch, *words) == 0
    first, drawn = capsys.readouterr().out, picture.read_bytes()
    assert ended(monkeypatch, *words) == 0
    assert capsys.readouterr().out == first
    assert picture.read_bytes() == drawn
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    assert " ms " in first


def test_a_shrunk_plan_still_breaks_the_rule_and_can_be_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    vote_for_any_log(monkeypatch)
    kept = tmp_path / "plan.json"
    seed = next(
        number
        for number in range(20)
        if ended(monkeypatch, "--seed", str(number), "--jobs", "1", "--json")
    )
    capsys.readouterr()
    assert ended(monkeypatch, "--seed", str(seed), "--shrink", "--out", str(kept)) == 1
    assert f"--plan {kept} --trace" in capsys.readouterr().out
    plan = read_plan(kept)
    rule, again = shrunk(
        seed, SCENARIOS["raft"], plan=plan, steps=1500, progress=lambda left, runs: None
    )
    assert rule
    assert again == plan  # nothing more can be taken from it
    picture = tmp_path / "seed.svg"
    words = ("--seed", str(seed), "--plan", str(kept), "--trace", "--out", str(picture))
    assert ended(monkeypatch, *words) == 1
    assert "VIOLATION" in capsys.readouterr().out
    assert picture.exists()


def test_a_file_that_is_no_plan_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"faults": 3}')
    with pytest.raises(UsageError, match="is no plan"):
        read_plan(file)
    plan = FaultPlan.random(3, SCENARIOS["raft"])
    write_plan(file, plan)
    assert read_plan(file) == plan
