"""Drawings of a trend as SVG text: an objective over all runs of a scenario, and their verdicts.

Runs are side by side in order of time, so that a busy day and a quiet month are as wide as their
number of runs. Colours are CSS classes, so that light and dark come from the page. Pure.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import groupby, pairwise

import numpy as np

from zonequake_analysis.many_runs.trend_rows import Series, TrendRow
from zonequake_analysis.untrusted_text import plain
from zonequake_analysis.verdict import Verdict

WIDTH, HEIGHT = 560, 210
LEFT, RIGHT, TOP, BOTTOM = 58, 8, 24, 26
STRIP_WIDTH, STRIP_HEIGHT = 1160, 26
_Scale = Callable[[float], float]
_LABEL_PX = 7.2
"""Width of a letter, about: a label without room is left out."""


def number(value: float) -> str:
    """Returns a number with as many digits as are useful."""
    if math.isinf(value):
        return "∞"
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def with_unit(value: float, unit: str) -> str:
    """Returns the value in its unit; large numbers of milliseconds become seconds."""
    if unit == "ms" and value >= 10_000:
        return f"{number(value / 1000)} s"
    if unit == "/s":
        return f"{number(value)}/s"
    if unit == "times":
        return f"×{number(value)}"
    return f"{number(value)} {unit}".strip()


def day(time_ns: int) -> str:
    """Returns the date of a run, in UTC."""
    return datetime.fromtimestamp(time_ns / 1e9, UTC).strftime("%Y-%m-%d")


def x_of(place: float, count: int, *, width: int = WIDTH, left: int = LEFT) -> float:
    """Returns the middle of the run at `place` of `count` runs."""
    return left + (place + 0.5) / max(1, count) * (width - left - RIGHT)


def highest(series: Series) -> float:
    """Returns the upper edge of a drawing: a few outliers don't flatten the rest, except of counts,
    where outliers are what matters. The bound is in the drawing if it is near."""
    values = np.array([point.value for point in series.points])
    is_count = not series.quantity.unit
    usual = float(values.max() if is_count else np.quantile(values, 0.98))
    if usual <= 0:
        usual = float(values.max()) or 1.0
    top = max([usual * 1.25, *(step.point.after * 1.25 for step in series.steps)])
    if series.bound is not None and top < series.bound * 1.08 <= 2.5 * top:
        top = series.bound * 1.08
    return top


def chart(series: Series, runs: Sequence[TrendRow], name: str) -> str:
    """Returns a drawing of an objective with levels, change points, bound and versions.

    `name` is the name of the data under which the page's script finds the values.
    """
    count, top = len(runs), highest(series)
    bottom = HEIGHT - BOTTOM
    unit = series.quantity.unit

    def y(value: float) -> float:
        return bottom - min(1.0, value / top) * (bottom - TOP)

    body = _versions(runs, TOP, bottom)
    for value in _round_values(top, least=0.0 if unit else 1.0):
        body.append(_line(LEFT, y(value), WIDTH - RIGHT, y(value), "grid"))
        body.append(_text(LEFT - 6, y(value) + 4, with_unit(value, unit), "tick", "end"))
    body += _dates(runs, bottom + 17)
    if series.bound is not None and series.bound <= top:
        body.append(_line(LEFT, y(series.bound), WIDTH - RIGHT, y(series.bound), "bound"))
    body += _points(series, count, top, y)
    body += _levels(series, count, y)
    for step in series.steps:
        x = (x_of(step.number, count) + x_of(step.number - 1, count)) / 2
        style = "worse" if step.is_worse else "better"
        body.append(_line(x, TOP, x, bottom, f"step {style}"))
        label = f"×{number(step.ratio)}" if math.isfinite(step.ratio) else "from 0"
        flip = x + len(label) * _LABEL_PX > WIDTH - RIGHT
        body.append(
            _text(x - 4 if flip else x + 4, TOP + 12, label, style, "end" if flip else "start")
        )
    body.append(f'<line class="cross" x1="0" x2="0" y1="{TOP}" y2="{bottom}"/>')
    words = series.quantity.words
    return (
        f'<svg data-series="{escape(name)}" role="img" viewBox="0 0 {WIDTH} {HEIGHT}">'
        f"<title>{escape(words)}</title><desc>{len(series.points)} runs, {len(series.steps)} "
        f"change points</desc>{''.join(body)}</svg>"
    )


def _round_values(top: float, least: float) -> list[float]:
    """Returns two to five round values from 0 up to at most `top`, `least` apart."""
    power = 10.0 ** math.floor(math.log10(top))
    step = next(s * power for s in (0.2, 0.5, 1.0, 2.0, 5.0) if top / (s * power) < 5)
    step = max(step, least)
    return [i * step for i in range(int(top / step) + 1)]


def _points(series: Series, count: int, top: float, y: _Scale) -> list[str]:
    """Returns one path for each verdict; a value that is cut off gets a mark at the upper edge."""
    paths: dict[tuple[str, str], list[str]] = defaultdict(list)
    for point in series.points:
        x = x_of(point.number, count)
        if point.value > top:
            paths["over", point.verdict].append(f"M{x - 3:.1f} {TOP + 5}l3-5 3 5z")
        else:
            paths["dot", point.verdict].append(f"M{x:.1f} {y(point.value):.1f}h.01")
    size = 5 if count <= 120 else 4 if count <= 400 else 3
    return [
        f'<path class="{style} {_class(verdict)}" stroke-width="{size}" d="{"".join(parts)}"/>'
        for (style, verdict), parts in paths.items()
    ]


def _levels(series: Series, count: int, y: _Scale) -> list[str]:
    """Returns the median between change points as a line."""
    counted = [point for point in series.points if point.counts]
    if not counted:
        return []
    edges = [counted[0].number, *(step.number for step in series.steps), counted[-1].number + 1]
    drawn = []
    for first, last in pairwise(edges):
        level = float(np.median([p.value for p in counted if first <= p.number < last]))
        drawn.append(_line(x_of(first, count), y(level), x_of(last - 1, count), y(level), "level"))
    return drawn


def _versions(runs: Sequence[TrendRow], top: float, bottom: float) -> list[str]:
    """Returns every second stretch of runs of one version as a band, with the name above."""
    body, taken = [], 0.0
    at = 0
    for band, (version, group) in enumerate(groupby(runs, key=lambda run: run.version)):
        size = len(list(group))
        half = (WIDTH - LEFT - RIGHT) / max(1, len(runs)) / 2
        x = x_of(at, len(runs)) - half
        width = size * 2 * half
        at += size
        if band % 2:
            body.append(
                f'<rect class="band" x="{x:.1f}" y="{top}" width="{width:.1f}" '
                f'height="{bottom - top:.1f}"/>'
            )
        label = plain(version, 18)
        if label and x >= taken and len(label) * _LABEL_PX <= max(width, 70):
            flip = x + len(label) * _LABEL_PX > WIDTH - RIGHT
            body.append(
                _text(
                    WIDTH - RIGHT if flip else x + 2, top - 8, label, "tick", "end" if flip else ""
                )
            )
            taken = x + len(label) * _LABEL_PX + 8
    return body


def _dates(runs: Sequence[TrendRow], y: float) -> list[str]:
    count = len(runs)
    if count == 1:
        return [_text(x_of(0, 1), y, day(runs[0].time_ns), "tick", "middle")]
    places = sorted({0, count // 2, count - 1})
    anchors = {0: "start", count - 1: "end"}
    return [
        _text(x_of(i, count), y, day(runs[i].time_ns), "tick", anchors.get(i, "middle"))
        for i in places
    ]


def verdict_strip(runs: Sequence[TrendRow]) -> str:
    """Returns the verdict of each run as a bar. Bars have a least width, so that runs that did not
    pass stay visible."""
    count = len(runs)
    full = STRIP_WIDTH / max(1, count)
    width = max(full - (1 if full > 4 else 0), 2.5)
    body = []
    # Better verdicts come first, so that no neighbour covers a worse one.
    for verdict in reversed(Verdict):
        parts = [
            f"M{i * full:.1f} 0h{width:.1f}v{STRIP_HEIGHT}h-{width:.1f}z"
            for i, run in enumerate(runs)
            if run.verdict == verdict
        ]
        if parts:
            body.append(f'<path class="bar {_class(verdict)}" d="{"".join(parts)}"/>')
    return (
        f'<svg class="strip" role="img" viewBox="0 0 {STRIP_WIDTH} {STRIP_HEIGHT}" '
        f'preserveAspectRatio="none"><title>Verdicts of {count} runs</title>'
        f"{''.join(body)}</svg>"
    )


def _class(verdict: str) -> str:
    """Returns the verdict, or `unknown` for another text, as it goes into an attribute."""
    return verdict if verdict in set(Verdict) else "unknown"


def _text(x: float, y: float, words: str, style: str, anchor: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor or "start"}" class="{style}">'
        f"{escape(words)}</text>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"/>'
