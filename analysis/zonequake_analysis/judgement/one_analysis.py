"""A run folder belongs to one analysis at a time, and holds only that analysis's verdict.

    locked ── earlier verdict and tables removed ── … ── report, summary, junit.xml ── verdict.json
                                                      └── breaks off: no tables, harness-failed
                                                      └── killed: no verdict at all

Each file appears whole. A lock of the kernel holds a folder; in an object store, an object that is
written again and again holds a prefix (`storage.analysis_lock`).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

from zonequake_analysis.errors import FolderHeld, LocationError, RunFolderError
from zonequake_analysis.judgement.verdict_json import (
    JUNIT_FILE,
    REPORT_FILE,
    SUMMARY_FILE,
    VERDICT_FILE,
    CheckEntry,
    ReportedRun,
    RunFacts,
    read_facts,
    without_analysis,
)
from zonequake_analysis.judgement.write_reports import write_alone
from zonequake_analysis.storage.analysis_lock import locked_prefix
from zonequake_analysis.storage.location import Location
from zonequake_analysis.verdict import Kind, Verdict

TOLD_FILES = (VERDICT_FILE, REPORT_FILE, SUMMARY_FILE, JUNIT_FILE)
"""The files of an analysis, the verdict first: without it the others mean nothing."""

TABLES_FOLDER = "tables"
"""What an analysis derived: beside another one's verdict its findings would be that verdict's."""


class AnalysisLock:
    """The lock by which one analysis has a run's folder: not held yet, or held until this context
    ends or the process.

    Verdict, report and tables are written and deleted there only while it is held.
    """

    def __init__(self, run: Path | Location) -> None:
        self.run = Location.of(run)
        self._check: Callable[[], None] | None = None
        self._at_end = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()

    def give_back(self) -> None:
        """Leaves the folder to the next analysis."""
        self._at_end.close()

    @property
    def held(self) -> bool:
        """Whether the folder has belonged to this analysis."""
        return self._check is not None

    def take(self) -> None:
        """Holds the folder, and deletes the verdict and the tables of an earlier analysis.

        Raises FolderHeld if another process analyses it, OSError, LocationError.
        """
        self._hold()
        self._delete_told()
        (self.run / TABLES_FOLDER).delete_folder()

    def check(self) -> None:
        """Raises FolderHeld if another analysis may hold the folder by now, and LocationError."""
        if self._check is not None:
            self._check()

    def break_off(self, tell: Callable[[], None]) -> None:
        """Deletes report and tables, then has `tell` write the verdict of an analysis that failed.

        Holds the folder first if this analysis never did. Raises FolderHeld, with nothing written
        or deleted, if another one may hold it; OSError, LocationError.
        """
        if not self.held:
            self._hold()
        self.check()
        self._delete_told()
        # A store that refuses to delete them must not keep the verdict from being shown; the last
        # table is not there, so that nothing opens what is left.
        with suppress(OSError, LocationError):
            (self.run / TABLES_FOLDER).delete_folder()
        self.check()
        tell()

    def _hold(self) -> None:
        local = self.run.local
        lock = _locked(local) if local is not None else locked_prefix(self.run)
        self._check = self._at_end.enter_context(lock)

    def _delete_told(self) -> None:
        for name in TOLD_FILES:
            (self.run / name).delete()


@contextmanager
def _locked(run: Path) -> Iterator[Callable[[], None]]:
    """Holds a folder of this machine; the kernel releases it when the process ends.

    One without histories is held by none: there is nothing to analyze.
    """
    try:
        held = os.open(run / "history", os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        yield lambda: None
        return
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(held)
        raise FolderHeld(
            f"{run}: another process analyses it; wait until it has ended, then try again"
        ) from error
    try:
        yield lambda: None
    finally:
        os.close(held)


def tell_broken_off(
    lock: AnalysisLock, why: str, *, first: Callable[[], None] = lambda: None
) -> None:
    """Writes a verdict that says that the analysis broke off; deletes report and tables.

    `first` is called before the verdict is written, and may write into the folder, too. Raises as
    `AnalysisLock.break_off` does.
    """

    def tell() -> None:
        first()
        _write_broken_off(lock.run, why)

    lock.break_off(tell)


def _write_broken_off(run: Location, why: str) -> None:
    check = CheckEntry(
        name="analysis",
        kind=Kind.HARNESS,
        verdict=Verdict.HARNESS_FAILED,
        summary=f"the analysis broke off: {why}",
        checked=1,
    )
    write_alone(ReportedRun(document=without_analysis([check], _facts(run)), folder=str(run)), run)


def _facts(run: Location) -> RunFacts | None:
    try:
        return read_facts(run)
    except RunFolderError:
        return None
