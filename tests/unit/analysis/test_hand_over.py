"""The runner leaves the one verdict to the analysis, and speaks alone only where there is none."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from tests.unit.analysis.local_session import local_session
from zonequake_analysis import cli, submit
from zonequake_analysis.errors import LocationError, RunFolderError
from zonequake_analysis.harness_report import HarnessReport
from zonequake_analysis.judgement.one_analysis import AnalysisLock
from zonequake_analysis.judgement.verdict_json import without_analysis
from zonequake_analysis.report import write
from zonequake_analysis.storage.location import Location
from zonequake_analysis.verdict import Verdict
from zonequake_chaos.commands.run import RunEnd, RunOptions, judge_run
from zonequake_chaos.record.run_folder import RunFolder

REPORT = HarnessReport(verdict=Verdict.UNKNOWN, problems=["no recovery"])


def with_history(path: Path) -> RunFolder:
    """A run folder that there is something to judge in."""
    folder = RunFolder.create(path)
    (path / "history").mkdir(exist_ok=True)
    (path / "history" / "pod-1-load.jsonl").write_text("{}\n")
    return folder


def judged(folder: RunFolder, *, analyze: bool) -> RunEnd:
    ask = RunOptions(scenario="kill-all", overrides=[], seed=1, out=None, analyze=analyze)
    return judge_run(ask, folder, REPORT, Console(file=io.StringIO()))


def test_the_analysiss_verdict_stands_as_it_wrote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = with_history(tmp_path)
    document = '{"schema":1,"verdict":"violated","checks":[]}'

    def judge_folder(run: Location, **_: object) -> Verdict:
        (tmp_path / "verdict.json").write_text(document)
        return Verdict.VIOLATED

    monkeypatch.setattr(cli, "judge_folder", judge_folder)
    assert judged(folder, analyze=True).verdict is Verdict.VIOLATED
    assert (tmp_path / "verdict.json").read_text() == document


def test_an_analysis_that_fails_leaves_no_verdict_of_an_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = with_history(tmp_path)
    (tmp_path / "verdict.json").write_text('{"schema":1,"verdict":"passed","checks":[]}')

    def judge_folder(run: Path, **_: object) -> Verdict:
        raise RunFolderError("events.jsonl: torn")

    monkeypatch.setattr(cli, "judge_folder", judge_folder)
    assert judged(folder, analyze=True).verdict is Verdict.HARNESS_FAILED
    written = json.loads((tmp_path / "verdict.json").read_text())
    assert written["verdict"] == "harness-failed"
    assert [check["summary"] for check in written["checks"]] == [
        "the analysis broke off: RunFolderError: events.jsonl: torn",
        "no recovery",
    ]


def test_an_analysis_whose_files_are_refused_leaves_neither_report_nor_tables_beside_its_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = with_history(tmp_path)
    refusals = iter(["junit.xml"])
    write_file = Location.write

    def judge_run(*_: object, **__: object) -> None:
        (tmp_path / "tables" / "ops").mkdir(parents=True)

    def refused_once(place: Location, content: bytes) -> None:
        if place.name == "junit.xml" and next(refusals, None):
            raise LocationError(f"{place}: access denied")
        write_file(place, content)

    monkeypatch.setattr(cli, "build_session", local_session)
    monkeypatch.setattr(cli, "judge_run", judge_run)
    monkeypatch.setattr(write, "render_page", lambda *_, **__: "passed")
    monkeypatch.setattr(write, "verdict_document", lambda *_: without_analysis([]))
    monkeypatch.setattr(Location, "write", refused_once)
    assert judged(folder, analyze=True).verdict is Verdict.HARNESS_FAILED
    document = json.loads((tmp_path / "verdict.json").read_text())
    assert document["verdict"] == "harness-failed"
    assert "junit.xml: access denied" in document["headline"]
    assert (tmp_path / "junit.xml").exists()
    assert not (tmp_path / "report.html").exists()
    assert not (tmp_path / "tables").exists()


def test_a_run_that_another_analysis_holds_is_left_as_it_is(tmp_path: Path) -> None:
    folder = with_history(tmp_path)
    with AnalysisLock(tmp_path) as other:
        other.take()
        (tmp_path / "verdict.json").write_text("the other one's")
        before = {file.name for file in tmp_path.rglob("*")}
        ended = judged(folder, analyze=True)
        assert {file.name for file in tmp_path.rglob("*")} == before
    assert (tmp_path / "verdict.json").read_text() == "the other one's"
    assert ended.verdict is Verdict.HARNESS_FAILED
    assert "another process analyses it" in ended.not_told


def test_without_an_analysis_nothing_passes(tmp_path: Path) -> None:
    assert judged(RunFolder.create(tmp_path), analyze=False).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("broken", [RunFolderError("no history"), MemoryError("of an executor")])
def test_whatever_breaks_an_analysis_off_is_no_violation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: Exception
) -> None:
    def judge_folder(*_: object, **__: object) -> Verdict:
        raise broken

    monkeypatch.setattr(cli, "judge_folder", judge_folder)
    (tmp_path / "history").mkdir()
    assert submit.main([str(tmp_path)]) == 255
