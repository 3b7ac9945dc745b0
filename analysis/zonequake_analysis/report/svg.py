"""Drawings as SVG text: witnesses, metrics; and numbers and operations as people read them.

Colours are CSS classes, so that light and dark come from the page.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from zonequake_analysis.checks.search.witness import WitnessOperation
from zonequake_analysis.inputs.shapes import NEVER_NS, Function
from zonequake_analysis.metrics.spans import Stretch
from zonequake_analysis.metrics.tasks.curve import Curve
from zonequake_analysis.report.shortened import MOST_ELEMENTS, brief, ends_of
from zonequake_analysis.text.untrusted_text import visible

WIDTH = 1160
LEFT, RIGHT = 84, 12

_CURVE_WIDTH, _CURVE_TOP, _CURVE_BASE, _CURVE_HEIGHT = 340, 16, 72, 102


def escaped(text: str) -> str:
    """Returns text for markup, with every character shown."""
    return html.escape(visible(text))


def _svg(
    name: str,
    title: str,
    description: str,
    height: float,
    body: Iterable[str],
    width: float = WIDTH,
) -> str:
    return (
        f'<svg class="{name}" role="img" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'preserveAspectRatio="xMidYMid meet"><title>{escaped(title)}</title>'
        f"<desc>{escaped(description)}</desc>{''.join(body)}</svg>"
    )


def _text(x: float, y: float, words: str, style: str = "", anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} class="{style}">{escaped(words)}</text>'


def _rect(
    x: float, y: float, width: float, height: float, style: str, title: str = "", extra: str = ""
) -> str:
    inner = f"<title>{escaped(title)}</title>" if title else ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.8):.1f}" height="{height:.1f}" '
        f'class="{style}" {extra}>{inner}</rect>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, style: str, title: str = "") -> str:
    inner = f"<title>{escaped(title)}</title>" if title else ""
    place = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {place} class="{style}">{inner}</line>'


def witness_chart(
    operations: Sequence[WitnessOperation], names: Mapping[int, str], about: int | None = None
) -> str:
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
            body.append(_text(x + 7, y + 21, label(o, names, about), "op-label"))
    return _svg(
        "witness",
        "Witness",
        "Operations of the witness in order of time",
        top + height * len(processes) + 4,
        body,
    )


def curve_chart(line: Curve, during: Stretch, start_ms: int, told: Callable[[float], str]) -> str:
    """Returns a metric around a span, which is shaded: least and greatest value, and seconds since
    `start_ms`. The line ends before a gap. `told` gives a value with its unit.
    """
    height = _CURVE_BASE - _CURVE_TOP
    least, greatest = min(line.value, default=0.0), max(line.value, default=0.0)

    def x(at_ms: int) -> float:
        return (at_ms - line.start_ms) / (line.end_ms - line.start_ms) * _CURVE_WIDTH

    def y(value: float) -> float:
        share = (value - least) / (greatest - least) if greatest > least else 0.5
        return _CURVE_BASE - share * height

    def second(at_ms: int) -> str:
        at_s = (at_ms - start_ms) / 1000
        return f"{at_s:.0f} s" if abs(at_s) >= 1000 else f"{at_s:.1f} s"

    path = ""
    alone = [this and after for this, after in pairwise([*line.begins, True])]
    for t_ms, value, begins, is_dot in zip(line.t_ms, line.value, line.begins, alone, strict=True):
        path += f"{'M' if begins else ' '}{x(t_ms):.0f} {y(value):.0f}{'h0' if is_dot else ''}"
    first, last, bottom = x(during.start_ms), x(during.end_ms), _CURVE_HEIGHT - 4
    body = [
        _rect(first, _CURVE_TOP, last - first, height, "fault"),
        *(_line(0, at, _CURVE_WIDTH, at, "grid") for at in (_CURVE_TOP, _CURVE_BASE)),
        f'<path class="curve" d="{path}"/>',
        _text(0, _CURVE_TOP - 5, told(greatest) if path else "no number"),
        _text(0, _CURVE_BASE + 12, told(least) if path else ""),
        _text(0, bottom, second(line.start_ms)),
        _text(first, bottom, second(during.start_ms), "edge", "end"),
        _text(last, bottom, second(during.end_ms), "edge"),
        _text(_CURVE_WIDTH, bottom, second(line.end_ms), "", "end"),
    ]
    return _svg(
        "curve-chart",
        "Over time",
        "From least to greatest value, before, during (shaded) and after",
        _CURVE_HEIGHT,
        body,
        _CURVE_WIDTH,
    )


def label(o: WitnessOperation, names: Mapping[int, str], about: int | None = None) -> str:
    """Returns an operation in a few signs: `write b`, `read → a`, `cas a → b`, `append c`.

    A long list is shown by its ends, and by what stands beside the value `about`.
    """

    def one(value: int) -> str:
        return brief(names.get(value, str(value)))

    def name(value: object) -> str:
        if value is None:
            return "∅"
        if isinstance(value, tuple):
            shown = ["…" if v is None else one(v) for v in ends_of(value, about)]
            size = f" of {len(value):,} elements" if len(value) > MOST_ELEMENTS else ""
            return f"[{' '.join(shown)}]{size}"
        return one(value) if isinstance(value, int) else str(value)

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
