"""`run --analyze in-cluster`: pods judge what is in the store, and this process anything else."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from zonequake_analysis.harness_report import HarnessReport
from zonequake_analysis.judgement.one_analysis import AnalysisLock
from zonequake_analysis.storage.location import Location
from zonequake_analysis.verdict import Verdict
from zonequake_chaos.commands import run
from zonequake_chaos.commands.run import RunEnd, RunOptions, judge_run, planned
from zonequake_chaos.record.run_folder import RunFolder
from zonequake_kube.errors import UsageError

STORE = Location.of("s3://bucket/x")


def asked(store: Location | None) -> RunOptions:
    return RunOptions(
        scenario="leader-kill",
        overrides=[],
        seed=1,
        out=None,
        analyze=True,
        store=store,
        in_cluster=True,
    )


def judged(
    folder: Path, not_uploaded: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[RunEnd, list[str]]:
    """The end of a run of one history line, and who judged it where."""
    calls: list[str] = []

    def by_pods(place: Location) -> Verdict:
        calls.append(f"pods: {place}")
        return Verdict.VIOLATED

    def here(place: Location, _: AnalysisLock) -> Verdict:
        calls.append(f"here: {place}")
        return Verdict.PASSED

    monkeypatch.setattr(run, "move_to_store", lambda *_, **__: not_uploaded)
    monkeypatch.setattr(run, "_judged_here", here)
    made = RunFolder.create(folder)
    (made.folder("history") / "load-0.jsonl").write_text("{}\n")
    report = HarnessReport(verdict=Verdict.PASSED)
    console = Console(file=io.StringIO())
    return judge_run(asked(STORE), made, report, console, by_pods), calls


def test_a_run_in_its_store_is_judged_by_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, calls = judged(tmp_path / "run", "", monkeypatch)
    assert calls == [f"pods: {STORE}"]
    assert ended == RunEnd(folder=STORE, verdict=Verdict.VIOLATED)


def test_a_run_that_did_not_get_there_is_judged_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, calls = judged(tmp_path / "run", "not uploaded", monkeypatch)
    assert calls == [f"here: {tmp_path / 'run'}"]
    assert ended.verdict is Verdict.HARNESS_FAILED


def test_a_run_folder_of_this_machine_is_refused_before_the_run() -> None:
    with pytest.raises(UsageError, match="expected --out with a URI"):
        planned(asked(None))
    planned(asked(STORE))
