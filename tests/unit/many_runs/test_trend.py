"""Rows of the table `trend`, series with planted changes, and the page that shows them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import duckdb
import msgspec
import pyarrow.parquet as pq
import pytest
import typer.main

from tests.histories.judged_runs import JudgedRun, write_run
from zonequake_analysis.inputs.run_folder import Expectations, read_description
from zonequake_analysis.many_runs.folders import read_run
from zonequake_analysis.many_runs.quantities import Estimate
from zonequake_analysis.many_runs.trend_command import app
from zonequake_analysis.many_runs.trend_job import TABLE, _rows, write_table
from zonequake_analysis.many_runs.trend_page import MOST_NAMED, MOST_PROBLEMS, render_trend
from zonequake_analysis.many_runs.trend_rows import (
    RUN,
    ScenarioTrend,
    TrendRow,
    each_once,
    left_out,
    rows_of,
    trends,
)
from zonequake_analysis.verdict import Verdict

ROOT = Path(__file__).resolve().parents[3]
P99, WINDOW = "faults.all.p99", "window.longest"


def rows_in(folder: Path, made: Sequence[JudgedRun]) -> list[TrendRow]:
    found = []
    for one in made:
        run = write_run(folder, one)
        found += rows_of(read_run(run), read_description(run).expectations)
    return found


def history(count: int, slow_from: int) -> list[JudgedRun]:
    """Runs of each half day; from `slow_from` on, a new version, latencies are 1.6 times as
    high."""
    return [
        JudgedRun(
            name=f"leader-kill-{number:03}",
            version="0.2.0" if number >= slow_from else "0.1.0",
            day=number / 2,
            seed=number,
            operations=800,
            slower=1.6 if number >= slow_from else 1.0,
            window_ms=300.0 + 20 * (number % 5),
        )
        for number in range(count)
    ]


def row(number: int, value: float | None, **fields: object) -> TrendRow:
    known: dict[str, object] = {
        "run": f"run-{number}",
        "folder": f"runs/run-{number}",
        "time_ns": (number + 1) * 10**15,
        "version": "0.1.0",
        "target": "",
        "scenario": "leader-kill",
        "objective": P99,
        "unit": "ms",
        "value": value,
    }
    return msgspec.convert(known | fields, TrendRow)


def run_row(number: int, verdict: str = "passed", **fields: object) -> TrendRow:
    return row(number, None, **({"objective": RUN, "verdict": verdict} | fields))


def test_a_run_has_a_row_for_its_verdict_and_one_for_each_objective(tmp_path: Path) -> None:
    made = JudgedRun(version="0.3.0", day=2, window_ms=6000.0, resets=1, sacrificed=7)
    rows = {one.objective: one for one in rows_in(tmp_path, [made])}
    assert rows[RUN].verdict == "slo-breached"
    window = rows[WINDOW]
    assert (window.value, window.bound, window.verdict) == (6000.0, 5000.0, "slo-breached")
    assert (window.run, window.version, window.scenario) == (made.name, "0.3.0", "leader-kill")
    assert rows["p99.ratio"].bound == 20
    assert (rows["sacrificed"].value, rows["sacrificed"].bound) == (7, None)
    assert rows["faults.read.p99"].verdict is None
    assert len({one.time_ns for one in rows.values()}) == 1


def test_a_run_without_probes_has_no_window_rather_than_one_of_0_ms(tmp_path: Path) -> None:
    rows = rows_in(tmp_path, [JudgedRun(probed=False)])
    assert WINDOW not in {one.objective for one in rows}


@pytest.mark.parametrize(
    ("target", "version"), [("", "0.1.0"), ("zonequake 0.9.1", "0.9.1"), ("etcd 3.6.4",) * 2]
)
def test_the_version_is_that_of_what_was_under_test(
    tmp_path: Path, target: str, version: str
) -> None:
    assert rows_in(tmp_path, [JudgedRun(target=target)])[0].version == version


def test_a_run_whose_unproven_cleanup_hides_a_missed_fault_is_not_usable(tmp_path: Path) -> None:
    found = read_run(write_run(tmp_path, JudgedRun()))
    hidden = {"cleanup": Verdict.CLEANUP_NOT_PROVEN, "faults": Verdict.UNKNOWN}
    for checks, usable in ((hidden, False), ({"cleanup": Verdict.CLEANUP_NOT_PROVEN}, True)):
        unclean = replace(found, verdict=Verdict.CLEANUP_NOT_PROVEN, checks=checks)
        assert rows_of(unclean, Expectations())[0].usable is usable


def test_a_planted_regression_is_a_change_point_at_its_run_and_version(tmp_path: Path) -> None:
    (trend,) = trends(rows_in(tmp_path, history(30, slow_from=20)))
    steps = {s.quantity.name: [(t.number, t.is_worse) for t in s.steps] for s in trend.series}
    assert steps[P99] == [(20, True)]
    assert steps["faults.read.p99"] == [(20, True)]
    assert steps[WINDOW] == steps["before.all.p99"] == steps["faults.rate"] == []
    series = next(s for s in trend.series if s.quantity.name == P99)
    assert series.steps[0].ratio == pytest.approx(1.6, rel=0.1)
    assert series.by_version["0.2.0"].value / series.by_version["0.1.0"].value == pytest.approx(
        1.6, rel=0.1
    )


@pytest.mark.parametrize(
    "told", [{"verdict": "unknown"}, {"verdict": "cleanup-not-proven", "usable": False}]
)
def test_runs_that_showed_too_little_count_for_no_level(told: dict[str, object]) -> None:
    rows = [row(i, None, objective=RUN, **(told if i >= 20 else {})) for i in range(30)]
    rows += [row(i, 100.0 if i >= 20 else 50.0 + i % 3) for i in range(30)]
    (trend,) = trends(rows)
    assert trend.series[0].steps == ()
    assert list(trend.series[0].by_version) == ["0.1.0"]
    assert trend.series[0].by_version["0.1.0"].high < 100


def test_a_window_that_may_be_longer_is_no_level_and_is_told(tmp_path: Path) -> None:
    """A silence of the probes hides how long the longest one was: what is known is the least."""
    known = read_run(write_run(tmp_path, JudgedRun(window_ms=300.0)))
    rows = []
    for number in range(30):
        silent = replace(known, hidden_window_ms=9000.0) if number >= 20 else known
        if number >= 20:
            silent = replace(silent, estimates={**known.estimates, WINDOW: Estimate.exact(0.0)})
        made = replace(
            silent, folder=f"runs/{number}", run=f"r{number}", started_wall_ns=number + 1
        )
        rows += rows_of(made, Expectations())
    of_windows = [one for one in rows if one.objective == WINDOW]
    assert [one.at_most for one in of_windows] == [None] * 20 + [9000.0] * 10
    (trend,), page = rendered(rows)
    series = next(one for one in trend.series if one.quantity.name == WINDOW)
    assert series.steps == (), "0 ms are no level after 300 ms"
    assert [point.verdict for point in series.points[-2:]] == ["unknown"] * 2
    assert {one.high for one in series.by_version.values()} == {300.0}
    assert "r20: its longest window counts for nothing, as silences of its probes may" in page
    write_table(tmp_path / "trend.parquet", of_windows)
    table = pq.read_table(tmp_path / "trend.parquet")
    assert table.column("at_most").to_pylist()[19:21] == [None, 9000.0]
    (alone,), page = rendered([one for one in rows if one.time_ns > 20])
    assert not next(one for one in alone.series if one.quantity.name == WINDOW).is_constant
    assert "now at least 0 ms" in page


def test_a_change_point_names_the_run_where_others_have_no_value() -> None:
    """Places in a series and numbers of runs differ as soon as one run lacks the objective."""
    rows = [run_row(i) for i in range(40)]
    rows += [row(i, 90.0 + i % 3 if i >= 30 else 50.0 + i % 3) for i in range(40) if i % 4]
    (trend,) = trends(rows)
    assert [step.number for step in trend.series[0].steps] == [30]


def test_a_higher_rate_is_better_and_a_lower_one_worse() -> None:
    rows = [run_row(i) for i in range(60)]
    levels = [100.0] * 20 + [150.0] * 20 + [80.0] * 20
    rows += [
        row(i, level + i % 3, objective="faults.rate", unit="/s") for i, level in enumerate(levels)
    ]
    (trend,) = trends(rows)
    assert [step.is_worse for step in trend.series[0].steps] == [False, True]


def test_scenarios_and_targets_are_series_of_their_own_and_runs_without_a_time_are_none() -> None:
    rows = [run_row(0), run_row(1, target="etcd 3.6.4"), run_row(2, target="etcd 3.6.5")]
    rows += [run_row(3, scenario="other"), run_row(4, time_ns=0)]
    found = [(t.scenario, t.target, len(t.runs)) for t in trends(rows)]
    assert found == [("leader-kill", "", 1), ("leader-kill", "etcd", 2), ("other", "", 1)]


def test_the_table_is_sorted_and_without_folders_that_could_not_be_read(tmp_path: Path) -> None:
    rows = [run_row(1), row(1, 51.0), row(0, 50.0, bound=150.0), run_row(0)]
    write_table(tmp_path / "trend.parquet", [*rows, run_row(2, problem="torn")])
    table = pq.read_table(tmp_path / "trend.parquet")
    assert table.schema == TABLE
    assert table.column("run").to_pylist() == ["run-0", "run-1"] * 2
    assert table.column("value").to_pylist() == [50.0, 51.0, None, None]
    assert table.column("bound").to_pylist() == [150.0, None, None, None]


def test_the_query_of_the_page_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / "docs/how-to/compare-runs.md"
    (query,) = re.findall(r'^    duckdb -c "(.+)"$', page.read_text(), flags=re.MULTILINE)
    values = [30.0, 50.0, 70.0]
    rows = [row(i, v, objective="faults.all.p99") for i, v in enumerate(values)]
    write_table(tmp_path / "trend.parquet", [*rows, *(run_row(i) for i in range(3))])
    monkeypatch.chdir(tmp_path)
    ((_, median),) = duckdb.execute(query).fetchall()
    assert median == 50.0


class Page(HTMLParser):
    """Collects tags and attributes, as a browser would see them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]


def rendered(rows: Sequence[TrendRow]) -> tuple[list[ScenarioTrend], str]:
    found = trends(rows)
    return found, render_trend(found, rows, "runs")


def test_the_page_names_the_change_and_loads_nothing(tmp_path: Path) -> None:
    _, page = rendered(rows_in(tmp_path, history(30, slow_from=20)))
    seen = Page(page)
    assert seen.addresses == []
    assert "@import" not in page
    assert "url(" not in page
    assert seen.tags.count("script") == 1
    assert re.search(r"<h1>\w.+ of leader-kill went from .+ to .+ on 2026-11-28 \(0\.2\.0\)", page)
    assert "×1.6" in page or "×1.5" in page
    assert page.count('class="step worse"') >= 4


def test_a_page_without_a_change_says_so() -> None:
    rows = [run_row(i) for i in range(20)] + [row(i, 50.0 + i % 5) for i in range(20)]
    _, page = rendered(rows)
    assert "No objective of 20 runs has changed for the worse" in page
    assert "No objective has changed its level." in page


def test_no_text_from_runs_is_markup_and_none_ends_the_script() -> None:
    evil = "</script><script>alert(1)</script><b onload=x>\x00&"
    rows = [run_row(i, run=evil, version=evil, scenario=evil, target=evil) for i in range(20)]
    rows += [row(i, 50.0 + i % 5, scenario=evil, target=evil) for i in range(20)]
    rows += [run_row(30, run=evil, problem=evil), run_row(31, run=evil, verdict=evil, time_ns=0)]
    _, page = rendered(rows)
    seen = Page(page)
    assert seen.tags.count("script") == 1
    assert "<b onload" not in page
    data = re.search(r"const d=(\{.*?\}),tip=", page)
    assert data is not None
    assert json.loads(data[1])["runs"][0][0].startswith("</script>")


def test_a_folder_that_could_not_be_read_and_a_run_without_a_time_are_named() -> None:
    rows = [run_row(0), run_row(1, run="torn-run", problem="verdict.json: torn")]
    rows += [run_row(2, run="timeless", time_ns=0)]
    _, page = rendered(rows)
    assert 'torn-run</td><td data-label="why">verdict.json: torn' in page
    assert 'timeless</td><td data-label="why">runs/run-2: found no started_wall_ns' in page
    assert "left out, for the reasons below: torn-run; timeless</p>" in page


def test_of_many_runs_left_out_the_first_are_listed_then_named_then_counted() -> None:
    rows = [run_row(n, run=f"r{n}", problem=f"reason {n}.") for n in range(MOST_PROBLEMS + 50)]
    _, page = rendered(rows)
    assert "for the reasons below: r0; r1; r2; and 97 more</p>" in page
    assert re.findall(r"reason \d+\.", page) == [f"reason {n}." for n in range(MOST_PROBLEMS)]
    named = "; ".join(f"r{MOST_PROBLEMS + n}" for n in range(MOST_NAMED))
    assert f"Left out, too: {named}; and 30 more." in page


def test_a_copy_of_a_run_counts_once_and_is_told() -> None:
    rows = [run_row(0), row(0, 50.0), run_row(1), row(1, 60.0)]
    rows += [run_row(0, folder="runs/copy"), row(0, 50.0, folder="runs/copy")]
    rows += [run_row(7, time_ns=0, run="a"), run_row(8, time_ns=0, run="a")]
    kept = each_once(rows)
    assert [one.folder for one in kept if one.problem is None] == [
        *("runs/run-0", "runs/run-0", "runs/run-1", "runs/run-1", "runs/run-7", "runs/run-8")
    ]
    ((name, why), *_) = left_out(kept)
    assert name == "run-0"
    assert why.startswith("runs/copy: found the run run-0 again, which is in runs/run-0; expected")


class NoSpark:
    """A session that reads the folders in this process."""

    def stop(self) -> None:
        pass


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    there = "zonequake_analysis.spark_pass.{}"
    monkeypatch.setattr(there.format("session.build_session"), lambda **_: NoSpark())
    monkeypatch.setattr(
        there.format("executor_deaths.ended_if_executors_die"), lambda _: nullcontext()
    )
    monkeypatch.setattr(
        "zonequake_analysis.many_runs.trend_job.read_rows",
        lambda _, folders: [row for folder in folders for row in _rows(folder)],
    )


@pytest.mark.usefixtures("without_spark")
def test_a_run_whose_phases_are_of_another_clock_is_a_whole_and_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for made in (JudgedRun(name="r0"), JudgedRun(name="r1", day=1, several_clocks=True)):
        write_run(tmp_path, made)
    assert typer.main.get_command(app).main(args=[str(tmp_path)], standalone_mode=False) in (
        0,
        None,
    )
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith("trend: r1: measured as a whole, for its own judgement could not tell")
    assert "r1: measured as a whole, for its own" in (tmp_path / "trend.html").read_text()
    table = pq.read_table(tmp_path / "trend.parquet").to_pylist()
    assert [one["run"] for one in table if one["objective"] == P99] == ["r0"]
    assert [one["run"] for one in table if one["objective"] == "whole.all.p99"] == ["r1"]


@pytest.mark.usefixtures("without_spark")
def test_the_command_tells_which_runs_it_left_out_and_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    for number in range(17):
        write_run(runs, JudgedRun(name=f"r{number:02}", day=number, seed=number, operations=200))
    for number in range(1, 12):
        (runs / f"r{number:02}" / "verdict.json").unlink()
    (runs / "r12" / "verdict.json").write_text('{"schema":2}')
    (runs / "r13" / "verdict.json").write_text("{torn")
    shutil.copytree(runs / "r14", runs / "r14-copy")
    assert typer.main.get_command(app).main(args=[str(runs)], standalone_mode=False) in (0, None)
    told = capsys.readouterr()
    assert "trend.html: 4 runs, 14 left out" in told.out
    lines = told.err.splitlines()
    assert len(lines) == 11
    assert lines[0] == (
        f"trend: left out: {runs / 'r01'}: found no verdict.json, expected a run that was judged: "
        f"run `zonequake analyze {runs / 'r01'}` first"
    )
    assert lines[-1] == "and 4 more"
    page = (runs / "trend.html").read_text()
    assert "found schema 2, expected 1" in page
    assert "r13/verdict.json: JSON is malformed" in page
    assert f"r14-copy: found the run r14 again, which is in {runs / 'r14'}" in page
    table = pq.read_table(runs / "trend.parquet")
    assert set(table.column("run").to_pylist()) == {"r00", "r14", "r15", "r16"}


@pytest.mark.parametrize(
    ("values", "objective", "unit", "shown"),
    [
        ([0.0] * 50 + [1.0], "lost", "", ["0", "1"]),
        ([0.0] * 3 + [7.0], "resets", "", ["0", "2", "4", "6", "8"]),
        ([0.0] * 60 + [900.0], WINDOW, "ms", ["0 ms", "500 ms", "1,000 ms"]),
        ([40.0] * 99 + [90_000.0], P99, "ms", ["0 ms", "20 ms", "40 ms"]),
    ],
)
def test_an_axis_is_round_and_counts_of_one_are_seen_beside_many_of_none(
    values: list[float], objective: str, unit: str, shown: list[str]
) -> None:
    rows = [run_row(i) for i in range(len(values))]
    rows += [row(i, value, objective=objective, unit=unit) for i, value in enumerate(values)]
    _, page = rendered(rows)
    labels = re.findall(r'class="tick axis"[^>]*>([\d,]+(?: ms)?)</span>', page)
    assert labels == shown
    assert page.count('class="over') == (1 if values[-1] == 90_000.0 else 0)


def test_a_folder_without_a_judged_run_is_wrong_usage(tmp_path: Path) -> None:
    history = tmp_path / "run" / "history"
    history.mkdir(parents=True)
    for told in (
        "three folders below it, expected",
        f"below it \\({tmp_path / 'run'}\\), expected",
    ):
        with pytest.raises(typer.exceptions.TyperException, match=f"found no verdict.*{told}"):
            typer.main.get_command(app).main(args=[str(tmp_path)], standalone_mode=False)
        (history / "load.jsonl").touch()


def test_a_single_run_and_none_make_a_page(tmp_path: Path) -> None:
    assert "<svg" in rendered(rows_in(tmp_path, [JudgedRun()]))[1]
    assert "No run with a verdict and a time was found." in rendered([])[1]


def test_a_place_that_there_can_not_be_is_wrong_usage(tmp_path: Path) -> None:
    here = str(tmp_path)
    for words in (
        ["ftp://host/runs"],
        [here, "--out", "s3://key:secret@bucket/x"],
        [here, "--out", "s3://bucket"],
        [here, "--out", here],
        [here, "--table", here],
    ):
        with pytest.raises(typer.exceptions.TyperException, match="expected"):
            typer.main.get_command(app).main(args=words, standalone_mode=False)
