"""The stretches of time between which metrics are compared: the quiet phase, faults, windows. Pure.

    quiet phase │ before a span: the same for all        during           after
    ────────────┼───────────────────────────────╌╌╌╌╌╌┼─────────────┼─────────────┤
              first fault                           fault or window  as long again

Long stretches are cut to ten minutes, so that the compared data doesn't grow with the run. A window
of less than a scrape is widened by one at each end, because a sample's time is no more exact.

Each repetition of a fault is a span of its own, and `after` may hold the next one:

    kill #1     during │ after
    kill #2              during │ after
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.measures.availability.fault_times import Repetition
from zonequake_analysis.measures.availability.windows import Unavailability
from zonequake_analysis.measures.rebalances import FaultLanding

LONGEST_MS = 10 * 60 * 1000
MIN_SPAN_MS = 10_000
"""Shortest stretch that is compared after a span."""

MOST_FAULTS = 64
"""Most faults that are compared, each repetition counted."""

MOST_WINDOWS = 64
MOST_SHOWN = 16
"""Most faults, and most windows, whose strongest series reach the driver and the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A stretch of time: start_ms ≤ t < end_ms, unix ms."""

    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A fault or a window. `nodes`: those that it affected, the nearest first; `shown`: whether the
    report shows it, and not the table alone.
    """

    number: int
    name: str
    kind: str  # fault, window
    during: Stretch
    after: Stretch
    nodes: tuple[str, ...] = ()
    shown: bool = True

    @property
    def around(self) -> Stretch:
        """The time that is drawn: the span, as long before it as after it."""
        length_ms = self.after.end_ms - self.after.start_ms
        return Stretch(start_ms=self.during.start_ms - length_ms, end_ms=self.after.end_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """The stretches to compare. `quiet`: None if nothing came before the first fault.

    `left_out`: the number of windows, and of faults with each repetition, that are not compared.
    """

    quiet: Stretch | None
    spans: tuple[Span, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunFault:
    """A fault that began for the `number`-th time, from 1."""

    fault: FaultLanding
    number: int
    time: Repetition

    @property
    def name(self) -> str:
        """The name of its span: the fault's, with the number if it was repeated."""
        return self.fault.name + (f" #{self.number}" if len(self.fault.each) > 1 else "")


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

    begun, longest = begun_faults(faults), longest_first(windows)
    phases = {event.text("phase"): event.time for event in events if event.kind == "run.phase"}
    troubles = [one.start_ns for fault in faults for one in fault.each]
    troubles += [window.start_ns for window in windows]
    first_ns = min(troubles, default=end_ns)
    quiet_ns = min(max(start_ns, phases.get("before", start_ns)), first_ns)
    quiet = Stretch(start_ms=max(ms(quiet_ns), ms(first_ns) - LONGEST_MS), end_ms=ms(first_ns))
    shown = _shown(begun, end_ns)
    spans = [
        _span(
            number,
            name=one.name,
            kind="fault",
            start_ms=ms(one.time.start_ns),
            end_ms=ms(one.time.over_by(end_ns)),
            scrape_ms=scrape_ms,
            nodes=one.time.targets,
            shown=number in shown,
        )
        for number, one in enumerate(begun)
    ]
    led = _led(events)
    spans += [
        _span(
            len(begun) + number,
            name=f"{window.zone}/{window.partition} {window.function}",
            kind="window",
            start_ms=ms(window.start_ns),
            end_ms=ms(window.end_ns),
            scrape_ms=scrape_ms,
            nodes=_leaders(window, led.get((window.zone, window.partition), ())),
            shown=number < MOST_SHOWN,
        )
        for number, window in enumerate(longest[:MOST_WINDOWS])
    ]
    return Spans(
        quiet=quiet if quiet.end_ms > quiet.start_ms else None,
        spans=tuple(spans),
        left_out=len(troubles) - len(spans),
    )


def begun_faults(faults: Sequence[FaultLanding]) -> list[BegunFault]:
    """Returns the faults that become spans, in their order: by time. Of too many each fault comes
    with its first repetition before any with its second.
    """
    every = [
        BegunFault(fault=fault, number=number, time=one)
        for fault in faults
        for number, one in enumerate(fault.each, 1)
    ]
    every.sort(key=lambda one: (one.number, one.time.start_ns))
    return sorted(every[:MOST_FAULTS], key=lambda one: one.time.start_ns)


def _shown(begun: Sequence[BegunFault], end_ns: int) -> set[int]:
    """Returns the places of those that are shown: of each fault the longest, then those next in
    length.
    """

    def length_ns(place: int) -> int:
        return begun[place].time.over_by(end_ns) - begun[place].time.start_ns

    longest = sorted(range(len(begun)), key=length_ns, reverse=True)
    of_each = {begun[place].fault.name: place for place in reversed(longest)}.values()
    longest.sort(key=lambda place: place not in of_each)
    return set(longest[:MOST_SHOWN])


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
    shown: bool,
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
        shown=shown,
    )


def _led(events: Sequence[RecordedEvent]) -> dict[tuple[str, int], list[tuple[int, str]]]:
    """Returns each partition's leaders, and when they began to lead."""
    led: dict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
    for event in events:
        leader = event.text("leader") if event.kind == "leader.change" else ""
        if leader and event.zone is not None and event.partition is not None:
            led[event.zone, event.partition].append((event.time, leader))
    return led


def _leaders(window: Unavailability, led: Sequence[tuple[int, str]]) -> list[str]:
    """Returns the leader of the window's partition before it, and the leaders until its end."""
    before = [node for at_ns, node in led if at_ns < window.start_ns][-1:]
    return [*before, *(node for at_ns, node in led if window.start_ns <= at_ns <= window.end_ns)]
