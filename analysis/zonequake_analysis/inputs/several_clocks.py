"""Events of several machines, whose clocks began with each machine: ordered by the time of day.

    time, of clock A    9,000,001 s   9,000,005 s           a machine that has run for months
    time, of clock B                                501 s   one that was started just now
    wall − time         the same for all events of a clock, about

Machines agree on the time of day to within milliseconds at best, so nothing is judged by it. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median_low
from typing import Protocol


class TimedByTwo(Protocol):
    """An event with its time in ns by a monotonic clock, which it names, and by the time of day."""

    @property
    def time(self) -> int: ...

    @property
    def wall(self) -> int: ...

    @property
    def clock(self) -> str: ...


def behind_the_wall_ns(events: Iterable[TimedByTwo]) -> dict[str, int]:
    """Returns by how much each clock is behind the time of day, by the median of its events; empty
    if one of the events doesn't say what its clock or the time of day was.
    """
    apart: dict[str, list[int]] = defaultdict(list)
    for event in events:
        if not event.wall or not event.clock:
            return {}
        apart[event.clock].append(event.wall - event.time)
    return {clock: median_low(ns) for clock, ns in apart.items()}
