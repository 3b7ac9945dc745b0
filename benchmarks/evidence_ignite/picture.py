"""Draws a scenario's runs on several systems below each other, on one axis of time. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log10
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT = 980, 92, 16
TITLE, LATENCY, ROW, GAP, FOOT = 30, 130, 9, 26, 46
LEAST_MS, MOST_MS = 1.0, 100_000.0
BEFORE_S, AFTER_S = 10.0, 15.0
"""How much is shown before the first fault, and after all are over."""

P50, P99, CERTAIN, POSSIBLE, FAULT, GRID = (
    *("#3949ab", "#e65100", "#b71c1c", "#ef9a9a"),
    *("#757575", "#e0e0e0"),
)


@dataclass(frozen=True, kw_only=True)
class Window:
    """A time in which a partition answered no probe, in seconds from the first fault on."""

    partition: int
    function: str
    start_s: float
    end_s: float
    is_certain: bool


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Latencies of the operations that were due in one second and answered, in ms."""

    second: int
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What one run saw; `faults`: when each began."""

    faults: Sequence[float]
    windows: Sequence[Window]
    latencies: Sequence[Latency]


def picture(scenario: str, runs: Mapping[str, Seen]) -> str:
    """Draws the runs, by the systems' names, as SVG."""
    ends = [end for run in runs.values() for end in (*run.faults, *(w.end_s for w in run.windows))]
    scale = Scale(first_s=-BEFORE_S, last_s=max(ends, default=0.0) + AFTER_S)
    lanes = sorted({(w.partition, w.function) for run in runs.values() for w in run.windows})
    drawn: list[str] = []
    y = 0
    for system, run in runs.items():
        drawn += _panel(f"{system}: {scenario}", run, lanes, scale, y)
        y += TITLE + LATENCY + GAP + ROW * len(lanes)
    drawn += _time_axis(scale, y)
    height = y + FOOT
    style = 'font-family="sans-serif" font-size="12"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {style}>\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>\n' + "\n".join(drawn) + "\n</svg>\n"
    )


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The axes: seconds from left to right, the logarithm of latencies from bottom to top."""

    first_s: float
    last_s: float

    def x(self, second: float) -> float:
        inside = min(max(second, self.first_s), self.last_s)
        share = (inside - self.first_s) / (self.last_s - self.first_s)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    @staticmethod
    def y(ms: float) -> float:
        inside = min(max(ms, LEAST_MS), MOST_MS)
        return LATENCY * (1 - log10(inside / LEAST_MS) / log10(MOST_MS / LEAST_MS))


def _panel(
    title: str, run: Seen, lanes: Sequence[tuple[int, str]], scale: Scale, top: int
) -> Iterator[str]:
    """Yields one system's faults, latencies, and its windows in a lane for each partition."""
    yield _text(LEFT, top + 19, title, weight="bold")
    top += TITLE
    bottom = top + LATENCY + GAP / 2 + ROW * len(lanes)
    for power in range(6):
        y = top + scale.y(10**power)
        yield _line(LEFT, y, WIDTH - RIGHT, y, GRID)
        yield _text(LEFT - 6, y + 4, _duration(10**power), anchor="end")
    for second in run.faults:
        x = scale.x(second)
        yield _line(x, top, x, bottom, FAULT, dash="3 3")
    for color, points in (
        (P50, [(each.second, each.p50_ms) for each in run.latencies]),
        (P99, [(each.second, each.p99_ms) for each in run.latencies]),
    ):
        shown = [each for each in points if scale.first_s <= each[0] <= scale.last_s]
        for part in _unbroken(shown):
            corners = " ".join(
                f"{scale.x(second + 0.5):.1f},{top + scale.y(ms):.1f}" for second, ms in part
            )
            yield (
                f'<polyline points="{corners}" fill="none" stroke="{color}" stroke-width="1.5" '
                'stroke-linecap="square"/>'
            )
    top += LATENCY + GAP // 2
    for number, (partition, function) in enumerate(lanes):
        y = top + ROW * number
        yield _text(LEFT - 6, y + ROW - 1, f"{partition} {function}", anchor="end", size=9)
        for w in run.windows:
            if (w.partition, w.function) == (partition, function) and w.end_s > scale.first_s:
                begin, end = scale.x(w.start_s), scale.x(w.end_s)
                color = CERTAIN if w.is_certain else POSSIBLE
                yield (
                    f'<rect x="{begin:.1f}" y="{y}" width="{max(end - begin, 1):.1f}" '
                    f'height="{ROW - 2}" fill="{color}"/>'
                )


def _unbroken(points: Sequence[tuple[int, float]]) -> list[list[tuple[int, float]]]:
    """Returns the points in parts, none of which goes over a second without an answer."""
    parts = [[each] for each in points[:1]]
    for before, each in pairwise(points):
        if each[0] == before[0] + 1:
            parts[-1].append(each)
        else:
            parts.append([each])
    # A line of one point would not be seen.
    return [part if len(part) > 1 else part * 2 for part in parts]


def _time_axis(scale: Scale, top: int) -> Iterator[str]:
    step = next(s for s in (5, 10, 20, 50, 100, 10**9) if (scale.last_s - scale.first_s) / s <= 12)
    for second in range(-int(BEFORE_S), int(scale.last_s) + 1):
        if second % step == 0:
            yield _text(scale.x(second), top + 8, f"{second} s", anchor="middle")
    x: float = LEFT
    for color, words in (
        (P50, "latency, median of a second"),
        (P99, "99th percentile"),
        (CERTAIN, "certainly unavailable"),
        (POSSIBLE, "possibly"),
        (FAULT, "a fault begins"),
    ):
        yield f'<rect x="{x}" y="{top + 24}" width="12" height="8" fill="{color}"/>'
        yield _text(x + 17, top + 32, words)
        x += 44 + 6.4 * len(words)


def _duration(ms: float) -> str:
    return f"{ms:g} ms" if ms < 1000 else f"{ms / 1e3:g} s"


def _line(x1: float, y1: float, x2: float, y2: float, color: str, *, dash: str = "") -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    place = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {place} stroke="{color}"{dashed}/>'


def _text(
    x: float, y: float, words: str, *, anchor: str = "start", weight: str = "normal", size: int = 12
) -> str:
    look = f'text-anchor="{anchor}" font-weight="{weight}" font-size="{size}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{escape(words)}</text>'
