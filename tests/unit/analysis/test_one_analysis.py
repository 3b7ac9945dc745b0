"""A run folder belongs to one analysis at a time, and no verdict in it is another's."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.analysis.local_session import local_session
from zonequake_analysis import cli
from zonequake_analysis.errors import FolderHeld, LocationError, RunFolderError
from zonequake_analysis.inputs.completeness import RecordedRun
from zonequake_analysis.judgement.one_analysis import TOLD_FILES, AnalysisLock
from zonequake_analysis.storage.location import Location
from zonequake_analysis.whole_files import write_whole


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a history, and with all that an analysis told before: it passed."""
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "load-0.jsonl").write_text("{}\n")
    for name in TOLD_FILES:
        (tmp_path / name).write_text('{"schema":1,"verdict":"passed","checks":[]}')
    monkeypatch.setattr(cli, "build_session", local_session)
    return tmp_path


@contextmanager
def locked(run: Path) -> Iterator[None]:
    with AnalysisLock(run) as lock:
        lock.take()
        yield


def told(run: Path) -> set[str]:
    return {name for name in TOLD_FILES if (run / name).exists()}


def breaks_with(error: BaseException, seen: list[set[str]]) -> Any:
    def judge_run(_: object, run: RecordedRun, **__: object) -> None:
        seen.append(told(Path(run.location.path)))
        raise error

    return judge_run


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (RunFolderError("run.yaml: expected a mapping"), "run.yaml: expected a mapping"),
        (MemoryError("of metrics"), "MemoryError: of metrics"),
    ],
)
def test_an_analysis_that_breaks_off_says_so_and_leaves_nothing_of_the_one_before(
    run: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, why: str
) -> None:
    seen: list[set[str]] = []
    monkeypatch.setattr(cli, "judge_run", breaks_with(error, seen))
    assert cli.analyze(run) == 255
    assert seen == [set()], "from its start on no verdict of an earlier one stands there"
    document = json.loads((run / "verdict.json").read_text())
    assert (document["verdict"], document["exit_code"]) == ("harness-failed", 255)
    assert document["headline"] == f"the analysis broke off: {why}"
    assert "report.html" not in told(run)


def test_an_analysis_without_a_history_leaves_nothing_of_the_one_before(run: Path) -> None:
    (run / "history" / "load-0.jsonl").unlink()
    assert cli.analyze(run) == 255
    assert json.loads((run / "verdict.json").read_text())["verdict"] == "harness-failed"


def test_an_unreadable_run_yaml_is_no_reason_to_say_nothing(run: Path) -> None:
    (run / "run.yaml").write_text("- [")
    assert cli.analyze(run) == 255
    assert "run.yaml" in json.loads((run / "verdict.json").read_text())["headline"]


def test_an_analysis_that_breaks_off_holds_its_folder_until_it_has_told_so(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told_while_held: list[str] = []
    write = Location.write

    def written(place: Location, content: bytes) -> None:
        with pytest.raises(FolderHeld), locked(run):
            pass
        told_while_held.append(place.name)
        write(place, content)

    monkeypatch.setattr(cli, "judge_run", breaks_with(RunFolderError("torn"), []))
    monkeypatch.setattr(Location, "write", written)
    assert cli.analyze(run) == 255
    assert told_while_held == ["junit.xml", "summary.md", "verdict.json"]


def test_a_run_without_a_folder_of_histories_is_told_of(run: Path) -> None:
    (run / "history" / "load-0.jsonl").unlink()
    (run / "history").rmdir()
    (run / "run.yaml").write_text("run: one\n")
    assert cli.analyze(run) == 255
    assert "needs at least its histories" in (run / "verdict.json").read_text()
    assert "report.html" not in told(run)


def test_an_interrupted_analysis_leaves_no_verdict(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "judge_run", breaks_with(KeyboardInterrupt(), []))
    with pytest.raises(KeyboardInterrupt):
        cli.analyze(run)
    assert told(run) == set()


def test_a_full_disk_leaves_no_verdict(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cli, "judge_run", breaks_with(OSError(28, "No space left"), []))
    monkeypatch.setattr(cli, "tell_broken_off", full)
    assert cli.analyze(run) == 255
    assert told(run) == set()
    assert "no verdict can be written" in capsys.readouterr().err


def test_a_second_analysis_is_refused_and_touches_nothing(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with locked(run):
        (run / "verdict.json").write_text("the first one's")
        assert cli.analyze(run) == 255
        with pytest.raises(FolderHeld):
            cli.judge_folder(run)
    assert "another process analyses it" in capsys.readouterr().err
    assert (run / "verdict.json").read_text() == "the first one's"


def test_a_killed_analysis_leaves_no_verdict_and_the_folder_to_the_next(run: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path;"
        "from zonequake_analysis.judgement.one_analysis import AnalysisLock;"
        "lock = AnalysisLock(Path(sys.argv[1])); lock.take();"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(run)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert told(run) == set()
    with locked(run):
        pass


ENDED_BY_SIGTERM = """
import os, signal, sys
from types import SimpleNamespace
from zonequake_analysis import cli
from zonequake_analysis.jvm import local_jvm

def ends(*_, **__):
    os.kill(os.getpid(), signal.SIGTERM)
    raise AssertionError("it went on")

cli.build_session = lambda **_: SimpleNamespace(_sc=SimpleNamespace(master="local[2]"))
local_jvm.end = lambda: print("its JVM ended")
step = sys.argv.pop(1)
setattr(cli if step == "judge_run" else cli.AnalysisLock, step, ends)
if sys.argv.pop(1) == "submit":
    from zonequake_analysis.submit import main
    sys.exit(main(sys.argv[1:]))
cli.app()
"""


@pytest.mark.parametrize("way", ["command", "submit"])
@pytest.mark.parametrize("step", ["judge_run", "take"])
def test_sigterm_ends_the_command_with_a_sentence_and_a_verdict_if_the_folder_is_its_own(
    run: Path, step: str, way: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-u", "-c", ENDED_BY_SIGTERM, step, way, str(run)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (255, "its JVM ended\n")
    document = json.loads((run / "verdict.json").read_text())
    if step == "take":
        assert done.stderr == (
            f"analyze {run}: SIGTERM ended it before it began; no verdict was written\n"
        )
        assert document["verdict"] == "passed", "the folder may be another analysis's"
    else:
        assert done.stderr == f"analyze {run.name}: SIGTERM ended it\n"
        assert document["verdict"] == "harness-failed"
        assert document["headline"] == "the analysis broke off: SIGTERM ended it"
        assert "report.html" not in told(run)


def test_a_file_that_could_not_be_written_whole_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "verdict.json"
    write_whole(file, b"before")

    def half(draft: Path, content: bytes) -> int:
        with draft.open("wb") as stream:
            stream.write(content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(OSError, match="No space"):
        write_whole(file, b"afterwards")
    assert file.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [file]


def test_tables_of_an_earlier_analysis_stand_beside_no_new_verdict(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that the new one writes no more, as of metrics that are gone."""
    for name in ("ops", "metrics/hour=1", "findings", "of_no_version_that_we_know"):
        (run / "tables" / name).mkdir(parents=True)
        (run / "tables" / name / "part-0.parquet").write_bytes(b"PAR1")
    seen: list[bool] = []

    def judge_run(*_: object, **__: object) -> None:
        seen.append((run / "tables").exists())
        raise MemoryError

    monkeypatch.setattr(cli, "judge_run", judge_run)
    assert cli.analyze(run) == 255
    assert seen == [False]


def test_an_analysis_that_breaks_off_leaves_no_tables(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge_run(*_: object, **__: object) -> None:
        (run / "tables" / "ops").mkdir(parents=True)
        raise RunFolderError("dumps/a.jsonl: found nothing")

    monkeypatch.setattr(cli, "judge_run", judge_run)
    assert cli.analyze(run) == 255
    assert "found nothing" in json.loads((run / "verdict.json").read_text())["headline"]
    assert not (run / "tables").exists()


def test_tables_that_are_a_link_stand_beside_no_new_verdict_either(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "findings").mkdir(parents=True)
    (run / "tables").symlink_to(elsewhere)

    def judge_run(*_: object, **__: object) -> None:
        raise RunFolderError("dumps/a.jsonl: found nothing")

    monkeypatch.setattr(cli, "judge_run", judge_run)
    assert cli.analyze(run) == 255
    assert not (run / "tables").exists()
    assert (elsewhere / "findings").exists()


def test_an_analysis_that_can_not_remove_earlier_tables_ends_before_it_judges(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / "tables" / "findings").mkdir(parents=True)

    def refused(path: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", refused)
    monkeypatch.setattr(cli, "judge_run", lambda *_, **__: pytest.fail("it judged"))
    assert cli.analyze(run) == 255
    assert "Permission denied" in json.loads((run / "verdict.json").read_text())["headline"]


def test_tables_that_can_not_be_removed_keep_no_verdict_from_being_told(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Location) -> None:
        raise LocationError("s3://bucket/run/tables: access denied")

    def judge_run(*_: object, **__: object) -> None:
        monkeypatch.setattr(Location, "delete_folder", refused)
        raise RunFolderError("dumps/a.jsonl: found nothing")

    monkeypatch.setattr(cli, "judge_run", judge_run)
    assert cli.analyze(run) == 255
    assert "found nothing" in json.loads((run / "verdict.json").read_text())["headline"]


def test_an_analysis_that_finds_no_history_leaves_no_tables_of_the_one_before(run: Path) -> None:
    (run / "tables" / "findings").mkdir(parents=True)
    (run / "history" / "load-0.jsonl").unlink()
    assert cli.analyze(run) == 255
    assert not (run / "tables").exists()


def test_a_manifest_that_can_not_be_read_is_told_before_spark_starts(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "build_session", lambda **_: pytest.fail("Spark starts"))
    (run / "run.yaml").write_text("expectations: {lots: 0}")
    assert cli.analyze(run) == 255
    headline = json.loads((run / "verdict.json").read_text())["headline"]
    assert "run.yaml" in headline
    assert "lots" in headline


def test_a_manifest_that_can_not_be_read_spoils_no_verdict_of_another_analysis(run: Path) -> None:
    (run / "run.yaml").write_text("expectations: {lots: 0}")
    with locked(run):
        (run / "verdict.json").write_text("the first one's")
        assert cli.analyze(run) == 255
    assert (run / "verdict.json").read_text() == "the first one's"


def test_what_is_recorded_is_listed_and_read_once(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    sizes_below = Location.sizes_below

    def counted(place: Location) -> dict[str, int]:
        listed.append(place.name)
        return sizes_below(place)

    monkeypatch.setattr(Location, "sizes_below", counted)
    record = RecordedRun.of(run)
    (run / "run.yaml").write_text("name: first")
    for _ in range(2):
        again = RecordedRun.of(record)
        assert [file.name for file in again.histories.files] == ["load-0.jsonl"]
        assert again.histories.unread == ()
        assert (again.histories.size_bytes, again.metrics_bytes) == (3, 0)
        assert again.description.name == "first"
        (run / "run.yaml").write_text("name: second")
    assert listed == ["history", "metrics"]
