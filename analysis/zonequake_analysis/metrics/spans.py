"""The stretches of time between which metrics are compared: the quiet phase, faults, windows. Pure.

    quiet phase │ before a span: the same for all        during           after
    ────────────┼───────────────────────────────╌╌╌╌╌╌┼─────────────┼─────────────┤
              first fault                           fault or window  as long again

Long stretches are cut to ten minutes, so that the compared data doesn't grow with the run. A window
of less than a scrape is widened by one at each end, because a sample's time is no more exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.measures.availability.windows import Unavailability
from zonequake_analysis.measures.rebalances import FaultLanding

LONGEST_MS = 10 * 60 * 1000
MIN_SPAN_MS = 10_000
"""Shortest stretch that is compared after a span."""

MOST_FAULTS = 16
MOST_WINDOWS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A stretch of time: start_ms ≤ t < end_ms, unix ms."""

    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A fault or a window. `nodes`: those that it affected, the nearest first."""

    number: int
    name: str
    kind: str  # fault, window
    during: Stretch
    after: Stretch
    nodes: tuple[str, ...] = ()

    @property
    def around(self) -> Stretch:
        """The time that is drawn: the span, as long before it as after it."""
        length_ms = self.after.end_ms - self.after.start_ms
        return Stretch(start_ms=self.during.start_ms - length_ms, end_ms=self.after.end_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """The stretches to compare. `quiet`: None if nothing came before the first fault.

    `left_out`: the number of faults and windows that are not compared.
    """

    quiet: Stretch | None
    spans: tuple[Span, ...]
    left_out: int = 0


def spans_of(
    *,
    faults: Sequence[FaultLanding],
    windows: Sequence[Unavailability],
    events: Sequence[RecordedEvent],
    start_ns: int,
    end_ns: int,
    wall_offset_ns: int,
    scrape_ms: int,
) -> Spans:
    """Returns faults by time, then the longest windows. Takes times of a run's clock, gives unix
    time.
    """

    def ms(at_ns: int) -> int:
        return (at_ns + wall_offset_ns) // 1_000_000

    begun = [fault for fault in faults if fault.start_ns is not None]
    longest = longest_first(windows)
    phases = {event.text("phase"): event.time for event in events if event.kind == "run.phase"}
    troubles = [f.start_ns for f in begun if f.start_ns is not None]
    troubles += [window.start_ns for window in windows]
    first_ns = min(troubles, default=end_ns)
    quiet_ns = min(max(start_ns, phases.get("before", start_ns)), first_ns)
    quiet = Stretch(start_ms=max(ms(quiet_ns), ms(first_ns) - LONGEST_MS), end_ms=ms(first_ns))
    spans = [
        _span(
            number,
            name=fault.name,
            kind="fault",
            start_ms=ms(fault.start_ns or 0),
            end_ms=ms(fault.over_by(end_ns)),
            scrape_ms=scrape_ms,
            nodes=fault.targets,
        )
        for number, fault in enumerate(begun[:MOST_FAULTS])
    ]
    spans += [
        _span(
            len(spans) + number,
            name=f"{window.zone}/{window.partition} {window.function}",
            kind="window",
            start_ms=ms(window.start_ns),
            end_ms=ms(window.end_ns),
            scrape_ms=scrape_ms,
            nodes=_leaders(window, events),
        )
        for number, window in enumerate(longest[:MOST_WINDOWS])
    ]
    return Spans(
        quiet=quiet if quiet.end_ms > quiet.start_ms else None,
        spans=tuple(spans),
        left_out=len(begun) + len(windows) - len(spans),
    )


def longest_first(windows: Sequence[Unavailability]) -> list[Unavailability]:
    """Windows in the order in which they become spans."""
    return sorted(windows, key=lambda w: (-w.certain_ns, -w.possible_ns))


def _span(
    number: int,
    *,
    name: str,
    kind: str,
    start_ms: int,
    end_ms: int,
    scrape_ms: int,
    nodes: Sequence[str],
) -> Span:
    first = start_ms - scrape_ms
    last = min(max(end_ms, start_ms) + 2 * scrape_ms, first + LONGEST_MS)
    length = max(MIN_SPAN_MS, last - first)
    return Span(
        number=number,
        name=name,
        kind=kind,
        during=Stretch(start_ms=first, end_ms=last),
        after=Stretch(start_ms=last, end_ms=last + length),
        nodes=tuple(dict.fromkeys(nodes)),
    )


def _leaders(window: Unavailability, events: Sequence[RecordedEvent]) -> list[str]:
    """Returns the leader of the window's partition before it, and the leaders until its end."""
    led = [
        (event.time, event.text("leader"))
        for event in events
        if event.kind == "leader.change"
        and (event.zone, event.partition) == (window.zone, window.partition)
        and event.text("leader")
        and event.time <= window.end_ns
    ]
    before = [node for at_ns, node in led if at_ns < window.start_ns][-1:]
    return [*before, *(node for at_ns, node in led if at_ns >= window.start_ns)]
