"""Holds what may be true of a register at one moment of a search, without what adds nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from zonequake_analysis.inputs.shapes import Function

_MOST_COMPARED = 32
"""Configurations of one value that a new one is compared with; with more, some superfluous ones are
kept, which only costs time."""

FIELD_BITS = 32
"""Bits that count the used operations of one kind without an answer; the highest is a guard."""


class RegisterConfiguration(NamedTuple):
    """One possible state at a moment; the sets of open operations are bits, by their slots.

    `used`: how many operations of each kind without an answer took effect, 32 bits each.
    `written_at`: the number of the event at which the last plain write took effect.
    """

    value: int
    cas: int
    writes: int
    reads: int
    used: int
    written_at: int


class Kept:
    """Configurations, without those that another one replaces."""

    def __init__(self, guards: int) -> None:
        self.guards = guards
        self._size = 0
        self._by_value: dict[tuple[int, int], list[RegisterConfiguration]] = {}
        self._seen: set[RegisterConfiguration] = set()

    def __iter__(self) -> Iterator[RegisterConfiguration]:
        for those in self._by_value.values():
            yield from those

    def __len__(self) -> int:
        return self._size

    def add(self, new: RegisterConfiguration) -> bool:
        """Keeps `new` unless another one replaces it; returns whether it was kept."""
        those = self._by_value.get(new[:2])
        if those is None:
            self._by_value[new[:2]] = [new]
            self._seen.add(new)
            self._size += 1
            return True
        if new in self._seen:
            return False
        self._seen.add(new)
        for other in those[:_MOST_COMPARED]:
            if self._replaces(other, new):
                return False
        before = len(those)
        if before <= _MOST_COMPARED:
            those[:] = [other for other in those if not self._replaces(new, other)]
        those.append(new)
        self._size += len(those) - before
        return True

    def _replaces(self, one: RegisterConfiguration, other: RegisterConfiguration) -> bool:
        """Returns whether `one` allows all that `other` allows; both have one value and cas set."""
        return (
            one.written_at >= other.written_at
            and not one.writes & ~other.writes
            and not other.reads & ~one.reads
            # No field of `one` is larger: then no subtraction borrows its field's guard.
            and (
                one.used == other.used
                or ((other.used | self.guards) - one.used) & self.guards == self.guards
            )
        )


def used_in_all(one: RegisterConfiguration) -> int:
    """Returns how many operations without an answer took effect: the sum of the fields."""
    return one.used % ((1 << FIELD_BITS) - 1)


def without(one: RegisterConfiguration, f: Function, bit: int) -> RegisterConfiguration | None:
    """Returns a configuration after the end of an operation that took effect in it; else None."""
    if f is Function.READ:
        return one._replace(reads=one.reads ^ bit) if one.reads & bit else None
    if f is Function.WRITE:
        return one._replace(writes=one.writes ^ bit) if one.writes & bit else None
    return one._replace(cas=one.cas ^ bit) if one.cas & bit else None
