"""An analysis that was silent for too long, and wakes after another one took its run over."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace as Made
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem

from tests.unit.analysis.local_session import local_session
from zonequake_analysis import cli
from zonequake_analysis.ended_early import EndedEarly
from zonequake_analysis.errors import FolderHeld, LocationError, RunFolderError
from zonequake_analysis.judgement.verdict_json import without_analysis
from zonequake_analysis.report import write
from zonequake_analysis.storage import analysis_lock
from zonequake_analysis.storage.location import Location
from zonequake_analysis.verdict import Verdict

RUN = Location("hdfs://here/runs/x")
OF_AN_ANALYSIS = ("tables/ops/part-0.parquet", "report.html", "verdict.json")
LEFT_BY_THE_OTHER = {"history/load-0.jsonl": "{}\n"} | dict.fromkeys(
    OF_AN_ANALYSIS, "the other one's"
)
JUDGEMENT = Made(checks=[], verdict=Verdict.PASSED, ingested=Made(forget_ops=lambda: None))
SILENT_S = analysis_lock.DEAD_AFTER_S + 10


class Clock:
    """The time of one analysis. A pause lets others act: `meanwhile` is called in it."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.meanwhile: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, pause_s: float) -> None:
        self.now_s += pause_s
        self.meanwhile()


class Keeper:
    """Stands in for the event that ends the thread that renews a lock: time does not go by."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._begin = threading.Semaphore(0)
        self._waits = threading.Event()
        self._ended = False

    def wait(self, _: float) -> bool:
        self._thread = threading.current_thread()
        self._waits.set()
        self._begin.acquire()
        return self._ended

    def set(self) -> None:
        self._ended = True
        self._begin.release()

    def renew(self) -> None:
        """Lets it renew the lock once, and waits until it did that, or ended."""
        self._waits.wait()
        self._waits.clear()
        self._begin.release()
        assert self._thread is not None
        while not self._waits.wait(0.01) and self._thread.is_alive():
            pass


@pytest.fixture
def keepers(monkeypatch: pytest.MonkeyPatch) -> list[Keeper]:
    """Those of all locks, in their order."""
    made: list[Keeper] = []

    def event() -> Keeper:
        made.append(Keeper())
        return made[-1]

    monkeypatch.setattr(analysis_lock, "threading", Made(Event=event, Thread=threading.Thread))
    return made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(analysis_lock, "time", made)
    return made


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the store keeps the run, which has a history."""

    def key(place: Location) -> str:
        return f"{tmp_path}/{place.path.partition('://')[2]}"

    monkeypatch.setattr(Location, "_key", key)
    monkeypatch.setattr(Location, "_system", lambda *_: LocalFileSystem())
    run = Path(key(RUN))
    (run / "history").mkdir(parents=True)
    (run / "history" / "load-0.jsonl").write_text("{}\n")
    monkeypatch.setattr(cli, "build_session", local_session)
    monkeypatch.setattr(cli, "keep_at_exit", lambda *_: None)
    return run


def objects(there: Path) -> list[Path]:
    return sorted(there.glob(f"{analysis_lock.PREFIX}*"))


def fall_silent(there: Path, clock: Clock) -> None:
    """Lets so much time go by, for the store and this analysis, that it counts as dead."""
    clock.now_s += SILENT_S
    for file in objects(there):
        at_s = file.stat().st_mtime - SILENT_S
        os.utime(file, (at_s, at_s))


def another_one_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has another analysis take the run over, and end with a verdict, a report and tables."""

    def write_report(run: Location, *_: object, **__: object) -> None:
        (run / "tables" / "ops").make_folder()
        for name in OF_AN_ANALYSIS:
            (run / name).write(b"the other one's")

    with monkeypatch.context() as patched:
        patched.setattr(cli, "judge_run", lambda *_, **__: JUDGEMENT)
        patched.setattr(cli, "write_report", write_report)
        assert cli.analyze(RUN) == 0


def files(there: Path) -> dict[str, str]:
    """The contents of all files of the run, without the objects of analyses."""
    return {
        file.relative_to(there).as_posix(): file.read_text()
        for file in there.rglob("*")
        if file.is_file() and not file.name.startswith(analysis_lock.PREFIX)
    }


@pytest.mark.parametrize("ends", ["breaks off", "by an unknown error", "passes", "by SIGTERM"])
def test_an_analysis_that_wakes_after_another_one_took_over_changes_nothing(
    there: Path,
    clock: Clock,
    keepers: list[Keeper],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    ends: str,
) -> None:
    def judge_run(*_: object, **__: object) -> Any:
        fall_silent(there, clock)
        another_one_passes(monkeypatch)
        keepers[0].renew()
        if ends == "breaks off":
            raise RunFolderError("dumps/a.jsonl: found nothing")
        if ends == "by an unknown error":
            raise ValueError("surprise")
        if ends == "by SIGTERM":
            signal.raise_signal(signal.SIGTERM)
        return JUDGEMENT

    def exit_now(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(cli, "judge_run", judge_run)
    monkeypatch.setattr(write, "render_page", lambda *_, **__: "the first one's")
    monkeypatch.setattr(write, "verdict_document", lambda *_: without_analysis([]))
    monkeypatch.setattr(os, "_exit", exit_now)
    early = EndedEarly(run=str(RUN))
    with early.at_sigterm(), pytest.raises(SystemExit) as ended:
        sys.exit(cli.analyze(RUN, begun=early.begin))
    assert ended.value.code == 255
    assert files(there) == LEFT_BY_THE_OTHER
    assert "another one may hold the run" in capfd.readouterr().err


def test_sigterm_leaves_the_run_to_the_next_analysis_at_once(
    there: Path, clock: Clock, keepers: list[Keeper], monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[list[Path]] = []

    def exit_now(code: int) -> None:
        left.append(objects(there))
        raise SystemExit(code)

    monkeypatch.setattr(cli, "judge_run", lambda *_, **__: signal.raise_signal(signal.SIGTERM))
    monkeypatch.setattr(os, "_exit", exit_now)
    early = EndedEarly(run=str(RUN))
    with early.at_sigterm(), pytest.raises(SystemExit):
        cli.analyze(RUN, begun=early.begin)
    assert left == [[]]
    assert "SIGTERM" in (there / "verdict.json").read_text()


def test_an_analysis_ends_at_the_next_step_once_another_one_took_over(
    there: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge_run(*_: object, progress: Callable[[str], None], **__: object) -> None:
        fall_silent(there, clock)
        another_one_passes(monkeypatch)
        progress("checks: 1.0 s")
        pytest.fail("it went on, and would have written tables")

    monkeypatch.setattr(cli, "judge_run", judge_run)
    assert cli.analyze(RUN) == 255
    assert files(there) == LEFT_BY_THE_OTHER


def test_an_analysis_that_never_held_its_run_takes_nothing_from_the_one_that_does(
    there: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Location) -> dict[str, int]:
        raise LocationError("hdfs://here/runs/x/history: access denied")

    def judge_run(*_: object, **__: object) -> Any:
        (RUN / "tables" / "ops").make_folder()
        (RUN / "tables" / "ops" / "part-0").write(b"")
        before = files(there)
        with monkeypatch.context() as patched:
            patched.setattr(Location, "sizes_below", refused)
            assert cli.analyze(RUN) == 255
        assert files(there) == before
        raise RunFolderError("seen")

    monkeypatch.setattr(cli, "judge_run", judge_run)
    assert cli.analyze(RUN) == 255
    assert "seen" in (there / "verdict.json").read_text()


def test_an_object_that_another_analysis_deleted_is_not_written_again(
    there: Path, clock: Clock, keepers: list[Keeper]
) -> None:
    """Also if this machine's clock stood still meanwhile, as that of one that sleeps."""
    with analysis_lock.locked_prefix(RUN) as check:
        (own,) = objects(there)
        own.unlink()
        keepers[0].renew()
        assert objects(there) == []
        with pytest.raises(FolderHeld, match=f"{own.name} is gone"):
            check()
        own.write_text("again")
        with pytest.raises(FolderHeld):
            check()


def test_an_object_whose_write_took_too_long_is_deleted(
    there: Path, clock: Clock, keepers: list[Keeper], monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(place: Location, content: bytes) -> None:
        clock.now_s += SILENT_S
        Path(place._key()).write_bytes(content)

    with analysis_lock.locked_prefix(RUN) as check:
        with monkeypatch.context() as patched:
            patched.setattr(Location, "write", late)
            keepers[0].renew()
        assert objects(there) == []
        with pytest.raises(FolderHeld, match=f"could not tell for {SILENT_S:.0f} s"):
            check()


def test_an_analysis_that_lives_keeps_its_run_for_as_long_as_it_takes(
    there: Path, clock: Clock, keepers: list[Keeper]
) -> None:
    with analysis_lock.locked_prefix(RUN) as check:
        for _ in range(10):
            clock.now_s += analysis_lock.DEAD_AFTER_S / 2
            keepers[0].renew()
            check()


@pytest.mark.parametrize("stays", [False, True])
def test_another_object_that_stays_is_that_of_an_analysis_that_holds_the_run(
    there: Path, clock: Clock, stays: bool
) -> None:
    """One that has just begun gives way, and deletes its own."""
    with analysis_lock.locked_prefix(RUN) as check:
        other = there / f"{analysis_lock.PREFIX}other"
        other.write_text("host")
        if stays:
            with pytest.raises(FolderHeld, match=f"has written {other.name}"):
                check()
        else:
            clock.meanwhile = other.unlink
            check()


def test_the_object_of_a_dead_analysis_takes_nothing_from_one_that_lives(
    there: Path, clock: Clock
) -> None:
    with analysis_lock.locked_prefix(RUN) as check:
        other = there / f"{analysis_lock.PREFIX}other"
        other.write_text("host")
        at_s = other.stat().st_mtime - SILENT_S
        os.utime(other, (at_s, at_s))
        check()
