"""Screen of `sets`: values never written, values of failed writes, elements or requests twice."""

from __future__ import annotations

import numpy as np

from zonequake_analysis.checks.screens.columns import NULL, Bools, Columns, Ints
from zonequake_analysis.checks.screens.segments import NEVER, heads, marked, ordered, spread
from zonequake_analysis.inputs.shapes import Function, OutcomeCode

_ATTEMPTED, _POSSIBLE, _SEEN = 1, 2, 4


def suspects(c: Columns) -> Bools:
    """Returns, by key, whether `sets` could find anything."""
    ok = c.outcome == OutcomeCode.OK.value
    refused = refusals(c)
    rows, element, attempt = mentions(c)
    possible = (c.outcome != OutcomeCode.FAIL.value) & ~refused
    says = np.where(attempt, _ATTEMPTED + _POSSIBLE * possible[rows], _SEEN).astype(np.uint8)
    at = c.position[rows]
    written = np.where(attempt & (ok & ~refused)[rows], at, -1)
    observed = np.where(~attempt & (at >= 0), at, NEVER)
    order = ordered(c.key[rows], element)
    key = c.key[rows][order]
    first = np.flatnonzero(heads(key, element[order]))
    bad = np.zeros(0, bool)
    if len(first):
        all_says = np.bitwise_or.reduceat(says[order], first)
        seen = (all_says & _SEEN) > 0
        bad = seen & ((all_says & (_ATTEMPTED | _POSSIBLE)) != _ATTEMPTED | _POSSIBLE)
        bad |= np.minimum.reduceat(observed[order], first) < np.maximum.reduceat(
            written[order], first
        )
    found = marked(key[first[bad]], c.keys)
    found[c.key[with_an_element_twice(c, rows, element)]] = True
    found[c.key[refused & (c.found == c.expected)]] = True
    return found | c.odd


def refusals(c: Columns) -> Bools:
    """Returns which rows are cas that the store refused."""
    answered: Bools = (c.f == Function.CAS.value) & (c.outcome == OutcomeCode.OK.value)
    return answered & ~c.applied


def mentions(c: Columns) -> tuple[Ints, Ints, Bools]:
    """Returns row and element of each attempt to write an element and of each answer that shows it,
    and which of them are attempts."""
    ok = c.outcome == OutcomeCode.OK.value
    read, cas = c.f == Function.READ.value, c.f == Function.CAS.value
    attempts = np.flatnonzero(~read & (c.value != NULL))
    shown = np.where(refusals(c), c.found, np.where(cas, c.expected, c.value))
    seeing = np.flatnonzero(ok & (read | cas) & ~c.has_list & (shown != NULL))
    lists = np.flatnonzero(ok & c.has_list)
    owner, place = spread(c.list_start[lists], c.list_size[lists])
    rows = np.concatenate([attempts, seeing, lists[owner]])
    element = np.concatenate([c.value[attempts], shown[seeing], c.elements[place]])
    return rows, element, np.arange(len(rows)) < len(attempts)


def with_an_element_twice(c: Columns, rows: Ints, element: Ints) -> Ints:
    """Returns the rows whose answer is a list that holds an element twice; of the `mentions`."""
    of_list = c.has_list[rows]
    rows, element = rows[of_list], element[of_list]
    order = ordered(rows, element)
    return np.unique(rows[order][~heads(rows[order], element[order])])
