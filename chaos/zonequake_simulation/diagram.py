"""A space-time diagram of a traced run as SVG: time goes down, each node and client has a lane.

    band behind a lane   its term (one colour each); wide and strong: it leads
    dashed lane          the process is down
    arrow                a message, from when it was sent to when it arrived; red cross: lost
    bar on a client      one operation, from invoke to return; of the violating key in colour
    grey row             the network was cut or healed
    red row              the rule that was broken

Quiet time is squeezed: a row is as high as the logarithm of the time since the one before it, so
that no arrow is too steep to see. Moments are labelled with their times.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

from zonequake_simulation.trace import Excerpt, TraceEvent, TraceKind

_HEAD_PX = 102
_TIME_PX = 84
_LANE_PX = 190
_FOOT_PX = 44
_LEAST_PX = 760
"""Least width, so that the legend has room."""
_ROW_PX = 15
_LABEL_CHARS = 30
_ARROW_LETTER_PX = 5.2
"""Approximate width of a letter of an arrow's text."""

_TERM_COLOURS = ("#9ec5e8", "#f5c98b", "#a9d8a0", "#d9b3e0", "#f2a6a0", "#c8c1a0", "#9adbd5")
_INK, _FAINT, _RED, _KEY = "#24292f", "#8b949e", "#cf222e", "#0a58ca"

_LEGEND = (
    "band: the term, one colour each; wide: it leads · dashed: no process · arrow: a message, from "
    "when it left; ✕: lost · bar: an operation; dashed: it never returned"
)

_LANE_KINDS = (TraceKind.ROLE, TraceKind.START, TraceKind.CRASH)
_ROWS_OF_NETWORK = (TraceKind.CUT, TraceKind.HEAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Label:
    """Text beside a lane, as near to its row as there is room."""

    x: float
    y: float
    text: str
    colour: str
    bold: bool = False


@dataclass(slots=True)
class _Canvas:
    """Shapes in the order of their layers."""

    back: list[str] = field(default_factory=list)
    middle: list[str] = field(default_factory=list)
    front: list[str] = field(default_factory=list)
    labels: list[_Label] = field(default_factory=list)


def svg(found: Excerpt, *, title: str, key: str | None = None, violation: str | None = None) -> str:
    """Returns the diagram of an excerpt as an SVG document.

    `key`: operations on it are drawn in colour. `violation`: the rule that was broken, shown at the
    top. Raises ValueError if there are no events.
    """
    if not found.events:
        raise ValueError("there are no events to draw: trace the run (trace=True)")
    columns = [*found.nodes, *found.clients]
    rows = _rows(found.events)
    height = max(rows.values()) + _FOOT_PX
    width = max(_TIME_PX + _LANE_PX * len(columns) + 60, _LEAST_PX)
    at = {name: _TIME_PX + _LANE_PX * number + 40.0 for number, name in enumerate(columns)}
    canvas = _Canvas()
    _draw_times(canvas, rows)
    for name in found.nodes:
        _draw_node(
            canvas,
            _own(found.events, name),
            _own(found.earlier, name),
            rows,
            at[name],
            height - _FOOT_PX,
        )
    _draw_operations(canvas, found, rows, at, key)
    for event in found.events:
        _draw_event(canvas, event, rows, at, width)
    head = _head(found, at, title, violation)
    foot = f'<text x="14" y="{height - 10:.0f}" fill="{_FAINT}">{_LEGEND}</text>'
    shapes = "\n".join([*canvas.back, *canvas.middle, *canvas.front, *_placed(canvas.labels)])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:.0f}" '
        f'viewBox="0 0 {width} {height:.0f}" role="img" aria-label={quoteattr(title)} '
        'font-family="system-ui, sans-serif" font-size="11">\n'
        f"<title>{escape(title)}</title>\n"
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="{_INK}"/></marker></defs>\n'
        f'<rect width="{width}" height="{height:.0f}" fill="white"/>\n{head}\n{shapes}\n{foot}\n'
        "</svg>\n"
    )


def _rows(events: Sequence[TraceEvent]) -> dict[int, float]:
    """Returns millisecond → y. A moment with many events gets room for their labels."""
    crowd: dict[int, dict[str, int]] = {}
    moments = set()
    first = events[0].time_ms
    for event in events:
        moments.add(event.time_ms)
        here = crowd.setdefault(event.time_ms, {})
        here[event.node] = here.get(event.node, 0) + 1
        if event.since_ms is not None and event.since_ms >= first:
            moments.add(event.since_ms)
    rows: dict[int, float] = {}
    y, before = float(_HEAD_PX), None
    for moment in sorted(moments):
        if before is not None:
            room = _ROW_PX * max(crowd.get(before, {"": 1}).values())
            y += max(room, 4 + 9 * math.log2(1 + moment - before))
        rows[moment] = y
        before = moment
    return rows


def _head(found: Excerpt, at: dict[str, float], title: str, violation: str | None) -> str:
    parts = [
        f'<text x="14" y="24" font-size="15" font-weight="600" fill="{_INK}">{escape(title)}</text>'
    ]
    if violation is not None:
        parts.append(f'<text x="14" y="42" font-size="12" fill="{_RED}">{escape(violation)}</text>')
    for name in (*found.nodes, *found.clients):
        what = "client" if name in found.clients else "node"
        parts.append(
            f'<text x="{at[name]:.0f}" y="66" text-anchor="middle" font-size="13" '
            f'font-weight="600" fill="{_INK}">{escape(name)}</text>'
            f'<text x="{at[name]:.0f}" y="80" text-anchor="middle" fill="{_FAINT}">{what}</text>'
        )
    return "\n".join(parts)


def _draw_times(canvas: _Canvas, rows: dict[int, float]) -> None:
    last = -100.0
    for moment, y in rows.items():
        if y - last >= _ROW_PX:
            canvas.front.append(
                f'<text x="{_TIME_PX - 22}" y="{y + 4:.1f}" text-anchor="end" fill="{_FAINT}">'
                f"{moment:,} ms</text>"
            )
            last = y


def _own(events: Sequence[TraceEvent], name: str) -> list[TraceEvent]:
    """Returns the events that determine the look of a node's lane."""
    return [event for event in events if event.node == name and event.kind in _LANE_KINDS]


def _draw_node(
    canvas: _Canvas,
    events: Sequence[TraceEvent],
    earlier: Sequence[TraceEvent],
    rows: dict[int, float],
    x: float,
    bottom: float,
) -> None:
    """Draws the lane with its terms, its leaderships and its times without a process."""
    start, up = float(_HEAD_PX - 12), True
    role: TraceEvent | None = None
    for event in earlier:
        up, role = _after(event, up, role)
    ends: list[TraceEvent | None] = [*events, None]
    for change in ends:
        end = bottom if change is None else rows[change.time_ms]
        style = f'stroke="{_INK}"' if up else f'stroke="{_FAINT}" stroke-dasharray="3 4"'
        canvas.middle.append(
            f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{start:.1f}" y2="{end:.1f}" {style}/>'
        )
        if role is not None:
            half, opacity = (11, 0.9) if role.role == "leader" else (4, 0.55)
            canvas.back.append(
                f'<rect x="{x - half:.0f}" y="{start:.1f}" width="{2 * half}" '
                f'height="{max(end - start, 2):.1f}" '
                f'fill="{_TERM_COLOURS[role.term % len(_TERM_COLOURS)]}" opacity="{opacity}">'
                f"<title>{escape(role.node)}: {role.role}, term {role.term}</title></rect>"
            )
        if change is not None:
            up, role = _after(change, up, role)
            start = end


def _after(event: TraceEvent, up: bool, role: TraceEvent | None) -> tuple[bool, TraceEvent | None]:
    """Returns whether a process runs after an event, and the event that reported its role."""
    match event.kind:
        case TraceKind.ROLE:
            return up, event
        case TraceKind.START:
            return True, None
        case _:
            return False, None


def _draw_operations(
    canvas: _Canvas,
    found: Excerpt,
    rows: dict[int, float],
    at: dict[str, float],
    key: str | None,
) -> None:
    """Draws a bar per operation; one that never returned stays open at its end."""
    open_ = {event.node: event for event in found.pending}
    bottom = max(rows.values())
    top = float(_HEAD_PX - 12)

    def bar(event: TraceEvent, start: float, end: float, *, returned: bool) -> None:
        x = at[event.node]
        strong = key is not None and event.key == key
        colour = _KEY if strong else _FAINT
        dash = "" if returned else ' stroke-dasharray="5 3"'
        canvas.middle.append(
            f'<rect x="{x - 7:.0f}" y="{start:.1f}" width="14" height="{max(end - start, 5):.1f}" '
            f'rx="4" fill="{colour}" fill-opacity="{0.35 if strong else 0.2}" '
            f'stroke="{colour}"{dash}><title>{escape(event.text)}</title></rect>'
        )

    for event in found.pending:
        text = f"{event.text} (from {event.time_ms:,} ms)"
        canvas.labels.append(_Label(x=at[event.node] + 14, y=top + 8, text=text, colour=_KEY))
    for event in found.events:
        if event.kind is TraceKind.INVOKE:
            open_[event.node] = event
        elif event.kind is TraceKind.RETURN:
            begun = open_.pop(event.node, None)
            start = rows.get(begun.time_ms, top) if begun else top
            bar(event, start, rows[event.time_ms], returned=True)
    for begun in open_.values():
        bar(begun, rows.get(begun.time_ms, top), bottom, returned=False)


def _draw_event(
    canvas: _Canvas,
    event: TraceEvent,
    rows: dict[int, float],
    at: dict[str, float],
    width: float,
) -> None:
    y = rows[event.time_ms]
    if event.kind in _ROWS_OF_NETWORK or not event.node:
        red = event.kind is TraceKind.VIOLATION
        _row(canvas, y, width, event.text or event.kind.value, red=red)
        return
    x = at[event.node]
    match event.kind:
        case TraceKind.MESSAGE:
            assert event.peer is not None, "a message has a sender"
            sent = event.time_ms if event.since_ms is None else event.since_ms
            begin = rows.get(sent, float(_HEAD_PX - 12))
            _arrow(canvas, at[event.peer], begin, x, y, event)
            return
        case TraceKind.LOST:
            towards = 46 if event.peer is not None and at[event.peer] > x else -46
            canvas.middle.append(
                f'<line x1="{x:.0f}" y1="{y:.1f}" x2="{x + towards:.0f}" y2="{y + 5:.1f}" '
                f'stroke="{_RED}" stroke-dasharray="4 3"><title>'
                f"{escape(f'{event.node} → {event.peer}: {event.text}, lost')}</title></line>"
                f'<text x="{x + towards:.0f}" y="{y + 9:.1f}" text-anchor="middle" '
                f'fill="{_RED}">✕</text>'
            )
            return
        case TraceKind.CRASH | TraceKind.WIPE:
            canvas.front.append(
                f'<path d="M{x - 7:.0f} {y - 7:.1f}L{x + 7:.0f} {y + 7:.1f}M{x + 7:.0f} '
                f'{y - 7:.1f}L{x - 7:.0f} {y + 7:.1f}" stroke="{_RED}" stroke-width="3"/>'
            )
            colour = _RED
        case TraceKind.VIOLATION:
            _row(canvas, y, width, f"{event.node}: {event.text}", red=True)
            return
        case TraceKind.INVOKE | TraceKind.RETURN:
            colour = _KEY
        case TraceKind.FAULT:
            colour = _RED
        case _:
            canvas.front.append(f'<circle cx="{x:.0f}" cy="{y:.1f}" r="3.5" fill="{_INK}"/>')
            colour = _INK
    canvas.labels.append(
        _Label(
            x=x + 14,
            y=y + 4,
            text=event.text or event.kind.value,
            colour=colour,
            bold=event.kind in (TraceKind.ROLE, TraceKind.CRASH),
        )
    )


def _arrow(canvas: _Canvas, x1: float, y1: float, x2: float, y2: float, event: TraceEvent) -> None:
    told = f"{event.peer} → {event.node}: {event.text}"
    colour = _KEY if event.key is not None else "#57606a"
    canvas.middle.append(
        f'<line x1="{x1:.0f}" y1="{y1:.1f}" x2="{x2:.0f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="1.1" marker-end="url(#head)"><title>{escape(told)}</title></line>'
    )
    # At a fifth of the way, where arrows to different peers are still apart.
    share = 0.18
    x, y = x1 + (x2 - x1) * share, y1 + (y2 - y1) * share
    most = int(math.hypot(x2 - x1, y2 - y1) * (1 - share) / _ARROW_LETTER_PX)
    slope = math.degrees(math.atan2(y2 - y1, x2 - x1))
    anchor = "start"
    if x2 < x1:
        slope, anchor = slope - 180, "end"
    canvas.front.append(
        f'<text x="{x:.1f}" y="{y:.1f}" dy="-2" transform="rotate({slope:.1f} {x:.1f} {y:.1f})" '
        f'text-anchor="{anchor}" font-size="9" fill="{colour}" stroke="white" stroke-width="2.5" '
        f'paint-order="stroke">{escape(_short(event.text, most))}</text>'
    )


def _row(canvas: _Canvas, y: float, width: float, text: str, *, red: bool) -> None:
    fill, ink = ("#ffd7d5", _RED) if red else ("#eaeef2", _INK)
    canvas.back.append(
        f'<rect x="0" y="{y - 8:.1f}" width="{width}" height="16" fill="{fill}" opacity="0.8"/>'
    )
    weight = ' font-weight="600"' if red else ""
    longest = int(width / 6.5)
    canvas.front.append(
        f'<text x="{_TIME_PX}" y="{y + 4:.1f}" fill="{ink}"{weight} stroke="white" '
        f'stroke-width="2.5" paint-order="stroke">{escape(_short(text, longest))}'
        f"<title>{escape(text)}</title></text>"
    )


def _placed(labels: Sequence[_Label]) -> Iterator[str]:
    """Yields the labels of one lane, moved down until they don't overlap."""
    lowest: dict[float, float] = {}
    for label in labels:
        y = max(label.y, lowest.get(label.x, 0) + 12)
        lowest[label.x] = y
        weight = ' font-weight="600"' if label.bold else ""
        yield (
            f'<text x="{label.x:.0f}" y="{y:.1f}" fill="{label.colour}"{weight} stroke="white" '
            f'stroke-width="3" paint-order="stroke">{escape(_short(label.text, _LABEL_CHARS))}'
            f"<title>{escape(label.text)}</title></text>"
        )


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
