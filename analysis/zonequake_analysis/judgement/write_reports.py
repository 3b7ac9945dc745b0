"""Writes the reports of a run, or of several, into files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zonequake_analysis.judgement.junit import render_junit
from zonequake_analysis.judgement.pull_request import render_summary
from zonequake_analysis.judgement.verdict_json import (
    JUNIT_FILE,
    SUMMARY_FILE,
    ReportedRun,
    write_document,
)
from zonequake_analysis.storage.location import Location


def write_alone(told: ReportedRun, run: Path | Location) -> None:
    """Writes junit.xml, summary.md and then verdict.json into the run's folder."""
    write_together([told], run)
    write_document(run, told.document)


def write_together(runs: Sequence[ReportedRun], folder: Path | Location, *, asked: int = 1) -> None:
    """Writes one junit.xml and one summary.md for all of these runs, of `asked` requested ones."""
    location = Location.of(folder)
    location.make_folder()
    (location / JUNIT_FILE).write(render_junit(runs))
    (location / SUMMARY_FILE).write(render_summary(runs, asked=asked).encode())
