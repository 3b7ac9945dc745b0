"""`zonequake simulate` as a stranger meets it: words, errors, exit codes, files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from zonequake_chaos.commands import cli
from zonequake_kube.errors import UsageError
from zonequake_simulation import SCENARIOS, FaultPlan
from zonequake_simulation.replay import read_plan, shrunk, write_plan
from zonequake_simulation.report import SeedReport
from zonequake_simulation.seeds import find_scenario, parse_seeds
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
        ("--shrink",),
        ("--seeds", "0..3", "--shrink"),
        ("--seeds", "5..1"),
    ],
)
def test_wrong_usage_ends_with_254(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended(monkeypatch, *words) == 254


def test_a_wrong_number_is_refused_with_the_option_it_was_given_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(monkeypatch, "--seed", "-4") == 254
    assert "--seed" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["--trace", "--shrink"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(
    what: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    for out in (tmp_path, tmp_path / "no" / "x"):
        assert ended(monkeypatch, "--seed", "1", what, "--out", str(out)) == 254
        told = capsys.readouterr()
        assert "can't be written" in " ".join(told.err.split())
        assert told.out == ""


def test_many_broken_seeds_are_told_by_their_rules(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(seeds: range, scenario: object, **given: int) -> Iterator[SeedReport]:
        for seed in seeds:
            yield SeedReport(
                seed=seed,
                scenario="raft",
                steps=1,
                now_ms=1,
                rule="logs match" if seed % 3 else "commits agree",
                violation="a violation",
                phase="run",
            )

    monkeypatch.setattr("zonequake_simulation.command.simulate_many", broken)
    assert ended(monkeypatch, "--seeds", "0..29") == 1
    told = capsys.readouterr().out
    assert told.count("breaks a rule") == 10
    assert "20 more seeds broke a rule" in told
    assert "20  logs match" in told
    assert "10  commits agree" in told


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
    monkeypatch.setattr("zonequake_simulation.command.summed", lambda reports: {"commits": 0})
    monkeypatch.setattr("zonequake_simulation.command._summarize", lambda *given: None)
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
