"""Screen of `sets`: values never written, values of failed writes, elements or requests twice."""

from __future__ import annotations

import numpy as np

from zonequake_analysis.checks.screens.columns import NULL, Bools, Columns
from zonequake_analysis.checks.screens.segments import NEVER, heads, marked, ordered, spread
from zonequake_analysis.inputs.shapes import Function, OutcomeCode

_ATTEMPTED, _POSSIBLE, _SEEN = 1, 2, 4


def suspects(c: Columns) -> Bools:
    """Returns, by key, whether `sets` could find anything."""
    ok = c.outcome == OutcomeCode.OK.value
    read, cas = c.f == Function.READ.value, c.f == Function.CAS.value
    refused = cas & ok & ~c.applied
    attempts = np.flatnonzero(~read & (c.value != NULL))
    shown = np.where(refused, c.found, np.where(cas, c.expected, c.value))
    seeing = np.flatnonzero(ok & (read | cas) & ~c.has_list & (shown != NULL))
    lists = np.flatnonzero(ok & c.has_list)
    owner, place = spread(c.list_start[lists], c.list_size[lists])
    in_list, elements = lists[owner], c.elements[place]
    rows = np.concatenate([attempts, seeing, in_list])
    element = np.concatenate([c.value[attempts], shown[seeing], elements])
    attempt = np.arange(len(rows)) < len(attempts)
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
    by_list = ordered(in_list, elements)
    twice = ~heads(in_list[by_list], elements[by_list])
    found = marked(key[first[bad]], c.keys)
    found[c.key[in_list[by_list][twice]]] = True
    found[c.key[refused & (c.found == c.expected)]] = True
    return found | c.odd
