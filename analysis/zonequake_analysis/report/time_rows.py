"""The rows of the time axis as HTML: each has a label, and a plot that is as wide as its column.

    label │ plot: <svg class="plot" viewBox="0 0 SECONDS HEIGHT"> stretched to the column
    p99   │ ~~~~~~~~~~~~~~~~~~~

A plot's horizontal unit is the second since the run began, so that the page's script shows another
part of the time by another viewBox, at any width. Text stands in HTML beside it and keeps its size:
`data-at` and `data-until` are the seconds that it belongs to.

Everything over time is reduced to slices by minimum and maximum, never by mean: a mean hides an
outage. Colours are CSS classes, so that light and dark come from the page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.measures.rebalances import FaultLanding, Rebalance
from zonequake_analysis.measures.timeline import PartitionRow, Timeline, all_of
from zonequake_analysis.report.shortened import brief
from zonequake_analysis.report.svg import duration, escaped
from zonequake_analysis.text.first_few import first_few

LATENCY_HEIGHT, RATE_HEIGHT = 170, 70
MOST_REBALANCES = 60
MOST_FAULTS = 200
MOST_LEADER_LINES = 1000
"""Most changes of leaders with a line of their own: with more, neighbours share one."""

MOST_STRIP_CELLS = 60_000
"""Most cells of all partitions together: with more, neighbouring slices become one, by maximum."""

_CUT_RATE = 3
"""Rates beyond this many medians are cut off: loading the keys would flatten all else."""

_NAME_SHARE = 0.14
"""Share of the time that a fault's name needs beside its bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The time axis: converts the run's clock to seconds on it."""

    start_ns: int
    end_ns: int

    def seconds(self, at_ns: float) -> float:
        """Returns seconds since the run began."""
        return (at_ns - self.start_ns) / 1e9

    def within(self, at_ns: float) -> float:
        """Returns the same, not before the beginning and not after the end."""
        return min(self.length_s, max(0.0, self.seconds(at_ns)))

    def link(self, start_ns: float, end_ns: float) -> str:
        """Returns the address, within the page, of the view of a stretch and as much around it."""
        start_s, end_s = self.within(start_ns), self.within(end_ns)
        around_s = max(1.0, end_s - start_s)
        until_s = min(self.length_s, end_s + around_s)
        return f"#from={max(0.0, start_s - around_s):.3f}&to={until_s:.3f}"

    @property
    def length_s(self) -> float:
        """The whole time in seconds, never 0."""
        return max(1e-3, (self.end_ns - self.start_ns) / 1e9)


def row(label: str, plot: str, style: str = "", extra: str = "") -> str:
    """Returns a row; `label` and `plot` are markup, `extra` further attributes."""
    return (
        f'<div class="row {style}" {extra}><div class="label">{label}</div>'
        f'<div class="area">{plot}</div></div>'
    )


def plot(axis: Axis, height: float, body: Iterable[str]) -> str:
    """Returns a drawing whose horizontal unit is the second."""
    return (
        f'<svg class="plot" viewBox="0 0 {axis.length_s:.6g} {height:g}" data-height="{height:g}" '
        f'style="height:{height:g}px" preserveAspectRatio="none">{"".join(body)}</svg>'
    )


def _n(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _rect(x: float, y: float, width: float, height: float, style: str, title: str = "") -> str:
    inner = f"<title>{escaped(title)}</title>" if title else ""
    return (
        f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(max(width, 0.001))}" height="{_n(height)}" '
        f'class="{style}">{inner}</rect>'
    )


def _text(axis: Axis, at_ns: float, until_ns: float, words: str, style: str = "") -> str:
    """Returns words that belong to a stretch of time."""
    at_s, until_s = axis.within(at_ns), axis.within(until_ns)
    return (
        f'<span class="words {style}" data-at="{_n(at_s)}" data-until="{_n(until_s)}" '
        f'style="left:{at_s / axis.length_s:.3%}">{escaped(words)}</span>'
    )


def _level(y: float, words: str) -> str:
    """Returns a label of a vertical axis, `y` pixels below the plot's upper edge."""
    return f'<span class="level" style="top:{y:.1f}px">{escaped(words)}</span>'


def _note(words: str) -> str:
    """Returns what a plot shows, in its upper corner."""
    return f'<span class="note"><b>{escaped(words)}</b></span>'


def phases(events: Sequence[RecordedEvent], end_ns: int) -> list[tuple[str, int, int]]:
    """Returns the phases of the run with begin and end, as the runner recorded them."""
    begun = [(e.text("phase"), e.time) for e in events if e.kind == "run.phase"]
    ends = [at_ns for _, at_ns in begun[1:]] + [end_ns] * bool(begun)
    return [(name, at, max(at, end)) for (name, at), end in zip(begun, ends, strict=True)]


def phase_row(axis: Axis, events: Sequence[RecordedEvent]) -> str:
    """Returns the phases of the run side by side; empty if none was recorded."""
    body, words = [], []
    for number, (name, at_ns, until_ns) in enumerate(phases(events, axis.end_ns)):
        if until_ns <= axis.start_ns or at_ns >= axis.end_ns:
            continue
        x, end = axis.within(at_ns), axis.within(until_ns)
        body.append(_rect(x, 0, end - x, 18, f"phase p{number % 2}", name))
        words.append(_text(axis, at_ns, until_ns, name))
    return row("phase", plot(axis, 18, body) + "".join(words), "phases") if words else ""


def fault_rows(axis: Axis, faults: Sequence[FaultLanding]) -> str:
    """Returns the faults as bars, from their start until they had recovered, in few rows; those
    that did not, to the end of the run.
    """
    lanes: list[_Lane] = []
    for fault in faults[:MOST_FAULTS]:
        if fault.start_ns is None:
            continue
        end_ns = fault.over_by(axis.end_ns)
        x, end = axis.within(fault.start_ns), axis.within(end_ns)
        times = f" ×{fault.times}" if fault.times > 1 else ""
        title = (
            f"{fault.name}{times}: {fault.type} on {first_few(fault.targets, 8, separator=', ')}, "
            f"{axis.seconds(fault.start_ns):.2f} to {axis.seconds(end_ns):.2f} s"
        )
        lane = next((one for one in lanes if one.taken_until <= x), None)
        if lane is None:
            lanes.append(lane := _Lane())
        lane.taken_until = max(end, x + _NAME_SHARE * axis.length_s)
        lane.bars.append(_rect(x, 2, end - x, 12, "fault-bar", title))
        lane.names.append(_text(axis, fault.start_ns, end_ns, fault.name + times, "beside"))
    return "".join(
        row("" if number else "faults", plot(axis, 16, lane.bars) + "".join(lane.names), "faults")
        for number, lane in enumerate(lanes)
    )


@dataclass(slots=True)
class _Lane:
    """A row of faults that don't cover each other's names."""

    taken_until: float = 0.0
    bars: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


def behind(axis: Axis, faults: Sequence[FaultLanding], events: Sequence[RecordedEvent]) -> str:
    """Returns what stands behind all rows: the time of each fault, and where phases begin."""
    body = [
        _rect(
            axis.within(fault.start_ns),
            0,
            axis.within(fault.over_by(axis.end_ns)) - axis.within(fault.start_ns),
            1,
            "fault",
        )
        for fault in faults[:MOST_FAULTS]
        if fault.start_ns is not None
    ]
    for _, at_ns, _ in phases(events, axis.end_ns):
        if axis.start_ns < at_ns < axis.end_ns:
            x = _n(axis.seconds(at_ns))
            body.append(f'<path class="phase-edge" d="M{x} 0V1"/>')
    return (
        f'<svg class="plot" viewBox="0 0 {axis.length_s:.6g} 1" data-height="1" '
        f'preserveAspectRatio="none">{"".join(body)}</svg>'
    )


def latency_row(axis: Axis, drawn: Timeline) -> str:
    """Returns p50, p99 and maximum of the load's latency, on a logarithmic axis."""
    if not drawn.latencies:
        return row("", '<span class="soft">no operations of the load</span>')
    load = all_of(drawn.latencies.values())
    height = LATENCY_HEIGHT
    highest = max(float(load.max_ns.max()), 1e6)
    low, high = 5.0, math.ceil(math.log10(highest) * 2) / 2
    median = load.percentiles_ns(0.5)
    seen = median[~np.isnan(median)]
    if len(seen):
        low = min(low, math.floor(math.log10(seen.min()) * 2) / 2)

    def y(ns: float) -> float:
        if math.isnan(ns) or ns <= 0:
            return float("nan")
        return height - (math.log10(ns) - low) / (high - low) * height

    body, label = list[str](), ""
    for power in range(math.ceil(low), math.floor(high) + 1):
        ns = 10.0**power
        body.append(f'<path class="grid" d="M0 {y(ns):.1f}H{axis.length_s:.6g}"/>')
        if 6 < y(ns) < height - 6:
            label += _level(y(ns), duration(ns))
    step = drawn.slice_ns / 1e9
    maxima = [float(ns) if ns else float("nan") for ns in load.max_ns]
    spread = [
        f"M{_n(i * step)} {y(most):.1f}h{_n(step)}V{y(least):.1f}h-{_n(step)}z"
        for i, (most, least) in enumerate(zip(maxima, median, strict=True))
        if not math.isnan(most) and not math.isnan(least)
    ]
    body.append(f'<path class="spread" d="{"".join(spread)}"/>')
    middles = [(i + 0.5) * step for i in range(drawn.slices)]
    for values, style in ((load.percentiles_ns(0.99), "p99"), (median, "p50")):
        points = zip(middles, map(y, map(float, values)), strict=True)
        body.append(_path(list(points), style))
    words = "latency of the load, from the scheduled start"
    return row(label, plot(axis, height, body) + _note(words), "tall")


def _path(points: Sequence[tuple[float, float]], style: str) -> str:
    """Returns a line through the points, broken where y is not a number."""
    parts, pen = [], "M"
    for x, y in points:
        if math.isnan(y):
            pen = "M"
            continue
        parts.append(f"{pen}{_n(x)} {y:.1f}")
        pen = "L"
    return f'<path d="{"".join(parts)}" class="{style}"/>' if parts else ""


def rate_row(axis: Axis, drawn: Timeline) -> str:
    """Returns operations per second, and over them those that were not ok."""
    if not drawn.latencies:
        return ""
    load = all_of(drawn.latencies.values())
    per_second = 1e9 / drawn.slice_ns
    good, bad = load.ok * per_second, load.bad * per_second
    rate = good + bad
    highest = max(float(rate.max()), 1.0)
    usual = float(np.median(rate[rate > 0])) if rate.any() else highest
    words = "operations per second"
    if highest > _CUT_RATE * usual:
        words += f" (cut off: {highest:,.0f} at most, while keys were loaded or read at full speed)"
        highest = _CUT_RATE * usual
        good, bad = np.minimum(good, highest), np.minimum(bad, highest)
    step, base = drawn.slice_ns / 1e9, RATE_HEIGHT
    area = "".join(
        f"V{base - good[i] / highest * base:.1f}h{_n(step)}" for i in range(drawn.slices)
    )
    failed = "".join(
        f"M{_n(i * step)} {base}v-{max(2.0, bad[i] / highest * base):.1f}h{_n(step)}V{base}z"
        for i in np.flatnonzero(bad).tolist()
    )
    body = [
        f'<path class="rate" d="M0 {base}{area}V{base}z"/>',
        f'<path class="bad" d="{failed}"/>',
    ]
    label = _level(7, f"{highest:,.0f}") + _level(base - 6, "0")
    return row(label, plot(axis, base, body) + _note(words), "tall")


def leader_row(axis: Axis, events: Sequence[RecordedEvent]) -> str:
    """Returns a line for each change of a leader, or for several that are close together where
    there are many; empty if there was none.
    """
    changes = [event for event in events if event.kind == "leader.change"]
    together: dict[int, list[RecordedEvent]] = {}
    for number, event in enumerate(changes):
        share = axis.within(event.time) / axis.length_s
        place = number if len(changes) <= MOST_LEADER_LINES else int(share * MOST_LEADER_LINES)
        together.setdefault(place, []).append(event)
    lines = []
    for some in together.values():
        first, last = some[0], some[-1]
        title = (
            f"{axis.seconds(first.time):.2f} s: partition {first.partition} → "
            f"{brief(first.text('leader')) or 'none'}, term {brief(first.text('term'))}"
        )
        if len(some) > 1:
            title += f"; {len(some) - 1:,} more changes until {axis.seconds(last.time):.2f} s"
        x = _n(axis.within(first.time))
        lines.append(f'<path class="leader" d="M{x} 2V14"><title>{escaped(title)}</title></path>')
    return row("leaders", plot(axis, 16, lines), "leaders") if lines else ""


def strip(axis: Axis, drawn: Timeline, answers: PartitionRow, *, rows: int) -> str:
    """Draws when a partition was served: darker where more failed; gaps are no data.

    `rows`: the partitions that are drawn.
    """
    together = max(1, -(-drawn.slices * rows // MOST_STRIP_CELLS))
    good, bad = _by_maximum(answers, together)
    step = drawn.slice_ns * together / 1e9
    busy = (good + bad) > 0
    body = [_bars(_runs(_filled(busy)), step, "served")]
    share = np.divide(bad, good + bad, out=np.zeros(len(bad)), where=busy)
    levels = (("few", 0.0, 0.33), ("some", 0.33, 0.66), ("most", 0.66, 1.1))
    for name, above, most in levels:
        body.append(_bars(_runs((share > above) & (share <= most)), step, f"bad {name}"))
    return plot(axis, 6, body)


def _by_maximum(
    answers: PartitionRow, together: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the slice with the largest share of failures among each `together` slices."""
    missing = -len(answers.bad) % together
    good = np.pad(answers.good, (0, missing)).reshape(-1, together)
    bad = np.pad(answers.bad, (0, missing)).reshape(-1, together)
    worst = np.argmax(bad / np.maximum(1, good + bad) + 1e-9 * (good > 0), axis=1)[:, None]
    return np.take_along_axis(good, worst, 1)[:, 0], np.take_along_axis(bad, worst, 1)[:, 0]


def _filled(busy: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Fills each single empty slice, which is no gap."""
    filled = busy.copy()
    filled[1:-1] |= busy[:-2] & busy[2:]
    return filled


def _runs(marked: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Returns [first, last) of each stretch of marked slices."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], marked.astype(np.int8), [0]])))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _bars(runs: Sequence[tuple[int, int]], step: float, style: str) -> str:
    parts = [f"M{_n(a * step)} 0H{_n(b * step)}V6H{_n(a * step)}z" for a, b in runs]
    return f'<path class="{style}" d="{"".join(parts)}"/>' if parts else ""


def rebalance_rows(axis: Axis, found: Sequence[Rebalance]) -> str:
    """Returns a row per rebalance, its stages in colours."""
    rows = []
    for rebalance in found[:MOST_REBALANCES]:
        body = []
        stages = sorted(rebalance.stage_ns.items(), key=lambda item: item[1])
        for i, (stage, at_ns) in enumerate(stages):
            last = rebalance.ended_ns or axis.end_ns
            until = stages[i + 1][1] if i + 1 < len(stages) else max(last, at_ns)
            title = f"{stage} for {duration(until - at_ns)}"
            x = axis.within(at_ns)
            style = f"stage {escaped(stage.lower())}"
            body.append(_rect(x, 2, axis.within(until) - x, 11, style, title))
        label = f"p{rebalance.partition} · {rebalance.token}"
        rows.append(row(escaped(label), plot(axis, 15, body), "rebalance"))
    if left_out := len(found) - len(rows):
        rows.append(row("", f'<span class="soft">{left_out:,} more are not drawn</span>'))
    return "".join(rows)
