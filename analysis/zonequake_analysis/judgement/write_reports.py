"""Writes what is told of a run, or of several, into files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zonequake_analysis.judgement.junit import render_junit
from zonequake_analysis.judgement.pull_request import render_summary
from zonequake_analysis.judgement.verdict_json import JUNIT_FILE, SUMMARY_FILE, Told, write_document
from zonequake_analysis.whole_files import write_whole


def write_told(told: Told, run: Path) -> None:
    """Writes junit.xml, summary.md and then verdict.json into the run's folder."""
    write_together([told], run)
    write_document(run, told.document)


def write_together(runs: Sequence[Told], folder: Path, *, asked: int = 1) -> None:
    """Writes one junit.xml and one summary.md for all of these runs, of so many asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / JUNIT_FILE, render_junit(runs))
    write_whole(folder / SUMMARY_FILE, render_summary(runs, asked=asked).encode())
