"""Drawings of a trend: an objective over all runs of a scenario, and their verdicts.

Runs are side by side in order of time, so that a busy day and a quiet month are as wide as their
number of runs. Lines and dots are SVG that is stretched to any width; text is HTML over it and
keeps its size. Labels are chosen for a wide and for a narrow drawing, and the page shows those that
have room. Colours are CSS classes, so that light and dark come from the page. Pure.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from html import escape
from itertools import groupby, pairwise

import numpy as np

from zonequake_analysis.many_runs.quantities import number
from zonequake_analysis.many_runs.trend_rows import LevelChange, Series, TrendRow
from zonequake_analysis.text.untrusted_text import plain
from zonequake_analysis.verdict import Verdict

WIDTH, HEIGHT = 500, 210
"""Of a drawing's own units; one of its height is a pixel."""

TOP, BOTTOM = 24, 26
STRIP_WIDTH, STRIP_HEIGHT = 1160, 26
_Scale = Callable[[float], float]
_WIDE_PX, _NARROW_PX = 380.0, 250.0
"""Least widths of the two kinds of drawings; the page's style says from where on one is wide."""

_LETTER_PX = 6.6
"""Width of a letter, about: a label without room is left out."""

_APART_PX = 6.0
_LEAST_LABEL_PX = 70.0
"""A name of a version may be as wide as that, however few runs it has."""


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


def x_of(place: float, count: int) -> float:
    """Returns the middle of the run at `place` of `count` runs."""
    return (place + 0.5) / max(1, count) * WIDTH


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

    values = _round_values(top, least=0.0 if unit else 1.0)
    body = _bands(runs, TOP, bottom)
    body += [_line(0, y(value), WIDTH, y(value), "grid") for value in values]
    if series.bound is not None and series.bound <= top:
        body.append(_line(0, y(series.bound), WIDTH, y(series.bound), "bound"))
    body += _points(series, count, top, y)
    body += _levels(series, count, y)
    for step in series.steps:
        x = _before(step.number, count)
        body.append(_line(x, TOP, x, bottom, f"step {_tone(step)}"))
    body.append(f'<line class="cross" x1="0" x2="0" y1="{TOP}" y2="{bottom}"/>')
    words = [
        *(_level(y(value), with_unit(value, unit)) for value in values),
        *(_over(x_of(p.number, count), p.verdict) for p in series.points if p.value > top),
        *_labels(lambda width_px: _version_labels(runs, width_px)),
        *_labels(lambda width_px: _date_labels(runs, bottom + 13, width_px)),
        *_labels(lambda width_px: _step_labels(series, count, width_px)),
    ]
    return (
        f'<div class="plot" style="height:{HEIGHT}px">'
        f'<svg data-series="{escape(name)}" role="img" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'preserveAspectRatio="none"><title>{escape(series.quantity.words)}</title>'
        f"<desc>{len(series.points)} runs, {len(series.steps)} change points</desc>"
        f"{''.join(body)}</svg>{''.join(words)}</div>"
    )


def _round_values(top: float, least: float) -> list[float]:
    """Returns two to five round values from 0 up to at most `top`, `least` apart."""
    power = 10.0 ** math.floor(math.log10(top))
    step = next(s * power for s in (0.2, 0.5, 1.0, 2.0, 5.0) if top / (s * power) < 5)
    step = max(step, least)
    return [i * step for i in range(int(top / step) + 1)]


def _points(series: Series, count: int, top: float, y: _Scale) -> list[str]:
    """Returns one path for each verdict, without the values that are cut off."""
    paths: dict[str, list[str]] = defaultdict(list)
    for point in series.points:
        if point.value <= top:
            x = x_of(point.number, count)
            paths[point.verdict].append(f"M{x:.1f} {y(point.value):.1f}h.01")
    size = 5 if count <= 120 else 4 if count <= 400 else 3
    return [
        f'<path class="dot {_class(verdict)}" stroke-width="{size}" d="{"".join(parts)}"/>'
        for verdict, parts in paths.items()
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


def _stretches(runs: Sequence[TrendRow]) -> list[tuple[str, float, float]]:
    """Returns each stretch of runs of one version, from where to where."""
    found, at = [], 0
    for version, group in groupby(runs, key=lambda run: run.version):
        end = at + len(list(group))
        found.append((version, _before(at, len(runs)), _before(end, len(runs))))
        at = end
    return found


def _before(place: int, count: int) -> float:
    """Returns the middle between a run and the one before it."""
    return x_of(place - 0.5, count)


def _bands(runs: Sequence[TrendRow], top: float, bottom: float) -> list[str]:
    """Returns every second stretch of runs of one version as a band."""
    return [
        f'<rect class="band" x="{x:.1f}" y="{top}" width="{end - x:.1f}" '
        f'height="{bottom - top:.1f}"/>'
        for _, x, end in _stretches(runs)[1::2]
    ]


@dataclass(frozen=True, slots=True)
class _Label:
    """Words that begin at `x`, end there or have their middle there, in the drawing's units."""

    x: float
    y: float
    words: str
    style: str
    side: str  # from, to, or mid

    def ends_px(self, width_px: float) -> tuple[float, float]:
        """Returns where it begins and ends in a drawing of this width."""
        at_px, size_px = self.x / WIDTH * width_px, len(self.words) * _LETTER_PX
        begin_px = at_px - size_px * {"from": 0.0, "mid": 0.5, "to": 1.0}[self.side]
        return begin_px, begin_px + size_px

    def within(self, width_px: float) -> _Label:
        """Returns the label, turned to the other side if it would end beyond the drawing."""
        beyond = self.side == "from" and self.ends_px(width_px)[1] > width_px
        return replace(self, side="to") if beyond else self


def _apart(labels: Sequence[_Label], width_px: float) -> list[_Label]:
    """Returns the labels, from the left, without those that would cover one before."""
    kept, taken_px = [], -math.inf
    for label in labels:
        begin_px, end_px = label.ends_px(width_px)
        if begin_px >= taken_px:
            kept.append(label)
            taken_px = end_px + _APART_PX
    return kept


def _labels(of_width: Callable[[float], list[_Label]]) -> list[str]:
    """Returns the labels of a wide drawing and of a narrow one; those of both once."""
    wide, narrow = of_width(_WIDE_PX), of_width(_NARROW_PX)
    return [
        *(_span(label, "") for label in wide if label in narrow),
        *(_span(label, " if-wide") for label in wide if label not in narrow),
        *(_span(label, " if-narrow") for label in narrow if label not in wide),
    ]


def _version_labels(runs: Sequence[TrendRow], width_px: float) -> list[_Label]:
    found = []
    for version, x, end in _stretches(runs):
        words = plain(version, 18)
        room_px = max((end - x) / WIDTH * width_px, _LEAST_LABEL_PX)
        if words and len(words) * _LETTER_PX <= room_px:
            label = _Label(x, TOP - 12, words, "tick", "from")
            beyond = label.within(width_px).side == "to"
            found.append(replace(label, x=WIDTH, side="to") if beyond else label)
    return _apart(found, width_px)


def _date_labels(runs: Sequence[TrendRow], y: float, width_px: float) -> list[_Label]:
    """Returns the dates of the first run, of the last one and, if there is room, of one between."""
    count = len(runs)
    sides = {0: "from", count - 1: "to"} if count > 1 else {0: "mid"}
    first, *rest = [
        _Label(x_of(i, count), y, day(runs[i].time_ns), "tick", sides.get(i, "mid"))
        for i in sorted({0, count // 2, count - 1})
    ]
    last = rest[-1:]
    between = [
        one for one in rest[:-1] if _apart([first, one, *last], width_px) == [first, one, *last]
    ]
    return [first, *between, *last]


def _step_labels(series: Series, count: int, width_px: float) -> list[_Label]:
    found = []
    for step in series.steps:
        words = f"×{number(step.ratio)}" if math.isfinite(step.ratio) else "from 0"
        label = _Label(_before(step.number, count), TOP + 15, words, _tone(step), "from")
        found.append(label.within(width_px))
    return _apart(found, width_px)


def _tone(step: LevelChange) -> str:
    return "worse" if step.is_worse else "better"


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


def _span(label: _Label, shown: str) -> str:
    at = label.x / WIDTH
    edge = f"right:{1 - at:.2%}" if label.side == "to" else f"left:{at:.2%}"
    return (
        f'<span class="{label.style} {label.side}{shown}" style="{edge};top:{label.y:.1f}px">'
        f"{escape(label.words)}</span>"
    )


def _level(y: float, words: str) -> str:
    """Returns a value of the vertical axis, left of the drawing."""
    return f'<span class="tick axis" style="top:{y:.1f}px">{escape(words)}</span>'


def _over(x: float, verdict: str) -> str:
    """Returns the mark of a value that is cut off, at the upper edge."""
    return (
        f'<span class="over mid {_class(verdict)}" style="left:{x / WIDTH:.2%};top:{TOP + 3}px">▴'
        "</span>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"/>'
