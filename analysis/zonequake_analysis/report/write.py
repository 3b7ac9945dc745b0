"""Writes verdict.json, report.html, summary.md and junit.xml into a run folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from zonequake_analysis.importing.values import original_values
from zonequake_analysis.judgement.judge import Judgement
from zonequake_analysis.judgement.verdict_json import (
    REPORT_FILE,
    AnalysisPlace,
    ExecutorEntry,
    FaultEntry,
    ReportedRun,
    VerdictDocument,
    WindowEntry,
    entry,
    read_facts,
)
from zonequake_analysis.judgement.write_reports import write_alone
from zonequake_analysis.measures.availability.windows import Unavailability
from zonequake_analysis.report.page import render_page
from zonequake_analysis.report.summary import RESET_COLUMNS, headline, numbers, reset_rows
from zonequake_analysis.report.witness_text import witnesses_by_check
from zonequake_analysis.spark_pass.placement import Placement
from zonequake_analysis.storage.location import Location
from zonequake_analysis.verdict import EXIT_CODES


def write_report(
    run: Path | Location,
    judgement: Judgement,
    *,
    told: Callable[[str], None] = lambda _: None,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Writes the four files, verdict.json last. Calls `told` with a sentence on what is left
    out, and `check` before it writes, which may raise.
    """
    page = render_page(run, judgement, told=told)
    document = verdict_document(run, judgement)
    check()
    Location.of(run / REPORT_FILE).write(page.encode(errors="backslashreplace"))
    check()
    write_alone(ReportedRun(document=document, folder=str(run)), run)


def verdict_document(run: Path | Location, judgement: Judgement) -> VerdictDocument:
    """Returns `verdict.json` as docs/interfaces.md describes it."""
    e = judgement.evidence
    witnesses = witnesses_by_check(
        [(one.finding, one.witness) for one in judgement.shown],
        start_ns=judgement.ingested.start_ns,
        originals=original_values(run),
    )
    return VerdictDocument(
        verdict=judgement.verdict,
        exit_code=EXIT_CODES[judgement.verdict],
        checks=[
            entry(check, witnesses.get(check.name, ()) if check.violations else ())
            for check in judgement.checks
        ],
        headline=headline(judgement),
        numbers=numbers(judgement),
        run=read_facts(run),
        windows=_longest(e.availability.windows),
        faults=[
            FaultEntry(
                name=fault.name,
                times=fault.times,
                asked=fault.asked,
                landed=fault.landed,
                missed=fault.missed,
                effective=fault.effective_ns is not None,
                progress=fault.progress,
            )
            for fault in e.faults
        ],
        reset_columns=list(RESET_COLUMNS) if e.resets else [],
        resets=[list(row) for row in reset_rows(e)],
        analyzed=_place(judgement.placement),
    )


def _place(placement: Placement | None) -> AnalysisPlace | None:
    if placement is None:
        return None
    return AnalysisPlace(
        master=placement.master,
        application=placement.application,
        executors=[
            ExecutorEntry(name=one.name, address=one.address, tasks=one.tasks)
            for one in placement.executors
        ],
    )


def _longest(windows: tuple[Unavailability, ...]) -> list[WindowEntry]:
    """Returns the longest window of each partition, the longest of all first."""
    longest: dict[tuple[str, int], Unavailability] = {}
    for window in sorted(windows, key=lambda w: (-w.certain_ns, -w.possible_ns)):
        longest.setdefault((window.zone, window.partition), window)
    return [
        WindowEntry(
            zone=window.zone,
            partition=window.partition,
            function=window.function,
            certain_ms=round(window.certain_ns / 1e6, 3),
            possible_ms=round(window.possible_ns / 1e6, 3),
            cause=window.told_cause,
        )
        for window in longest.values()
    ]
