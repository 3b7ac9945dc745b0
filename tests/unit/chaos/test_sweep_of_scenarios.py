"""The sweep over all shipped scenarios: what is left to do, and what its table says."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.scenarios import sweep
from zonequake_chaos.scenario import manifest


def result(scenario: str, seed: int, exit_code: int = 0, **fields: float) -> sweep.Result:
    return sweep.Result(
        scenario=scenario,
        seed=seed,
        exit_code=exit_code,
        verdict="passed" if not exit_code else "slo-breached",
        headline="what was found",
        took_s=60.0,
        load_before=0.5,
        **fields,
    )


def test_without_names_each_shipped_scenario_is_run_as_often_as_it_must_pass() -> None:
    runs = sweep.wanted([], sorted(manifest.shipped()))
    assert set(runs) == set(manifest.shipped())
    assert {name for name, number in runs.items() if number == 10} == set(sweep.OFTEN)
    assert set(runs.values()) == {5, 10}
    assert sweep.wanted(["disk-full", "leader-kill=2"], list(runs)) == {
        "disk-full": 5,
        "leader-kill": 2,
    }
    with pytest.raises(ValueError, match="'leader-kil' is no shipped scenario"):
        sweep.wanted(["leader-kil"], list(runs))
    with pytest.raises(ValueError, match="often"):
        sweep.wanted(["leader-kill=often"], list(runs))


def test_a_sweep_that_was_broken_off_goes_on_with_what_is_left(tmp_path: Path) -> None:
    runs = {"a": 2, "b": 1}
    assert list(sweep.remaining(runs, [])) == [("a", 1), ("b", 1), ("a", 2)]
    lines = [json.dumps(asdict(result("a", 1))), '{"scenario": "b", "se']
    (tmp_path / "results.jsonl").write_text("\n".join(lines))
    done = sweep.read_results(tmp_path)
    assert done == [result("a", 1)]
    assert list(sweep.remaining(runs, done)) == [("b", 1), ("a", 2)]


def test_the_table_counts_what_ended_as_it_must_and_names_what_did_not() -> None:
    done = [
        result("rolling-restart", 1, p99_before_ms=9, p99_control_ms=20, p99_during_ms=30),
        result("rolling-restart", 2, 3, p99_before_ms=11, p99_control_ms=20, p99_during_ms=90),
        result("local-reads", 1, 1),
        result("local-reads", 2, 0),
    ]
    said = sweep.table({"rolling-restart": 3, "local-reads": 2, "disk-full": 5}, done)
    assert "| `rolling-restart` | 1 of 2, 1 not made | – | 9 to 11; 20; 30 to 90 | 60 |" in said
    assert "| `local-reads` | 1 of 2 |" in said, "its reads must be found stale"
    assert "| `disk-full` | 0 of 0, 5 asked for |" in said
    assert "- `rolling-restart`, seed 2, load 0.5 before: slo-breached (3): what was found" in said
    assert "- `local-reads`, seed 2" in said
    assert "- `rolling-restart`, seed 1" not in said
