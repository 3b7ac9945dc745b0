"""Screens of `zones` and `prefixes`: they use what clients saw, not the order that the store
claims.

They share no logic with the screen of the claimed order, nor the sorting and folding that it uses.
The screen of registers is exact: it builds the clusters that `zones` gets from SQL, and sweeps them
with the same function.
"""

from __future__ import annotations

import numpy as np

from zonequake_analysis.checks.register_zones import Clusters, violations
from zonequake_analysis.checks.screens.columns import NULL, Bools, Columns, Ints
from zonequake_analysis.inputs.shapes import ABSENT, NEVER_NS, Function, OutcomeCode

_UNSEEN = -1


def registers(c: Columns) -> Bools:
    """Returns, by key, whether zones find no order for its reads, writes and cas."""
    flagged = c.odd.copy()
    clusters = register_clusters(c)
    flagged[clusters.key[violations(clusters) > 0]] = True
    return flagged


def register_clusters(c: Columns) -> Clusters:
    """Returns the reads, writes and cas of registers by key and value, sorted so."""
    ok = c.outcome == OutcomeCode.OK.value
    cas = c.f == Function.CAS.value
    refused = cas & ok & ~c.applied
    writes = (c.f == Function.WRITE.value) | (cas & ~refused)
    rows = np.flatnonzero(
        (c.outcome != OutcomeCode.FAIL.value)
        & (ok | writes)
        & ~c.bounded
        & ~c.has_list
        & (c.f != Function.APPEND.value)
    )
    value = np.where(refused, c.found, c.value)[rows]
    value = np.where(value == NULL, ABSENT, value)
    order = _by_key(c.key[rows], value)
    rows, value = rows[order], value[order]
    key, wrote, inv, fin = c.key[rows], writes[rows], c.inv[rows], c.fin[rows]
    fresh = np.ones(len(rows), bool)
    fresh[1:] = (key[1:] != key[:-1]) | (value[1:] != value[:-1])
    first = np.flatnonzero(fresh)
    expected = np.where(c.expected[rows] == NULL, ABSENT, c.expected[rows])
    return Clusters(
        key=key[first],
        value=value[first],
        first_finish=np.minimum.reduceat(fin, first),
        last_start=np.maximum.reduceat(inv, first),
        write_start=_or_never(np.maximum.reduceat(np.where(wrote, inv, NULL), first)),
        first_read_end=np.minimum.reduceat(np.where(wrote, NEVER_NS, fin), first),
        writes=np.add.reduceat(wrote.astype(np.int64), first),
        answered=np.add.reduceat((wrote & ok[rows]).astype(np.int64), first),
        by_cas=np.logical_or.reduceat(wrote & cas[rows], first),
        expected=np.maximum.reduceat(np.where(wrote & cas[rows], expected, ABSENT), first),
    )


def lists(c: Columns) -> Bools:
    """Returns, by key, whether prefixes could find no order for its appends and reads."""
    ok = c.outcome == OutcomeCode.OK.value
    append = c.f == Function.APPEND.value
    usable = (
        (append & (c.outcome != OutcomeCode.FAIL.value)) | ((c.f == Function.READ.value) & ok)
    ) & (~c.bounded & (append | c.has_list | (c.value == NULL)))
    is_list = np.bincount(c.key[usable & (append | c.has_list)], minlength=c.keys) > 0
    usable &= is_list[c.key]
    flagged = c.odd.copy()
    rows = np.flatnonzero(usable)
    if not len(rows):
        return flagged
    longest = np.full(c.keys, _UNSEEN)
    reads = rows[~append[rows]]
    rising = reads[np.argsort(c.list_size[reads], kind="stable")]
    longest[c.key[rising]] = rising
    own = longest[c.key[reads]]
    _flag_torn(c, reads, own, flagged)
    appends = rows[append[rows]]
    place = _places(c, longest, appends, flagged)
    rank = np.where(place > 0, 2 * place, NEVER_NS)
    judged = (place > 0) | ok[appends]
    appends, rank = appends[judged], rank[judged]
    _flag_late(
        c,
        rows=np.concatenate([appends, reads]),
        rank=np.concatenate([rank, 2 * c.list_size[reads] + 1]),
        ok=ok,
        flagged=flagged,
    )
    return flagged


def _flag_torn(c: Columns, reads: Ints, own: Ints, flagged: Bools) -> None:
    """Flags keys with a list that is no prefix of the longest, `own`."""
    size = c.list_size[reads]
    whose = np.repeat(np.arange(len(reads)), size)
    nth = np.arange(len(whose)) - np.repeat(np.cumsum(size) - size, size)
    here = c.elements[c.list_start[reads[whose]] + nth]
    there = c.elements[c.list_start[own[whose]] + nth]
    flagged[c.key[reads[whose[here != there]]]] = True


def _places(c: Columns, longest: Ints, appends: Ints, flagged: Bools) -> Ints:
    """Returns the place of each append in its key's longest list, from 1; 0 if it isn't there.

    Flags keys whose longest list shows an element twice, or one that no operation appended.
    """
    ends = longest[longest >= 0]
    size = c.list_size[ends]
    whose = np.repeat(np.arange(len(ends)), size)
    nth = np.arange(len(whose)) - np.repeat(np.cumsum(size) - size, size)
    key, element = c.key[ends[whose]], c.elements[c.list_start[ends[whose]] + nth]
    every_key = np.concatenate([key, c.key[appends]])
    every_element = np.concatenate([element, c.value[appends]])
    order = _by_key(every_key, every_element)
    shown = order < len(key)
    fresh = np.ones(len(order), bool)
    fresh[1:] = (np.diff(every_key[order]) != 0) | (
        every_element[order][1:] != every_element[order][:-1]
    )
    flagged[every_key[order[shown & ~fresh]]] = True  # twice: the shown ones come first
    leader = order[np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))]
    known = ~shown & (leader < len(key))
    place = np.zeros(len(appends), np.int64)
    place[order[known] - len(key)] = nth[leader[known]] + 1
    appended = np.zeros(len(key), bool)
    appended[leader[known]] = True
    flagged[key[~appended]] = True
    return place


def _flag_late(c: Columns, *, rows: Ints, rank: Ints, ok: Bools, flagged: Bools) -> None:
    """Flags keys where an operation starts after one of higher rank has finished."""
    starts = rank != NEVER_NS
    ends = ok[rows]
    key = np.concatenate([c.key[rows[starts]], c.key[rows[ends]]])
    time = np.concatenate([c.inv[rows[starts]], c.fin[rows[ends]]])
    ranks = np.concatenate([rank[starts], rank[ends]])
    finish = np.arange(len(key)) >= int(starts.sum())
    order = np.lexsort((finish, time, key))
    key, ranks, finish = key[order], ranks[order], finish[order]
    # Each key's ranks are raised above those of all keys before it: one maximum serves all keys.
    _, dense = np.unique(ranks, return_inverse=True)
    lift = key * (int(dense.max(initial=0)) + 2)
    highest = np.maximum.accumulate(np.where(finish, lift + dense + 1, lift))
    flagged[key[~finish & (lift + dense + 1 < highest)]] = True


def _by_key(key: Ints, value: Ints) -> Ints:
    """Returns the stable order by key and then value; rows of a key already lie together."""
    by_value = np.argsort(value, kind="stable")
    return by_value[np.argsort(key[by_value], kind="stable")]


def _or_never(times: Ints) -> Ints:
    return np.where(times == NULL, NEVER_NS, times)
