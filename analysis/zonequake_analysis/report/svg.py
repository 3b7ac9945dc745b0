"""Drawings as SVG text: time panels with faults behind them, stages of rebalances, witnesses.

Everything over time is reduced to one column per pixel by minimum and maximum, never by mean: a
mean hides an outage. Colours are CSS classes, so that light and dark come from the page.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from zonequake_analysis.checks.search.witness import WitnessOperation
from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.inputs.shapes import NEVER_NS, Function
from zonequake_analysis.measures.rebalances import FaultLanding, Rebalance
from zonequake_analysis.measures.timeline import Timeline, all_of
from zonequake_analysis.untrusted_text import visible

WIDTH = 1160
LEFT, RIGHT = 84, 12
MOST_ROWS = 48
"""Most rows of a heat map; with more partitions, those with the most failures are shown."""

_CUT_RATE = 3
"""Rates beyond this many medians are cut off: loading the keys would flatten all else."""

_STEPS_S = (0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800)
"""Distances of the time axis's labels; the first that leaves at most 14 labels is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The time axis: converts time to pixels."""

    start_ns: int
    end_ns: int

    def x(self, at_ns: float) -> float:
        """Returns the place of a moment, within the drawing."""
        span = max(1, self.end_ns - self.start_ns)
        part = min(1.0, max(0.0, (at_ns - self.start_ns) / span))
        return LEFT + part * (WIDTH - LEFT - RIGHT)

    def seconds(self, at_ns: float) -> float:
        """Returns seconds since the run began."""
        return (at_ns - self.start_ns) / 1e9


def _escaped(text: str) -> str:
    return html.escape(visible(text))


def _svg(name: str, title: str, description: str, height: float, body: Iterable[str]) -> str:
    return (
        f'<svg class="{name}" role="img" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'preserveAspectRatio="xMidYMid meet"><title>{_escaped(title)}</title>'
        f"<desc>{_escaped(description)}</desc>{''.join(body)}</svg>"
    )


def _text(x: float, y: float, words: str, style: str = "", anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} class="{style}">{_escaped(words)}</text>'


def _rect(
    x: float, y: float, width: float, height: float, style: str, title: str = "", extra: str = ""
) -> str:
    inner = f"<title>{_escaped(title)}</title>" if title else ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.8):.1f}" height="{height:.1f}" '
        f'class="{style}" {extra}>{inner}</rect>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, style: str, title: str = "") -> str:
    inner = f"<title>{_escaped(title)}</title>" if title else ""
    place = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {place} class="{style}">{inner}</line>'


def _ticks(axis: Axis, top: float, bottom: float) -> list[str]:
    """Returns vertical lines at round seconds, with their labels below."""
    span = max(axis.seconds(axis.end_ns), 1e-3)
    step = next(
        (s for s in _STEPS_S if span / s <= 14),
        3600,
    )
    drawn = []
    for i in range(int(span / step) + 1):
        x = axis.x(axis.start_ns + i * step * 1e9)
        drawn.append(_line(x, top, x, bottom, "grid"))
        drawn.append(_text(x, bottom + 14, f"{i * step:g} s", "tick", "middle"))
    return drawn


def _bands(axis: Axis, faults: Sequence[FaultLanding], top: float, bottom: float) -> list[str]:
    """Returns each fault's time as a band behind a panel, with its name above."""
    drawn: list[str] = []
    ends: list[float] = []
    for fault in faults:
        if fault.start_ns is None:
            continue
        end_ns = fault.recovered_ns or fault.stop_ns or fault.effective_ns or fault.start_ns
        x, width = axis.x(fault.start_ns), max(2.0, axis.x(end_ns) - axis.x(fault.start_ns))
        title = f"{fault.name}: {fault.type} on {', '.join(fault.targets)}"
        drawn.append(_rect(x, top, width, bottom - top, "fault", title))
        drawn.append(_line(x, top, x, bottom, "fault-edge"))
        lane = next((i for i, taken in enumerate(ends) if taken < x), len(ends))
        label_end = x + 7 * len(fault.name) + 14
        if lane == len(ends):
            ends.append(label_end)
        else:
            ends[lane] = label_end
        flip = label_end > WIDTH - RIGHT
        drawn.append(
            _text(
                x - 4 if flip else x + 4,
                top - 6 - 13 * min(lane, 2),
                fault.name,
                "fault-name",
                "end" if flip else "start",
            )
        )
    return drawn


def _path(points: Sequence[tuple[float, float]], style: str) -> str:
    """Returns a line through the points, broken where y is not a number."""
    parts, pen = [], "M"
    for x, y in points:
        if math.isnan(y):
            pen = "M"
            continue
        parts.append(f"{pen}{x:.1f} {y:.1f}")
        pen = "L"
    return f'<path d="{"".join(parts)}" class="{style}"/>' if parts else ""


def time_panels(
    drawn: Timeline, faults: Sequence[FaultLanding], events: Sequence[RecordedEvent]
) -> str:
    """Returns latency, throughput and availability per partition on one time axis."""
    axis = Axis(start_ns=drawn.start_ns, end_ns=drawn.end_ns)
    body: list[str] = []
    rows = _heat_rows(drawn)
    row_height = 14 if len(rows) <= 24 else 9
    top_latency, latency_height, rate_height = 56, 190, 84
    top_rate = top_latency + latency_height + 34
    top_leaders = top_rate + rate_height + 30
    top_heat = top_leaders + 36
    bottom = top_heat + row_height * len(rows)
    body += _ticks(axis, top_latency, bottom)
    body += _bands(axis, faults, top_latency, bottom)
    body += _latency_panel(axis, drawn, top_latency, latency_height)
    body += _rate_panel(axis, drawn, top_rate, rate_height)
    body.append(_text(LEFT, top_leaders - 6, "leader changes", "panel"))
    for event in events:
        if event.kind == "leader.change":
            x = axis.x(event.time)
            title = (
                f"{axis.seconds(event.time):.2f} s: partition {event.partition} → "
                f"{event.text('leader') or 'none'}, term {event.text('term')}"
            )
            body.append(_line(x, top_leaders, x, top_leaders + 12, "leader", title))
    body.append(_text(LEFT, top_heat - 5, "availability per partition", "panel"))
    body += _heat(axis, drawn, rows, top_heat, row_height)
    body.append(f'<line class="cross" x1="0" x2="0" y1="{top_latency}" y2="{bottom}"/>')
    return _svg(
        "timeline",
        "The run over time",
        "Latency, throughput and availability per partition, with the faults shaded behind",
        bottom + 24,
        body,
    )


def _latency_panel(axis: Axis, drawn: Timeline, top: float, height: float) -> list[str]:
    if not drawn.latencies:
        return [_text(LEFT + 8, top + 20, "no operations of the load", "tick")]
    body: list[str] = []
    load = all_of(drawn.latencies.values())
    highest = max(float(load.max_ns.max()), 1e6)
    low, high = 5.0, math.ceil(math.log10(highest) * 2) / 2
    median = load.percentiles_ns(0.5)
    seen = median[~np.isnan(median)]
    if len(seen):
        low = min(low, math.floor(math.log10(seen.min()) * 2) / 2)

    def y(ns: float) -> float:
        if math.isnan(ns) or ns <= 0:
            return float("nan")
        return top + height - (math.log10(ns) - low) / (high - low) * height

    for power in range(math.ceil(low), math.floor(high) + 1):
        ns = 10.0**power
        body.append(_line(LEFT, y(ns), WIDTH - RIGHT, y(ns), "grid"))
        body.append(_text(LEFT - 6, y(ns) + 4, duration(ns), "tick", "end"))
    xs = [axis.x(drawn.start_ns + (i + 0.5) * drawn.slice_ns) for i in range(drawn.slices)]
    maxima = [float(ns) if ns else float("nan") for ns in load.max_ns]
    for x, ns, low_ns in zip(xs, maxima, median, strict=True):
        if not math.isnan(ns):
            body.append(_line(x, y(ns), x, y(low_ns), "spread"))
    body.append(_path(list(zip(xs, map(y, maxima), strict=True)), "max"))
    body.append(
        _path([(x, y(n)) for x, n in zip(xs, load.percentiles_ns(0.99), strict=True)], "p99")
    )
    body.append(_path([(x, y(n)) for x, n in zip(xs, median, strict=True)], "p50"))
    body.append(_text(LEFT, 14, "latency of the load, from the scheduled start", "panel"))
    return body


def _rate_panel(axis: Axis, drawn: Timeline, top: float, height: float) -> list[str]:
    if not drawn.latencies:
        return [_text(LEFT, top - 6, "operations per second", "panel")]
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
    body = [_text(LEFT, top - 6, words, "panel")]
    base = top + height
    width = axis.x(drawn.start_ns + drawn.slice_ns) - axis.x(drawn.start_ns)
    points = []
    for i in range(drawn.slices):
        x = axis.x(drawn.start_ns + i * drawn.slice_ns)
        points.append((x, base - good[i] / highest * height))
        if bad[i]:
            tall = max(2.0, bad[i] / highest * height)
            title = (
                f"{axis.seconds(drawn.start_ns + i * drawn.slice_ns):.1f} s: {load.bad[i]} not ok"
            )
            body.append(_rect(x, base - tall, width, tall, "bad", title))
    area = "".join(f"L{x:.1f} {y:.1f}" for x, y in points)
    body.insert(
        0, f'<path class="rate" d="M{LEFT} {base:.1f}{area}L{points[-1][0]:.1f} {base:.1f}Z"/>'
    )
    body.append(_text(LEFT - 6, top + 8, f"{highest:,.0f}", "tick", "end"))
    body.append(_text(LEFT - 6, base, "0", "tick", "end"))
    return body


def _heat_rows(drawn: Timeline) -> list[int]:
    """Returns the indexes of the partitions to draw, in order."""
    order = list(range(len(drawn.partitions)))
    if len(order) <= MOST_ROWS:
        return order
    order.sort(key=lambda i: -int(drawn.partitions[i].bad.sum()))
    return sorted(order[:MOST_ROWS])


def _heat(axis: Axis, drawn: Timeline, rows: Sequence[int], top: float, height: float) -> list[str]:
    """Returns a row per partition: bars where operations failed, darker for more; gaps are no
    data.
    """
    body = []
    for number, index in enumerate(rows):
        row = drawn.partitions[index]
        y = top + number * height
        body.append(_text(LEFT - 6, y + height - 3, f"{row.zone}/{row.partition}", "tick", "end"))
        busy = (row.good + row.bad) > 0
        for first, last in _runs(busy):
            x = axis.x(drawn.start_ns + first * drawn.slice_ns)
            end = axis.x(drawn.start_ns + last * drawn.slice_ns)
            body.append(_rect(x, y + 1, end - x, height - 2, "served"))
        for i in np.flatnonzero(row.bad):
            x = axis.x(drawn.start_ns + int(i) * drawn.slice_ns)
            width = axis.x(drawn.start_ns + (int(i) + 1) * drawn.slice_ns) - x
            share = row.bad[i] / (row.bad[i] + row.good[i])
            title = (
                f"partition {row.partition}, {int(i) * drawn.slice_ns / 1e9:.1f} s: "
                f"{row.bad[i]} failed, {row.good[i]} served"
            )
            level = "most" if share > 0.66 else "some" if share > 0.33 else "few"
            body.append(_rect(x, y + 1, width, height - 2, f"bad {level}", title))
    return body


def _runs(busy: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[tuple[int, int]]:
    """Returns [first, last) of each stretch of busy slices; a single empty slice is no gap."""
    filled = busy.copy()
    filled[1:-1] |= busy[:-2] & busy[2:]
    edges = np.flatnonzero(np.diff(np.concatenate([[0], filled.astype(np.int8), [0]])))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def rebalance_chart(found: Sequence[Rebalance], faults: Sequence[FaultLanding], axis: Axis) -> str:
    """Returns a bar per rebalance, coloured by stage."""
    shown = found[:60]
    if not shown:
        return ""
    top, height = 44, 16
    bottom = top + height * len(shown)
    body = [*_ticks(axis, top, bottom), *_bands(axis, faults, top, bottom)]
    for number, rebalance in enumerate(shown):
        y = top + number * height
        label = f"p{rebalance.partition} · {rebalance.token}"
        body.append(_text(LEFT - 6, y + 12, label, "tick", "end"))
        stages = sorted(rebalance.stage_ns.items(), key=lambda item: item[1])
        for i, (stage, at_ns) in enumerate(stages):
            last = rebalance.ended_ns or axis.end_ns
            until = stages[i + 1][1] if i + 1 < len(stages) else max(last, at_ns)
            title = f"{stage} for {duration(until - at_ns)}"
            x = axis.x(at_ns)
            body.append(
                _rect(
                    x,
                    y + 3,
                    max(2.5, axis.x(until) - x),
                    height - 6,
                    f"stage {stage.lower()}",
                    title,
                )
            )
    return _svg("stages", "Rebalances", "Stages of each rebalance over time", bottom + 24, body)


def witness_chart(operations: Sequence[WitnessOperation], names: dict[int, str]) -> str:
    """Returns operations as bars in a row per process; moments in order, not to scale."""
    moments = sorted(
        {t for o in operations for t in (o.step.inv_ns, o.step.fin_ns) if t != NEVER_NS}
    )
    if not moments:
        return ""
    place = {moment: i for i, moment in enumerate(moments)}
    processes = list(dict.fromkeys(o.process for o in operations))
    step = (WIDTH - LEFT - 60) / max(1, len(moments))
    height, top = 34, 8
    body = []
    for number, process in enumerate(processes):
        y = top + number * height
        body.append(_text(LEFT - 8, y + 20, f"p {str(process)[-9:]}", "tick", "end"))
        body.append(_line(LEFT, y + 16, WIDTH - RIGHT, y + 16, "grid"))
        for o in operations:
            if o.process != process:
                continue
            x = LEFT + place[o.step.inv_ns] * step
            never = o.step.fin_ns == NEVER_NS
            end = WIDTH - RIGHT if never else LEFT + place[o.step.fin_ns] * step
            style = "read" if o.step.f is Function.READ or o.step.refused else "write"
            style += " never" if never else ""
            body.append(_rect(x, y + 5, max(26, end - x), 23, f"op {style}", o.op, 'rx="4"'))
            body.append(_text(x + 7, y + 21, label(o, names), "op-label"))
    return _svg(
        "witness",
        "Witness",
        "Operations of the witness in order of time",
        top + height * len(processes) + 4,
        body,
    )


def label(o: WitnessOperation, names: dict[int, str]) -> str:
    """Returns an operation in a few signs: `write b`, `read → a`, `cas a → b`, `append c`."""

    def name(value: object) -> str:
        if value is None:
            return "∅"
        if isinstance(value, tuple):
            return "[" + " ".join(names.get(v, str(v)) for v in value) + "]"
        return names.get(value, str(value)) if isinstance(value, int) else str(value)

    s = o.step
    match s.f:
        case Function.READ:
            return f"read → {name(s.value)}"
        case Function.CAS if s.refused:
            return f"cas {name(s.expected)}? found {name(s.found)}"
        case Function.CAS:
            text = f"cas {name(s.expected)} → {name(s.value)}"
        case _:
            text = f"{s.f.name.lower()} {name(s.value)}"
    return text + {"ok": "", "fail": " (failed)", "info": " (no answer)"}[o.outcome]


def duration(ns: float) -> str:
    """Returns nanoseconds in the unit that reads best."""
    if math.isnan(ns):
        return "–"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            value = ns / size
            return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return f"{ns:.0f} ns"
