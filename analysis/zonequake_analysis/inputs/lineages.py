"""Lineages of a partition: where each began, and which places of older ones are part of it.

A forced reset begins a lineage on one survivor. The survivor's log, up to its end at that time, is
the new lineage's past; what the old lineage has after that place is not part of it:

    lineage 0   1 ── 5 ── 10          written by seven nodes; E had no more than 5
                     └─ lineage 7  6' ── 7'       E was reset with token 7: 6 to 10 are sacrificed
                └──── lineage 9  11''            unwound to A: 6 to 10 are back, 6' and 7' go

A place is (lineage, term, index) in one integer, as `tables/ops` packs it: places of one path have
the order of these integers, because tokens only grow. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.inputs.shapes import INDEX_BITS, LINEAGE_BITS, NEVER_NS, TERM_BITS

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_LINEAGE_SHIFT = TERM_BITS + INDEX_BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The record of a reset: the survivor led alone from `at_ns` on, its log ended at `last`.

    `last` is None if the group was bootstrapped again, with nothing.
    """

    lineage: int
    at_ns: int
    survivor: str
    last: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineages:
    """All lineages of one partition that its data nodes recorded, by their tokens.

    `seen`: those that answers are known to have shown, also answers that are elsewhere.
    """

    zone: str
    partition: int
    begun: Mapping[int, Begun]
    seen: tuple[int, ...] = ()

    def with_seen(self, lineages: Iterable[int]) -> list[int]:
        """Returns the existing lineages in their order: recorded ones, and those of answers.

        A lineage that a recorded reset goes back to counts, too, even if it gave no answer.
        """
        pasts = {lineage_of(b.last) for b in self.begun.values() if b.last is not None}
        return sorted({*self.begun, *pasts, *self.seen, *lineages})

    def bounds(self, lineage: int) -> dict[int, int]:
        """Returns the last place of each lineage that is part of this one; its own has no last
        place.

        If no data node recorded a lineage's reset, only its own places are known to be part of it.
        """
        found = {lineage: NEVER_NS}
        while (begun := self.begun.get(lineage)) is not None and begun.last is not None:
            if lineage_of(begun.last) >= lineage:
                break  # no reset goes on from a later lineage: the record is wrong
            lineage = lineage_of(begun.last)
            found[lineage] = begun.last
        return found

    def has(self, lineage: int, places: Ints) -> Bools:
        """Returns which of these places are part of the lineage."""
        result = np.zeros(len(places), bool)
        own = places >> _LINEAGE_SHIFT
        for past, last in self.bounds(lineage).items():
            result |= (own == past) & (places <= last)
        return result


def place_of(lineage: int, term: int, index: int) -> int:
    """Returns (lineage, term, index) as one integer."""
    return (lineage << _LINEAGE_SHIFT) | (term << INDEX_BITS) | index


def lineage_of(place: int) -> int:
    """Returns the lineage of a place."""
    return place >> _LINEAGE_SHIFT


def in_words(place: int) -> str:
    """Returns a place as people read it."""
    term = (place >> INDEX_BITS) & ((1 << TERM_BITS) - 1)
    index = place & ((1 << INDEX_BITS) - 1)
    return f"(lineage {lineage_of(place)}, term {term}, index {index})"


def read_lineages(events: Iterable[RecordedEvent]) -> dict[tuple[str, int], Lineages]:
    """Returns the lineages of every partition with `group.reset` events of its data nodes.

    A survivor that crashed before its first entry was stored is reset again with the same token:
    then the last record counts.
    """
    begun: dict[tuple[str, int], dict[int, Begun]] = {}
    for event in sorted(events, key=lambda event: event.time):
        if event.kind != "group.reset" or event.partition is None:
            continue
        lineage = int(event.number("lineage") or 0)
        index = int(event.number("last_index") or 0)
        last = place_of(
            int(event.number("last_lineage") or 0), int(event.number("last_term") or 0), index
        )
        if 0 < lineage < 1 << LINEAGE_BITS:
            begun.setdefault((event.zone or "", event.partition), {})[lineage] = Begun(
                lineage=lineage,
                at_ns=event.time,
                survivor=event.node or "",
                last=last if index else None,
            )
    return {
        (zone, partition): Lineages(zone=zone, partition=partition, begun=found)
        for (zone, partition), found in begun.items()
    }
