"""A comparison in words: a table for the terminal, Markdown for a pull request, JSON. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from zonequake_analysis.many_runs.bounds import BoundKind
from zonequake_analysis.many_runs.comparison import (
    ComparedRow,
    ComparedSide,
    Conclusion,
    RowOutcome,
    RunComparison,
)
from zonequake_analysis.many_runs.intervals import FEWEST_RUNS
from zonequake_analysis.many_runs.measured_run import MeasuredRun
from zonequake_analysis.many_runs.metric_rows import MetricMedian, MetricRow, MetricSide
from zonequake_analysis.many_runs.quantities import Better, Estimate, number
from zonequake_analysis.text.first_few import first_few
from zonequake_analysis.text.markdown import cell
from zonequake_analysis.text.untrusted_text import plain

MOST_RUNS = 12
"""Most runs of a side that are named; the rest is counted."""

MOST_METRICS = 30
"""Most rows of metrics; the rest is counted."""

MARKS = {
    RowOutcome.REGRESSION: "✗",
    RowOutcome.MISSING: "?",
    RowOutcome.SUSPECT: "~",
    RowOutcome.BETTER: "+",
    RowOutcome.WITHIN: "✓",
    RowOutcome.SHOWN: "",
}
CONCLUSION_MARKS = {
    Conclusion.REGRESSION: "✗",
    Conclusion.UNKNOWN: "?",
    Conclusion.NO_REGRESSION: "✓",
}
_HEADINGS = ("", "quantity", "base", "candidate", "change", "bound")
_METRICS_MOVED = (
    "Metrics that moved with the faults, before → during, of each the series that moved most"
)
_METRIC_INTERVALS = (
    f"[1 run]: one run: no interval; two give none either. From {FEWEST_RUNS} on: of their median."
)
_FIRST = (RowOutcome.REGRESSION, RowOutcome.MISSING, RowOutcome.SUSPECT)
_INTERVALS = (
    "In brackets: intervals of 95 %; of a window from its certain to its possible length; ∞: "
    "nothing bounds it."
)


def to_text(found: RunComparison) -> str:
    """Returns the table for a terminal: the headline first, then both sides, then the rows."""
    lines = [f"{CONCLUSION_MARKS[found.conclusion]} {plain(found.headline, 1000)}", ""]
    lines += [f"base       {_side(found.base)}", f"candidate  {_side(found.candidate)}"]
    lines += [f"note       {plain(note, 600)}" for note in found.notes]
    if found.rows:
        lines += ["", *_aligned([_HEADINGS, *map(_cells, found.rows)]), "", _INTERVALS]
    if found.metrics:
        lines += ["", _METRICS_MOVED, ""]
        lines += _aligned(
            [
                ("metric", "measure", "base", "candidate", "unit"),
                *(
                    (plain(m.name), plain(m.measure), *_moved(m), plain(m.unit))
                    for m in found.metrics[:MOST_METRICS]
                ),
            ]
        )
        lines += ["", _METRIC_INTERVALS]
    return "\n".join(lines) + "\n"


def to_markdown(found: RunComparison) -> str:
    """Returns the same for a pull request: problems are open, the rest is folded."""
    lines = [
        f"# {CONCLUSION_MARKS[found.conclusion]} zonequake compare: {found.conclusion}",
        "",
        cell(found.headline, 1000),
        "",
        "| | runs | verdicts | version |",
        "| --- | --- | --- | --- |",
        _side_row("base", found.base),
        _side_row("candidate", found.candidate),
        "",
    ]
    lines += [f"- {cell(note, 600)}" for note in found.notes]
    wrong = [row for row in found.rows if row.outcome in _FIRST]
    rest = [row for row in found.rows if row.outcome not in _FIRST]
    lines += ["", *_table(wrong)] if wrong else []
    if rest:
        folded = f"{len(rest)} quantities within their bounds, better, or not judged"
        lines += ["", f"<details><summary>{folded}</summary>", "", *_table(rest), "", "</details>"]
    if found.metrics:
        lines += [
            "",
            f"<details><summary>{len(found.metrics)} metrics moved</summary>",
            "",
            f"{_METRICS_MOVED}. {_METRIC_INTERVALS}",
            "",
            "| metric | measure | base | candidate | unit |",
            "| --- | --- | ---: | ---: | --- |",
        ]
        lines += [
            f"| {cell(m.name)} | {cell(m.measure)} | {' | '.join(_moved(m))} | {cell(m.unit)} |"
            for m in found.metrics[:MOST_METRICS]
        ]
        lines += ["", "</details>"]
    return "\n".join([*lines, "", f"<sub>{_INTERVALS}</sub>", ""])


def to_json(found: RunComparison) -> bytes:
    """Returns all of it for programs; an open end of an interval is null."""
    document = {
        "schema": 1,
        "conclusion": found.conclusion,
        "exit_code": found.exit_code,
        "headline": found.headline,
        "verdict_note": found.verdict_note,
        "newly_violated": list(found.newly_violated),
        "notes": list(found.notes),
        "base": _side_object(found.base),
        "candidate": _side_object(found.candidate),
        "rows": [
            {
                "name": row.quantity.name,
                "words": row.quantity.words,
                "unit": row.quantity.unit,
                "better": row.quantity.better,
                "family": row.quantity.family,
                "kind": row.kind,
                "bound": row.bound,
                "outcome": row.outcome,
                "base": _estimate_object(row.base),
                "candidate": _estimate_object(row.candidate),
                "change": _estimate_object(row.change),
            }
            for row in found.rows
        ],
        "metrics": [
            {
                "name": m.name,
                "measure": m.measure,
                "unit": m.unit,
                "base": _metric_object(m.base),
                "candidate": _metric_object(m.candidate),
            }
            for m in found.metrics
        ],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _side(side: ComparedSide) -> str:
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(side.verdicts.items()))
    return plain(f"{_names(side.used)}  [{verdicts}]{_version(side)}", 600)


def _side_row(name: str, side: ComparedSide) -> str:
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(side.verdicts.items()))
    return (
        f"| {name} | {cell(_names(side.used), 600)} | {verdicts} | "
        f"{cell(_version(side).strip()) or '–'} |"
    )


def _side_object(side: ComparedSide) -> dict[str, object]:
    def runs(found: Sequence[MeasuredRun]) -> list[dict[str, object]]:
        return [
            {
                "folder": run.folder,
                "run": run.run,
                "scenario": run.scenario,
                "seed": run.seed,
                "version": run.version,
                "verdict": run.verdict,
                "started_wall_ns": run.started_wall_ns,
            }
            for run in found
        ]

    return {"runs": runs(side.used), "left_out": runs(side.left_out)}


def _names(runs: Sequence[MeasuredRun]) -> str:
    return first_few([run.run for run in runs], MOST_RUNS, separator=", ") or "no run"


def _version(side: ComparedSide) -> str:
    return f"  {', '.join(sorted({run.version for run in side.used} - {''}))}"


def _estimate_object(estimate: Estimate | None) -> dict[str, float | None] | None:
    if estimate is None:
        return None
    return {
        name: value if math.isfinite(value) else None
        for name, value in (
            ("value", estimate.value),
            ("low", estimate.low),
            ("high", estimate.high),
        )
    }


def _metric_object(side: MetricSide | None) -> dict[str, object] | None:
    if side is None:
        return None
    return {
        name: {"value": median.value, "low": median.low, "high": median.high, "runs": median.runs}
        for name, median in (("before", side.before), ("during", side.during))
    }


def _table(rows: Sequence[ComparedRow]) -> list[str]:
    return [
        f"| {' | '.join(_HEADINGS)} |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
        *(f"| {' | '.join(_cells(row))} |" for row in rows),
    ]


def _cells(row: ComparedRow) -> tuple[str, ...]:
    unit = row.quantity.unit
    return (
        MARKS[row.outcome],
        row.quantity.words,
        _shown(row.base, unit),
        _shown(row.candidate, unit),
        _changed(row),
        _bounded(row),
    )


def _shown(estimate: Estimate | None, unit: str) -> str:
    if estimate is None:
        return "–"
    words = f"{number(estimate.value)} {unit}".strip().replace(" /s", "/s")
    if estimate.low == estimate.value == estimate.high:
        return words
    return f"{words} [{number(estimate.low)} … {number(estimate.high)}]"


def _changed(row: ComparedRow) -> str:
    if row.change is None:
        return "–"
    if row.kind is BoundKind.RATIO:
        return f"×{number(row.change.value)}"
    sign = "+" if row.change.value >= 0 else "−"
    return f"{sign}{number(abs(row.change.value))}"


def _bounded(row: ComparedRow) -> str:
    if row.bound is None:
        return ""
    if row.kind is BoundKind.ADDED:
        return f"+{number(row.bound)}"
    return f"×{number(row.bound)} at {'most' if row.quantity.better is Better.LOWER else 'least'}"


def _moved(row: MetricRow) -> tuple[str, str]:
    def told(side: MetricSide | None) -> str:
        if side is None:
            return "–"
        if side.during.low is None:
            runs = "1 run" if side.during.runs == 1 else f"{side.during.runs} runs"
            return f"{side.before.value:.4g} → {side.during.value:.4g} [{runs}]"
        return f"{_median(side.before)} → {_median(side.during)}"

    return told(row.base), told(row.candidate)


def _median(median: MetricMedian) -> str:
    return f"{median.value:.4g} [{median.low:.4g} … {median.high:.4g}]"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the rows in columns: the first two columns to the left, numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
