"""Tells which writes an answer of a register may have observed, by real time alone.

An answer that shows v may have observed a write of v unless that began after the answer's end, or
another answered write began after its end and ended before the answer began: that one hid it.
Before all writes the register is absent.

An answer that can have observed nothing proves by itself that there is no order, at no cost. This
is the usual way in which a store is wrong, also where a search would give up.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from zonequake_analysis.checks.search.register_step import Step
from zonequake_analysis.inputs.shapes import ABSENT, NEVER_NS, Function

_BEFORE_ALL_NS = -(2**63)


class Writes:
    """The writes of one register, and the applied cas, by value and in order of time."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._of: dict[int, list[int]] = {}
        writes = [i for i, step in enumerate(steps) if step.f is not Function.READ]
        for place in sorted(writes, key=lambda i: steps[i].inv_ns):
            self._of.setdefault(steps[place].value, []).append(place)
        self._begun = {v: [steps[i].inv_ns for i in those] for v, those in self._of.items()}
        self._latest_end = {
            v: list(accumulate((steps[i].fin_ns for i in those), max))
            for v, those in self._of.items()
        }
        answered = sorted((i for i in writes if steps[i].fin_ns != NEVER_NS), key=self._end)
        self._ends = [steps[i].fin_ns for i in answered]
        self._latest_start = list(accumulate((steps[i].inv_ns for i in answered), max))

    def of(self, value: int) -> Sequence[int]:
        """Returns the places of all writes of a value."""
        return self._of.get(value, ())

    def hidden_before_ns(self, reader: Step) -> int:
        """Returns the time before whose reach a write is hidden from `reader` if it ended there."""
        ended = bisect_left(self._ends, reader.inv_ns)
        return self._latest_start[ended - 1] if ended else _BEFORE_ALL_NS

    def observable(self, reader: Step) -> Iterator[int]:
        """Yields the places of the writes that `reader` may have observed."""
        value, hidden = shown(reader), self.hidden_before_ns(reader)
        for place in self._of.get(value, ()):
            write = self._steps[place]
            if write.inv_ns <= reader.fin_ns and write.fin_ns >= hidden and write is not reader:
                yield place

    def explains(self, reader: Step) -> bool:
        """Returns whether `reader` may have observed anything, the absent key included."""
        value, hidden = shown(reader), self.hidden_before_ns(reader)
        if value == ABSENT and hidden == _BEFORE_ALL_NS:
            return True
        begun = bisect_right(self._begun.get(value, ()), reader.fin_ns)
        return begun > 0 and self._latest_end[value][begun - 1] >= hidden

    def _end(self, place: int) -> int:
        return self._steps[place].fin_ns


def shown(step: Step) -> int:
    """Returns the value that an answer shows: what was read, or what an applied cas expected."""
    return step.expected if step.f is Function.CAS else step.value


def unexplained(steps: Sequence[Step], readers: Iterable[int]) -> int | None:
    """Returns the place of the answer that ends first of those that observed nothing; else None."""
    writes = Writes(steps)
    found = [i for i in readers if not writes.explains(steps[i])]
    return min(found, key=lambda i: steps[i].fin_ns, default=None)
