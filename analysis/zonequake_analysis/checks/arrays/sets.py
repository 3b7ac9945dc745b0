"""The check `sets` over arrays: finds what it finds in SQL."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zonequake_analysis.checks.found_rows import FoundRows
from zonequake_analysis.checks.screens.columns import NULL, Bools, Columns, Ints
from zonequake_analysis.checks.screens.segments import NEVER, NOTHING, heads, ordered
from zonequake_analysis.checks.screens.sets import mentions, refusals, with_an_element_twice
from zonequake_analysis.checks.sets import CHECK
from zonequake_analysis.inputs.shapes import OutcomeCode

_KINDS = ("phantom", "aborted", "applied-twice", "two-places")


def sets(c: Columns, member: Ints) -> Iterator[FoundRows]:
    """Yields values that nothing wrote, whose writes failed, or that were written twice; lists that
    hold an element twice; refused cas that found what they expected.

    `member`: the node of each row as a number, -1 where there is none.
    """
    refused = refusals(c)
    rows, element, attempt = mentions(c)
    yield _shown(c, "duplicate", with_an_element_twice(c, rows, element), with_value=False)
    order = ordered(c.key[rows], element)
    yield _values(c, member, refused, rows[order], element[order], attempt[order])
    yield _shown(c, "wrong-refusal", np.flatnonzero(refused & (c.found == c.expected)))


def _values(
    c: Columns, member: Ints, refused: Bools, rows: Ints, element: Ints, attempt: Bools
) -> FoundRows:
    """Returns what the mentions of each element, by key and element, contradict."""
    ok = c.outcome == OutcomeCode.OK.value
    head = heads(c.key[rows], element)
    first = np.flatnonzero(head)
    nothing = np.zeros(0, np.int64)
    if not len(first):
        return _found(c, nothing, nothing, nothing, nothing, nothing)
    value = np.cumsum(head) - 1  # the number of the key's element
    acked = attempt & (ok & ~refused)[rows]
    possible = attempt & ((c.outcome != OutcomeCode.FAIL.value) & ~refused)[rows]
    known_at = np.maximum.reduceat(np.where(acked, c.fin[rows], NOTHING), first)
    has_place = c.position[rows] >= 0
    at = c.position[rows]
    # An operation that began after the acknowledgement saw that write, whatever place it claims.
    early = ~attempt & (c.inv[rows] < known_at[value]) & has_place
    written_rows = np.where(acked & has_place, at, -1)
    seen_rows = np.where(early, at, NEVER)
    written = np.maximum.reduceat(written_rows, first)
    first_read = np.minimum.reduceat(seen_rows, first)
    at_ns = np.minimum.reduceat(np.where(attempt, NEVER, c.inv[rows]), first)
    attempted = np.logical_or.reduceat(attempt, first)
    may_be = np.logical_or.reduceat(possible, first)
    seen = at_ns != NEVER
    by_one = np.zeros(len(first), bool)
    by_member = ordered(value, member[rows])
    of_member = np.flatnonzero(heads(value[by_member], member[rows][by_member]))
    twice = np.minimum.reduceat(seen_rows[by_member], of_member) < np.maximum.reduceat(
        written_rows[by_member], of_member
    )
    known = member[rows][by_member][of_member] >= 0
    by_one[value[by_member][of_member[twice & known]]] = True
    kind = np.full(len(first), -1)
    kind[first_read < written] = 3
    kind[by_one] = 2
    kind[seen & ~may_be] = 1
    kind[seen & ~attempted] = 0
    bad = np.flatnonzero(kind >= 0)
    return _found(
        c,
        kind[bad],
        c.key[rows[first[bad]]],
        element[first[bad]],
        at_ns[bad],
        np.where(written[bad] < 0, NULL, written[bad]),
    )


def _found(
    c: Columns, kind: Ints, key: Ints, value: Ints, at_ns: Ints, position: Ints
) -> FoundRows:
    return FoundRows(
        check=CHECK,
        kinds=_KINDS,
        kind=kind,
        key=key,
        value=value,
        at_ns=at_ns,
        position=position,
        magnitude_ns=np.full(len(kind), NULL),
    )


def _shown(c: Columns, kind: str, rows: Ints, *, with_value: bool = True) -> FoundRows:
    nothing = np.full(len(rows), NULL)
    return FoundRows(
        check=CHECK,
        kinds=(kind,),
        kind=np.zeros(len(rows), np.int64),
        key=c.key[rows],
        value=c.found[rows] if with_value else nothing,
        at_ns=c.inv[rows],
        position=nothing,
        magnitude_ns=nothing,
    )
