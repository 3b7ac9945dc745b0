"""A run folder belongs to one analysis at a time, and holds only that analysis's verdict.

    claimed ── earlier verdict and tables removed ── … ── report, summary, junit.xml ── verdict.json
                                                      └── breaks off: no tables, harness-failed
                                                      └── killed: no verdict at all

Each file appears whole. A lock of the kernel holds a folder; in an object store, an object that is
written again and again holds a prefix (`storage.claim`).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from zonequake_analysis.errors import FolderHeld, PlaceError, RunFolderError
from zonequake_analysis.judgement.verdict_json import (
    JUNIT_FILE,
    REPORT_FILE,
    SUMMARY_FILE,
    VERDICT_FILE,
    CheckEntry,
    RunFacts,
    Told,
    read_facts,
    without_analysis,
)
from zonequake_analysis.judgement.write_reports import write_told
from zonequake_analysis.storage.claim import claimed_object
from zonequake_analysis.storage.place import Place
from zonequake_analysis.verdict import Kind, Verdict

TOLD_FILES = (VERDICT_FILE, REPORT_FILE, SUMMARY_FILE, JUNIT_FILE)
"""The files of an analysis, the verdict first: without it the others mean nothing."""

TABLES_FOLDER = "tables"
"""What an analysis derived: beside another one's verdict its findings would be that verdict's."""


@contextmanager
def claimed(run: Path | Place) -> Iterator[Callable[[], None]]:
    """Holds the folder for one analysis, without the verdict and the tables of an earlier one.

    It is released when this process ends. Yields a function that raises FolderHeld if another
    analysis may hold the folder by now. Raises FolderHeld if another process analyses it.
    """
    place = Place.of(run)
    with _locked(place.local) if place.local is not None else claimed_object(place) as check:
        for name in TOLD_FILES:
            (place / name).delete()
        (place / TABLES_FOLDER).delete_folder()
        yield check


@contextmanager
def _locked(run: Path) -> Iterator[Callable[[], None]]:
    """Holds a folder of this machine; the kernel releases it when the process ends."""
    held = os.open(run / "history", os.O_RDONLY | os.O_DIRECTORY)
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


def tell_broken_off(run: Path | Place, why: str) -> None:
    """Writes a verdict that says that the analysis broke off; deletes report and tables."""
    (Place.of(run) / REPORT_FILE).delete()
    # A store that refuses to delete them must not keep the verdict from being told; the last table
    # is not there, so that nothing opens what is left.
    with suppress(OSError, PlaceError):
        (Place.of(run) / TABLES_FOLDER).delete_folder()
    check = CheckEntry(
        name="analysis",
        kind=Kind.HARNESS,
        verdict=Verdict.HARNESS_FAILED,
        summary=f"the analysis broke off: {why}",
        checked=1,
    )
    write_told(Told(document=without_analysis([check], _facts(run)), folder=str(run)), run)


def _facts(run: Path | Place) -> RunFacts | None:
    try:
        return read_facts(run)
    except RunFolderError:
        return None
