"""Decides by search whether a register is linearizable, whatever values were written how often.

Zones need unique values: with them a read names its write. Where values repeat, the question is
NP-complete (Gibbons and Korach 1997), and a search decides it (Wing and Gong 1993; Lowe 2017, "just
in time"). The operations' starts and ends are swept in the order of time. A *configuration* is what
may be true at such a moment: the register's value, and which open operations have taken effect.

    start     the operation is open; nothing else changes
    end       it has taken effect in each configuration: before, or now, after some of those open
    no configuration remains: there is no order, and this end shows it

An operation without an answer stays open, and may take effect once, at any later time, or never.
Configurations stay few by three rules, each of which forbids nothing:

- a read takes effect as soon as the register has its value, because it changes nothing;
- a plain write that no read observed needs no time of its own: it may stand just before any plain
  write that took effect while it was open (`written_at`), which hides it;
- a configuration that allows everything that another one allows replaces it: more reads are done,
  fewer writes and unanswered operations are used, the last plain write is later.

A key is cut where nothing is open, so most operations meet few others. The search is pure, and is
bounded by a number of configurations: it takes no clock, so that a verdict never depends on one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from zonequake_analysis.checks.search.configurations import (
    FIELD_BITS,
    Kept,
    RegisterConfiguration,
    used_in_all,
    without,
)
from zonequake_analysis.checks.search.observed_writes import unexplained
from zonequake_analysis.checks.search.register_step import Step
from zonequake_analysis.inputs.shapes import ABSENT, NEVER_NS, Function

MOST_CONFIGURATIONS = 500_000
"""Most configurations of one key, besides those of `PER_STEP`.

Each takes some microseconds, and some hundred bytes if it is kept: so a key costs a few seconds and
100 MB at worst. Where a search needs more than this, its number doubles with each further open
operation, so that ten times as many would decide few more keys.
"""

PER_STEP = 32
"""How many more for each operation of the key: a search that never goes astray needs about ten, so
that the length of a key alone is no reason to give up."""

_WIDTHS = (16, 256, None)
"""How many configurations one event may try, in each of three searches, once it has found one that
goes on. A narrow search soon finds an order, if there is one; only one that tried all it could
proves that there is none."""


class Answer(Enum):
    """The result of a search."""

    ORDER = "order"
    NO_ORDER = "no-order"
    GAVE_UP = "gave-up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """The result for one key, and how many configurations it took.

    `failed_at`: the step whose end no configuration survived, or that can have observed no write;
    None unless there is no order.
    """

    answer: Answer
    explored: int
    failed_at: int | None = None


def search(steps: Sequence[Step], *, most: int | None = None) -> Searched:
    """Looks for an order of `steps` that respects real time and explains every answer.

    Gives up when it would explore more than `most` configurations; None stands for the bound of the
    two constants. Steps whose ends meet at one time are concurrent. An unanswered READ explains
    nothing and is ignored.
    """
    answers = (i for i, s in enumerate(steps) if s.f is not Function.WRITE and s.fin_ns != NEVER_NS)
    if (place := unexplained(steps, answers)) is not None:
        return Searched(answer=Answer.NO_ORDER, explored=0, failed_at=place)
    parts = list(_parts(steps))
    most = MOST_CONFIGURATIONS + PER_STEP * len(steps) if most is None else most
    explored = 0
    for width in _WIDTHS:
        one = _Search(width, most - explored)
        failed_at = one.over(steps, parts)
        explored += one.explored
        if explored > most:
            break
        if failed_at is None:
            return Searched(answer=Answer.ORDER, explored=explored)
        if not one.narrowed:
            return Searched(answer=Answer.NO_ORDER, explored=explored, failed_at=failed_at)
    return Searched(answer=Answer.GAVE_UP, explored=explored)


def _parts(steps: Sequence[Step]) -> Iterator[list[int]]:
    """Yields the places of steps between moments at which nothing is open."""
    part: list[int] = []
    last_end = 0
    for place in sorted(range(len(steps)), key=lambda i: steps[i].inv_ns):
        step = steps[place]
        if step.f is Function.READ and step.fin_ns == NEVER_NS:
            continue
        if part and step.inv_ns > last_end:
            yield part
            part = []
        last_end = max(last_end, step.fin_ns) if part else step.fin_ns
        part.append(place)
    if part:
        yield part


def _alone(step: Step, values: AbstractSet[int]) -> AbstractSet[int]:
    """Returns the values that a register may have after a step that meets no other."""
    if step.fin_ns == NEVER_NS:  # the key's last step: it explains nothing any more
        return values
    needed = step.expected if step.f is Function.CAS else step.value
    if step.f is not Function.WRITE and needed not in values:
        return set()
    return {step.value}


class _OpenOperation(NamedTuple):
    """An open operation that has an answer, and the number of the event that began it."""

    bit: int
    step: Step
    begun: int


class _Search:
    """One sweep over a whole key; an event may try `width` configurations, or all if it is None."""

    def __init__(self, width: int | None, most: int) -> None:
        self.explored = 0
        self.narrowed = False
        self._width = width
        self._most = most

    def over(self, steps: Sequence[Step], parts: Sequence[Sequence[int]]) -> int | None:
        """Returns the place of the step whose end no configuration survives; None if all can end,
        or `explored` is above the bound.
        """
        values: AbstractSet[int] = {ABSENT}
        for part in parts:
            if len(part) == 1:
                values = _alone(steps[part[0]], values)
                if not values:
                    return part[0]
                continue
            sweep = _Sweep(values, self._width, self._most - self.explored)
            failed_at = sweep.over(steps, part)
            self.explored += sweep.explored
            self.narrowed |= sweep.narrowed
            if failed_at is not None or self.explored > self._most:
                return failed_at
            values = sweep.values
        return None


class _Sweep:
    """The search over one part of a key."""

    def __init__(self, values: AbstractSet[int], width: int | None, most: int) -> None:
        self.explored = 0
        self.narrowed = False
        self._width = width
        self._most = most
        self._guards = 0
        self._kept = Kept(0)
        for value in values:
            self._kept.add(RegisterConfiguration(value, 0, 0, 0, 0, -1))
        self._free: list[int] = []
        self._bits = 0
        self._open: dict[int, _OpenOperation] = {}
        self._reads: dict[int, int] = {}
        self._unanswered: dict[tuple[Function, int, int], int] = {}
        self._begun: list[int] = []

    @property
    def values(self) -> set[int]:
        """The values that the register may have at the end."""
        return {one.value for one in self._kept}

    def over(self, steps: Sequence[Step], part: Sequence[int]) -> int | None:
        """Returns the place of the step whose end no configuration survives; None if all can end,
        or `explored` is above the bound.
        """
        events = [(steps[place].inv_ns, False, place) for place in part]
        events += [(end, True, place) for place in part if (end := steps[place].fin_ns) != NEVER_NS]
        events.sort()
        for now, (_, ends, place) in enumerate(events):
            if not ends:
                self._begin(place, steps[place], now)
                continue
            self._end(self._open[place], now)
            if self.explored > self._most:
                return None
            if not len(self._kept):
                return place
            self._close(place)
        return None

    def _begin(self, place: int, step: Step, now: int) -> None:
        if step.fin_ns == NEVER_NS:
            self._add_unanswered(step)
            return
        bit = self._free.pop() if self._free else 1 << self._bits
        self._bits += bit == 1 << self._bits
        self._open[place] = _OpenOperation(bit, step, now)
        if step.f is Function.READ:
            self._reads[step.value] = self._reads.get(step.value, 0) | bit
            kept = Kept(self._guards)
            for one in self._kept:
                done = one._replace(reads=one.reads | bit) if one.value == step.value else one
                kept.add(done)
            self._count(len(kept))
            self._kept = kept

    def _add_unanswered(self, step: Step) -> None:
        kind = (step.f, step.value, step.expected if step.f is Function.CAS else ABSENT)
        number = self._unanswered.setdefault(kind, len(self._begun))
        if number < len(self._begun):
            self._begun[number] += 1
            return
        self._begun.append(1)
        self._guards |= 1 << (number * FIELD_BITS + FIELD_BITS - 1)
        self._kept.guards = self._guards

    def _close(self, place: int) -> None:
        bit, step, _ = self._open.pop(place)
        self._free.append(bit)
        if step.f is Function.READ:
            self._reads[step.value] &= ~bit

    def _count(self, configurations: int) -> None:
        """Counts what one event looked at; the first is free, so that a long key may be judged."""
        self.explored += configurations - 1

    def _end(self, ending: _OpenOperation, now: int) -> None:
        """Replaces the configurations by those in which the operation has taken effect."""
        bit, step, begun = ending
        kept, tried = Kept(self._guards), Kept(self._guards)
        todo: list[tuple[int, RegisterConfiguration]] = []
        self._count(len(self._kept))
        for one in self._kept:
            if (done := without(one, step.f, bit)) is not None:
                kept.add(done)
                continue
            if step.f is Function.WRITE and begun < one.written_at:
                kept.add(one)  # it stands just before that plain write
            todo.append((used_in_all(one), one))
        heapify(todo)
        enough = None if self._width is None else self.explored + self._width
        while todo and self.explored <= self._most:
            if enough is not None and self.explored >= enough and len(kept):
                self.narrowed = True
                break
            for new in self._moves(heappop(todo)[1], ending, now):
                self.explored += 1
                if (done := without(new, step.f, bit)) is not None:
                    kept.add(done)
                elif tried.add(new):
                    heappush(todo, (used_in_all(new), new))
        self._kept = kept

    def _moves(
        self, one: RegisterConfiguration, ending: _OpenOperation, now: int
    ) -> Iterator[RegisterConfiguration]:
        """Yields what one further operation makes of a configuration.

        A plain write that no open operation would observe waits, unless it is the one that ends: it
        may stand before a later one as well.
        """
        value, cas, writes, reads, used, written_at = one
        wanted = self._wanted(one)
        for place_bit, step, _ in self._open.values():
            if step.f is Function.WRITE:
                if writes & place_bit or not (place_bit == ending.bit or step.value in wanted):
                    continue
                done = reads | self._reads.get(step.value, 0)
                yield RegisterConfiguration(step.value, cas, writes | place_bit, done, used, now)
            elif step.f is Function.CAS and step.expected == value and not cas & place_bit:
                done = reads | self._reads.get(step.value, 0)
                yield RegisterConfiguration(
                    step.value, cas | place_bit, writes, done, used, written_at
                )
        for (f, to, expected), number in self._unanswered.items():
            if to not in wanted or (f is Function.CAS and expected != value):
                continue
            shift = number * FIELD_BITS
            if used >> shift & ((1 << FIELD_BITS) - 1) < self._begun[number]:
                yield RegisterConfiguration(
                    to,
                    cas,
                    writes,
                    reads | self._reads.get(to, 0),
                    used + (1 << shift),
                    now if f is Function.WRITE else written_at,
                )

    def _wanted(self, one: RegisterConfiguration) -> set[int]:
        """Returns the values that an open operation waits for."""
        wanted = {value for value, bits in self._reads.items() if bits & ~one.reads}
        for bit, step, _ in self._open.values():
            if step.f is Function.CAS and not one.cas & bit:
                wanted.add(step.expected)
        steps = [(to, e) for f, to, e in self._unanswered if f is Function.CAS]
        size = -1
        while size != len(wanted):
            size = len(wanted)
            wanted.update(expected for to, expected in steps if to in wanted)
        return wanted
