"""trend.html: one self-contained page over many runs; it loads nothing."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence

import jinja2

from zonequake_analysis.many_runs.quantities import number
from zonequake_analysis.many_runs.trend_charts import (
    chart,
    day,
    highest,
    verdict_strip,
    with_unit,
)
from zonequake_analysis.many_runs.trend_rows import (
    LevelChange,
    ScenarioTrend,
    Series,
    TrendRow,
    left_out,
    notes,
)
from zonequake_analysis.text.first_few import first_few
from zonequake_analysis.text.untrusted_text import plain
from zonequake_analysis.verdict import MARKS, Verdict

MOST_STEPS = 100
"""Most rows of the table of change points, the newest first."""

MOST_VERSIONS = 40
"""Most rows of each table by version, the newest first."""

MOST_PROBLEMS = 50
"""Most runs left out that are listed with the reason."""

MOST_NAMED = 20
"""Most further ones that are named; the rest is counted."""


def render_trend(found: Sequence[ScenarioTrend], rows: Sequence[TrendRow], folder: str) -> str:
    """Returns the page as text; everything from the runs is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [
                jinja2.PackageLoader("zonequake_analysis.many_runs", "."),
                jinja2.PackageLoader("zonequake_analysis.report", "."),
            ]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"plain": plain, "number": number, "day": day}
    runs = [run for trend in found for run in trend.runs]
    steps = sorted(
        (
            (trend, series, step)
            for trend in found
            for series in trend.series
            for step in series.steps
        ),
        key=_newest_first,
    )
    verdicts = Counter(run.verdict for run in runs)
    problems = left_out(rows)
    unlisted = [plain(run) for run, _ in problems[MOST_PROBLEMS:]]
    return environment.get_template("trend.html.j2").render(
        folder=plain(folder),
        runs=runs,
        worse=sum(step.is_worse for _, _, step in steps),
        headline=_headline(found, runs),
        tone=_tone(found),
        verdicts=[(v, verdicts[v], MARKS[v]) for v in Verdict if verdicts[v]],
        versions=len({run.version for run in runs}),
        span=_span(runs),
        steps=[_told(*item) for item in steps[:MOST_STEPS]],
        steps_left_out=max(0, len(steps) - MOST_STEPS),
        scenarios=[_scenario(place, trend) for place, trend in enumerate(found)],
        problems=[(plain(run), plain(why, 400)) for run, why in problems[:MOST_PROBLEMS]],
        problems_left_out=first_few(unlisted, MOST_NAMED),
        without=first_few([plain(run) for run, _ in problems], 3),
        noted=first_few([plain(f"{run}: {why}", 400) for run, why in notes(rows)], MOST_NAMED),
        data=_data(found),
    )


def _span(runs: Sequence[TrendRow]) -> str:
    if not runs:
        return "–"
    times = [run.time_ns for run in runs]
    return f"{day(min(times))} … {day(max(times))}"


def _now_worse(found: Sequence[ScenarioTrend]) -> list[tuple[ScenarioTrend, Series, LevelChange]]:
    """Returns objectives whose newest change was for the worse, the newest first."""
    return sorted(
        (
            (trend, series, series.steps[-1])
            for trend in found
            for series in trend.series
            if series.steps and series.steps[-1].is_worse
        ),
        key=_newest_first,
    )


def _newest_first(found: tuple[ScenarioTrend, Series, LevelChange]) -> int:
    trend, _, step = found
    return -trend.runs[step.number].time_ns


def _headline(found: Sequence[ScenarioTrend], runs: Sequence[TrendRow]) -> str:
    if not runs:
        return "No run with a verdict and a time was found."
    worse = _now_worse(found)
    if not worse:
        return f"No objective of {len(runs):,} runs has changed for the worse, as far as it stands."
    trend, series, step = worse[0]
    run = trend.runs[step.number]
    more = f" {len(worse) - 1} more objectives are worse since a change, too." if worse[1:] else ""
    since = f"{day(run.time_ns)} ({plain(run.version) or 'no version'})"
    return (
        f"{series.quantity.words[0].upper()}{series.quantity.words[1:]} of "
        f"{plain(trend.scenario) or 'runs without a scenario'} went from "
        f"{with_unit(step.point.before, series.quantity.unit)} to "
        f"{with_unit(step.point.after, series.quantity.unit)} on {since}.{more}"
    )


def _tone(found: Sequence[ScenarioTrend]) -> Verdict:
    if not found:
        return Verdict.UNKNOWN
    return Verdict.SLO_BREACHED if _now_worse(found) else Verdict.PASSED


def _told(trend: ScenarioTrend, series: Series, step: LevelChange) -> dict[str, object]:
    run, unit = trend.runs[step.number], series.quantity.unit
    return {
        "scenario": plain(trend.scenario),
        "objective": series.quantity.words,
        "run": plain(run.run),
        "time_ns": run.time_ns,
        "version": plain(run.version),
        "before": with_unit(step.point.before, unit),
        "after": with_unit(step.point.after, unit),
        "ratio": f"×{number(step.ratio)}" if math.isfinite(step.ratio) else "from 0",
        "is_worse": step.is_worse,
        "chance": f"{step.point.chance:.0e}" if step.point.chance >= 1e-12 else "< 1e-12",
    }


def _scenario(place: int, trend: ScenarioTrend) -> dict[str, object]:
    drawn = [(i, series) for i, series in enumerate(trend.series) if not series.is_constant]
    constant = [
        f"{series.quantity.words}: {with_unit(series.points[0].value, series.quantity.unit)}"
        for series in trend.series
        if series.is_constant
    ]
    return {
        "name": plain(trend.scenario) or "runs without a scenario",
        "target": plain(trend.target),
        "runs": trend.runs,
        "strip": verdict_strip(trend.runs),
        "charts": [
            {
                "words": series.quantity.words,
                "svg": chart(series, trend.runs, f"{place}.{i}"),
                "now": "at least " * _is_least(series)
                + with_unit(_now(series), series.quantity.unit),
                "bound": _bound(series),
                "cut": sum(p.value > highest(series) for p in series.points),
            }
            for i, series in drawn
        ],
        "constant": constant,
        **_by_version(trend, [series for _, series in drawn]),
    }


def _now(series: Series) -> float:
    """Returns the level since the last change point; the newest value if no run counts."""
    if series.steps:
        return series.steps[-1].point.after
    counted = sorted(point.value for point in series.points if point.counts)
    middle = len(counted) // 2
    if not counted:
        return series.points[-1].value
    return counted[middle] if len(counted) % 2 else (counted[middle - 1] + counted[middle]) / 2


def _is_least(series: Series) -> bool:
    """Returns whether nothing but the least is known of the newest value, and no run counts."""
    return series.points[-1].is_least and not any(point.counts for point in series.points)


def _bound(series: Series) -> str:
    if series.bound is None:
        return ""
    words = f"at most {with_unit(series.bound, series.quantity.unit)}"
    return words if series.bound <= highest(series) else f"{words}, above the drawing"


def _by_version(trend: ScenarioTrend, drawn: Sequence[Series]) -> dict[str, object]:
    first = {run.version: run.time_ns for run in reversed(trend.runs)}
    counts = Counter(run.version for run in trend.runs)
    newest = sorted(first, key=lambda version: -first[version])
    return {
        "columns": [series.quantity.words for series in drawn],
        "by_version": [
            {
                "version": plain(version) or "no version",
                "since": first[version],
                "runs": counts[version],
                "cells": [_cell(series, version) for series in drawn],
            }
            for version in newest[:MOST_VERSIONS]
        ],
        "versions_left_out": max(0, len(newest) - MOST_VERSIONS),
    }


def _cell(series: Series, version: str) -> tuple[str, str]:
    estimate = series.by_version.get(version)
    if estimate is None:
        return "–", ""
    value = with_unit(estimate.value, series.quantity.unit)
    if estimate.low == estimate.high:
        return value, ""
    return value, f"{number(estimate.low)} … {number(estimate.high)}"


def _data(found: Sequence[ScenarioTrend]) -> str:
    """Returns the values for the page's script; `<` is escaped so that no text ends the script."""
    data = {
        "runs": [
            [
                f"{plain(run.run, 60)}\n{day(run.time_ns)} · {plain(run.version, 30)} · "
                f"{run.verdict}"
                for run in trend.runs
            ]
            for trend in found
        ],
        "series": {
            f"{place}.{i}": {
                "at": [point.number for point in series.points],
                "v": [float(f"{point.value:.4g}") for point in series.points],
                "unit": series.quantity.unit,
            }
            for place, trend in enumerate(found)
            for i, series in enumerate(trend.series)
            if not series.is_constant
        },
    }
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
