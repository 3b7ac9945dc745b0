"""A partition's update counter (document `update-counters`). Pure.

Each update of a partition has a number. Numbers are reserved first and applied later, perhaps in
another order, and a number whose transaction is rolled back is closed as a gap: it counts as
applied, with nothing in it.

    1 … lwm             applied, all of them
    lwm+1 … hwm         reserved; of these, `ranges` are applied already

For example, tx1 reserves three and tx2 two, and tx2 commits first:

    reserve(3) → 0                    lwm 0  hwm 3
    reserve(2) → 3                    lwm 0  hwm 5
    update(3, 2) → True               lwm 0  hwm 5  ranges ((3, 2),)
    update(0, 3) → True               lwm 5  hwm 5

A range `(start, delta)` is the numbers start+1 to start+delta, as in the document. The ranges are
sorted, apart from each other and from `lwm`; `hwm` is never below the last of them.
"""

from __future__ import annotations

from bisect import bisect_right

from zonequake_store.errors import CounterError

MAX_RANGES = 10_000
"""More are never needed: each gap belongs to a prepared transaction, and those are fewer."""

Range = tuple[int, int]


class PartitionUpdateCounter:
    """`lwm`, `hwm` and `ranges` as they were stored; raises CounterError if they contradict."""

    __slots__ = ("_hwm", "_lwm", "_ranges")

    def __init__(self, lwm: int = 0, hwm: int = 0, ranges: tuple[Range, ...] = ()) -> None:
        end = lwm
        for start, delta in ranges:
            if start <= end or delta < 1:
                raise CounterError(
                    f"the ranges {ranges} behind {lwm} are not sorted and apart from each other"
                )
            end = start + delta
        if not 0 <= lwm <= end <= hwm:
            raise CounterError(f"{end} updates are applied, but only {hwm} were reserved")
        self._lwm = lwm
        self._hwm = hwm
        self._ranges = list(ranges)

    @property
    def lwm(self) -> int:
        """Low watermark: this update and all before it are applied."""
        return self._lwm

    @property
    def hwm(self) -> int:
        """High watermark: the last number that was reserved."""
        return self._hwm

    @property
    def ranges(self) -> tuple[Range, ...]:
        """The applied ranges above the low watermark, as (start, delta)."""
        return tuple(self._ranges)

    @property
    def is_sequential(self) -> bool:
        """Returns whether everything that was reserved is applied."""
        return self._lwm == self._hwm

    def reserve(self, delta: int) -> int:
        """Reserve `delta` numbers; returns the start of their range, the high watermark before."""
        if delta < 1:
            raise CounterError(f"{delta} updates cannot be reserved; expected 1 or more")
        start = self._hwm
        self._hwm = start + delta
        return start

    def update(self, start: int, delta: int) -> bool:
        """Applies the updates of a reserved range, or closes it as a gap.

        False if they were before. Raises CounterError, and changes nothing, for a range that was
        never reserved, that overlaps what is applied without lying in it, or that would be one
        more than MAX_RANGES.
        """
        end = start + delta
        if start < 0 or delta < 1 or end > self._hwm:
            raise CounterError(
                f"the range ({start}, {delta}) was never reserved: "
                f"the high watermark is {self._hwm}"
            )
        ranges = self._ranges
        place = bisect_right(ranges, start, key=_start)
        before = self._lwm if place == 0 else sum(ranges[place - 1])
        if end <= before:
            return False
        after = ranges[place][0] if place < len(ranges) else self._hwm
        if start < before or end > after:
            raise CounterError(
                f"the range ({start}, {delta}) overlaps updates that were applied apart from it: "
                f"low watermark {self._lwm}, ranges {self._described()}"
            )
        joins_before = start == before
        joins_after = place < len(ranges) and end == after
        if joins_after:
            end = sum(ranges[place])
        if joins_before and place == 0:
            self._lwm = end
            del ranges[:joins_after]
            return True
        if joins_before:
            place -= 1
            start = ranges[place][0]
        elif not joins_after and len(ranges) >= MAX_RANGES:
            raise CounterError(
                f"{len(ranges)} ranges wait behind the low watermark {self._lwm}: more "
                "transactions are unfinished than a partition may have"
            )
        ranges[place : place + joins_before + joins_after] = [(start, end - start)]
        return True

    def count(self) -> None:
        """Reserve and apply one update at once: a plain write."""
        if self._lwm == self._hwm:
            self._lwm = self._hwm = self._hwm + 1
        else:
            self.update(self.reserve(1), 1)

    def _described(self) -> str:
        shown = ", ".join(map(str, self._ranges[:10]))
        return f"{shown}, …" if len(self._ranges) > 10 else shown or "none"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartitionUpdateCounter):
            return NotImplemented
        return (self._lwm, self._hwm, self._ranges) == (other._lwm, other._hwm, other._ranges)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"PartitionUpdateCounter({self._lwm}, {self._hwm}, {self.ranges})"


def _start(applied: Range) -> int:
    return applied[0]
