"""Writes what is told of a run, or of several, into files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zonequake_analysis.judgement.junit import render_junit
from zonequake_analysis.judgement.pull_request import render_summary
from zonequake_analysis.judgement.verdict_json import JUNIT_FILE, SUMMARY_FILE, Told, write_document


def write_told(told: Told, run: Path) -> None:
    """Writes verdict.json, junit.xml and summary.md into the run's folder."""
    write_document(run, told.document)
    write_together([told], run)


def write_together(runs: Sequence[Told], folder: Path, *, asked: int = 1) -> None:
    """Writes one junit.xml and one summary.md for all of these runs, of so many asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / JUNIT_FILE).write_bytes(render_junit(runs))
    (folder / SUMMARY_FILE).write_text(render_summary(runs, asked=asked), encoding="utf-8")
