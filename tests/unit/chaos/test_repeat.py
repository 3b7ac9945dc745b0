"""Runs in a pipeline: what is told of them, in which exit code they end, and when they stop."""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from junitparser import Error, JUnitXml
from rich.console import Console

from zonequake_analysis.harness_report import INTERRUPTED, HarnessReport
from zonequake_analysis.verdict import EXIT_CODES, Verdict
from zonequake_chaos.commands import cli, repeat
from zonequake_chaos.commands.run import RunEnd, RunOptions
from zonequake_chaos.errors import GuardError
from zonequake_chaos.record.run_folder import RunFolder
from zonequake_ctl.context import ReleasePlace
from zonequake_ctl.options import ReleaseOptions
from zonequake_kube.errors import ClusterError

PLACE = ReleasePlace(kubeconfig=None, context="x", namespace="n", release="zq", embedded=False)


class Runs:
    """Stands in for the cluster and the analysis: each run ends as planned, or raises."""

    def __init__(self, ends: Sequence[Verdict | BaseException]) -> None:
        self._ends = list(ends)
        self.seeds: list[int | None] = []
        self.interrupted = False
        self.not_stored = self.not_told = ""

    async def run_once(
        self, ask: RunOptions, place: ReleasePlace, console: Console
    ) -> tuple[RunFolder, HarnessReport]:
        self.seeds.append(ask.seed)
        end = self._ends[0]
        if isinstance(end, BaseException):
            raise end
        assert ask.out is not None
        folder = RunFolder.create(ask.out)
        (folder.path / "run.yaml").write_text(f"scenario: leader-kill\nseed: {ask.seed}\n")
        problems = [INTERRUPTED] if self.interrupted else []
        return folder, HarnessReport(verdict=Verdict.PASSED, problems=problems)

    def judge_run(
        self, ask: RunOptions, folder: RunFolder, report: HarnessReport, *_: object
    ) -> RunEnd:
        end = self._ends.pop(0)
        assert isinstance(end, Verdict)
        if self.not_told:
            return RunEnd(folder=folder.path, verdict=end, not_told=self.not_told)
        concluded = folder.conclude(end, report, why=f"it {end}")
        return RunEnd(folder=folder.path, verdict=concluded, not_stored=self.not_stored)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> object:
    def these(*verdicts: Verdict | BaseException) -> Runs:
        runs = Runs(verdicts)
        monkeypatch.setattr(repeat, "run_once", runs.run_once)
        monkeypatch.setattr(repeat, "judge_run", runs.judge_run)
        monkeypatch.setattr(ReleaseOptions, "place", lambda _: PLACE)
        return runs

    return these


def zonequake(*words: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of the command, called as the installed program calls it."""
    monkeypatch.setattr(sys, "argv", ["zonequake", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize("verdict", list(Verdict))
def test_each_verdict_has_its_exit_code(
    verdict: Verdict, ends: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends(verdict)  # type: ignore[operator]
    out = str(tmp_path / "out")
    assert (
        zonequake("run", "leader-kill", "--out", out, monkeypatch=monkeypatch)
        == EXIT_CODES[verdict]
    )


def test_of_several_runs_the_worst_counts_and_all_are_told_of_in_one_file(
    ends: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = ends(Verdict.PASSED, Verdict.VIOLATED, Verdict.UNKNOWN)  # type: ignore[operator]
    junit, summary, out = tmp_path / "x" / "j.xml", tmp_path / "y" / "s.md", tmp_path / "out"
    summary.parent.mkdir()
    summary.write_text("before\n")
    words = ["run", "leader-kill", "--repeat", "3", "--seed", "5", "--out", str(out)]
    words += ["--junit", str(junit), "--summary", str(summary)]
    assert zonequake(*words, monkeypatch=monkeypatch) == 1
    assert runs.seeds == [5, 6, 7]
    assert [suite.name for suite in JUnitXml.fromfile(str(junit))] == [
        f"leader-kill (seed {seed})" for seed in (5, 6, 7)
    ]
    assert summary.read_text().startswith("before\n# ✗ leader-kill: violated in 3 runs")
    assert (out / "junit.xml").read_bytes() == junit.read_bytes()
    assert (out / "seed-6" / "junit.xml").exists()


def test_a_run_that_is_not_in_its_store_is_told_of_in_the_file_beside_its_own_verdict(
    ends: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = ends(Verdict.PASSED)  # type: ignore[operator]
    runs.not_stored = "not uploaded: the store is away"
    words = ["run", "leader-kill", "--out", str(tmp_path / "out"), "--junit", str(tmp_path / "j")]
    zonequake(*words, monkeypatch=monkeypatch)
    problems = [result for suite in JUnitXml.fromfile(str(tmp_path / "j")) for case in suite
                for result in case.result]  # fmt: skip
    assert any("not uploaded: the store is away" in str(found.message) for found in problems)


def test_fail_fast_stops_at_the_first_that_does_not_pass(
    ends: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = ends(Verdict.PASSED, Verdict.SLO_BREACHED, Verdict.PASSED)  # type: ignore[operator]
    words = ["run", "leader-kill", "--repeat", "3", "--seed", "1", "--out", str(tmp_path / "out")]
    assert zonequake(*words, "--fail-fast", monkeypatch=monkeypatch) == 3
    assert runs.seeds == [1, 2]
    said = capsys.readouterr().out
    assert "Run 2 of 3, seed 2" in said
    assert said.splitlines()[-1] == "2 of 3 runs ended: slo-breached (exit code 3)"
    summary = (tmp_path / "out" / "summary.md").read_text()
    assert "slo-breached in 2 of 3 runs" in summary
    assert "1 of 3 were not made" in summary


def test_a_run_whose_verdict_can_not_be_written_is_told_of_and_no_other_verdict_for_it(
    ends: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = ends(Verdict.HARNESS_FAILED)  # type: ignore[operator]
    runs.not_told = "no verdict can be written: another process analyses it"
    junit, out = tmp_path / "j.xml", tmp_path / "out"
    out.mkdir()
    for name in ("verdict.json", "report.html"):
        (out / name).write_text("the other one's")
    words = ["run", "leader-kill", "--out", str(out), "--junit", str(junit)]
    assert zonequake(*words, monkeypatch=monkeypatch) == 255
    ((case,),) = JUnitXml.fromfile(str(junit))
    assert case.result[0].message == runs.not_told
    assert "report.html" not in capsys.readouterr().out


def test_an_interrupted_run_is_the_last_one(
    ends: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = ends(Verdict.PASSED, Verdict.PASSED)  # type: ignore[operator]
    runs.interrupted = True
    words = ["run", "leader-kill", "--repeat", "2", "--seed", "1", "--out", str(tmp_path / "out")]
    zonequake(*words, monkeypatch=monkeypatch)
    assert runs.seeds == [1]


def test_a_sigterm_during_the_analysis_is_told_of_as_an_interrupt(
    ends: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends(Verdict.PASSED)  # type: ignore[operator]

    def judge_run(*_: object) -> RunEnd:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
        raise AssertionError("the signal was not heard")

    monkeypatch.setattr(repeat, "judge_run", judge_run)
    before = signal.getsignal(signal.SIGTERM)
    try:
        junit = tmp_path / "j.xml"
        words = ["run", "leader-kill", "--out", str(tmp_path / "out"), "--junit", str(junit)]
        assert zonequake(*words, monkeypatch=monkeypatch) == 255
    finally:
        signal.signal(signal.SIGTERM, before)
    ((case,),) = JUnitXml.fromfile(str(junit))
    assert case.result[0].message == "interrupted"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (GuardError("the namespace does not allow chaos"), 254),
        (ClusterError("GET /version: connection refused"), 255),
        (RuntimeError("nobody thought of this"), 255),
        (KeyboardInterrupt(), 255),
    ],
)
def test_a_run_that_never_began_leaves_a_junit_file_with_an_error_and_a_summary(
    error: BaseException,
    code: int,
    ends: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends(error)  # type: ignore[operator]
    junit, summary, out = tmp_path / "j.xml", tmp_path / "s.md", tmp_path / "out"
    words = ["run", "leader-kill", "--seed", "5", "--out", str(out)]
    words += ["--junit", str(junit), "--summary", str(summary)]
    assert zonequake(*words, monkeypatch=monkeypatch) == code
    (suite,) = JUnitXml.fromfile(str(junit))
    (case,) = suite
    (result,) = case.result
    assert isinstance(result, Error)
    assert (str(error) or "interrupted") in result.message
    assert "again: zonequake run leader-kill --seed 5" in result.text
    assert "violations" not in result.text
    assert f"Exit code {code}" in summary.read_text()
    assert (out / "junit.xml").read_bytes() == junit.read_bytes()


def test_a_later_run_that_cannot_begin_hides_no_violation_of_an_earlier_one(
    ends: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends(Verdict.VIOLATED, ClusterError("gone"))  # type: ignore[operator]
    junit = tmp_path / "j.xml"
    words = ["run", "leader-kill", "--repeat", "3", "--seed", "1", "--out", str(tmp_path / "out")]
    assert zonequake(*words, "--junit", str(junit), monkeypatch=monkeypatch) == 1
    assert [len(list(suite)) for suite in JUnitXml.fromfile(str(junit))] == [2, 1]


@pytest.mark.parametrize(
    "words",
    [
        ("run", "no-such-scenario"),
        ("run", "leader-kill", "--repeat", "0"),
        ("run", "leader-kill", "--set", "zones.0.partition=3"),
        ("run", "leader-kill", "--kubeconfig", "/no/such/file"),
    ],
)
def test_wrong_usage_ends_with_254_and_leaves_a_junit_file(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    junit = tmp_path / "j.xml"
    assert zonequake(*words, "--junit", str(junit), monkeypatch=monkeypatch) == 254
    assert JUnitXml.fromfile(str(junit)).errors == 1


def test_a_cluster_without_an_answer_ends_with_255_and_leaves_a_junit_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "{apiVersion: v1, kind: Config, current-context: x, "
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], "
        "users: [{name: u, user: {token: t}}], "
        "contexts: [{name: x, context: {cluster: c, user: u}}]}"
    )
    junit = tmp_path / "j.xml"
    words = ["run", "leader-kill", "--kubeconfig", str(kubeconfig), "--junit", str(junit)]
    assert zonequake(*words, monkeypatch=monkeypatch) == 255
    assert JUnitXml.fromfile(str(junit)).errors == 1


def test_an_analysis_that_breaks_off_is_the_harnesss_failure_and_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zonequake_chaos.commands.run import judge_run

    def breaks(run: Path, **_: object) -> Verdict:
        raise RuntimeError("no Java")

    monkeypatch.setattr("zonequake_analysis.cli.judge_folder", breaks)
    folder = RunFolder.create(tmp_path / "run")
    (folder.path / "history" / "a.jsonl").write_text("{}\n")
    ask = RunOptions(scenario="leader-kill", overrides=[], seed=1, out=None, analyze=True)
    report = HarnessReport(verdict=Verdict.PASSED)
    ended = judge_run(ask, folder, report, Console(file=io.StringIO()))
    assert ended.exit_code == 255
    assert "no Java" in (folder.path / "summary.md").read_text()
    assert "RuntimeError" in (folder.path / "logs" / "analysis.txt").read_text()
