"""Exact check of append-lists over arrays: what `list_prefixes.prefixes` finds in SQL.

The screen of the black box flags the keys of these findings, so that it is exact. As all of the
black box it shares no logic with the claimed order, nor the sorting and folding that it uses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zonequake_analysis.checks.screens.columns import NULL, Bools, Columns, Ints
from zonequake_analysis.inputs.shapes import NEVER_NS, Function, OutcomeCode

_UNSEEN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutPrefix:
    """Operations and keys that no order of appends explains: `torn` and `late` are rows.

    Of each key of `invented`, `twice` says whether its longest list shows an element twice, else it
    shows one that no operation appended; `last_start` is the last begin of its operations, in ns.
    """

    torn: Ints
    late: Ints
    invented: Ints
    twice: Bools
    last_start: Ints


def without_prefix(c: Columns) -> WithoutPrefix:
    """Returns the operations and keys that `prefixes` finds; of keys that are `odd`, anything."""
    ok = c.outcome == OutcomeCode.OK.value
    append = c.f == Function.APPEND.value
    usable = (
        (append & (c.outcome != OutcomeCode.FAIL.value)) | ((c.f == Function.READ.value) & ok)
    ) & (~c.bounded & (append | c.has_list | (c.value == NULL)))
    is_list = np.bincount(c.key[usable & (append | c.has_list)], minlength=c.keys) > 0
    rows = np.flatnonzero(usable & is_list[c.key])
    reads, appends = rows[~append[rows]], rows[append[rows]]
    longest = np.full(c.keys, _UNSEEN)
    rising = reads[np.argsort(c.list_size[reads], kind="stable")]
    longest[c.key[rising]] = rising
    place = _places(c, longest, appends)
    seen = place > 0
    ranked = seen | ok[appends]
    rank = np.where(seen, 2 * place, NEVER_NS)[ranked]
    every = np.concatenate([appends[ranked], reads])
    invented, twice = _invented(c, longest, appends[seen])
    last_start = np.full(c.keys, NULL)
    np.maximum.at(last_start, c.key[every], c.inv[every])
    return WithoutPrefix(
        torn=_torn(c, reads, longest[c.key[reads]]),
        late=_late(c, every, np.concatenate([rank, 2 * c.list_size[reads] + 1]), ok),
        invented=invented,
        twice=twice,
        last_start=last_start[invented],
    )


def _elements(c: Columns, lists: Ints) -> tuple[Ints, Ints]:
    """Returns of each element of these rows' lists the number of its list and its place there."""
    size = c.list_size[lists]
    whose = np.repeat(np.arange(len(lists)), size)
    return whose, np.arange(len(whose)) - np.repeat(np.cumsum(size) - size, size)


def _torn(c: Columns, reads: Ints, longest: Ints) -> Ints:
    """Returns the reads whose list is no prefix of the longest one of their key."""
    whose, nth = _elements(c, reads)
    here = c.elements[c.list_start[reads[whose]] + nth]
    there = c.elements[c.list_start[longest[whose]] + nth]
    differs = np.zeros(len(reads), bool)
    differs[whose[here != there]] = True
    return reads[differs]


def _places(c: Columns, longest: Ints, appends: Ints) -> Ints:
    """Returns each append's first place in its key's longest list, from 1; 0 if it isn't there."""
    ends = longest[longest != _UNSEEN]
    whose, nth = _elements(c, ends)
    shown = len(whose)
    key = np.concatenate([c.key[ends[whose]], c.key[appends]])
    element = np.concatenate([c.elements[c.list_start[ends[whose]] + nth], c.value[appends]])
    # Of one key and element those in the list come first, in the order of the list.
    order = np.lexsort((element, key))
    fresh = np.ones(len(order), bool)
    fresh[1:] = (np.diff(key[order]) != 0) | (element[order][1:] != element[order][:-1])
    leader = order[np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))]
    found = (order >= shown) & (leader < shown)
    place = np.zeros(len(appends), np.int64)
    place[order[found] - shown] = nth[leader[found]] + 1
    return place


def _invented(c: Columns, longest: Ints, seen: Ints) -> tuple[Ints, Bools]:
    """Returns the keys whose longest list has fewer elements that were appended than it shows, and
    of each whether one stands there twice. `seen`: the appends whose element it shows.
    """
    keys = np.flatnonzero(longest != _UNSEEN)
    ends = longest[keys]
    whose, nth = _elements(c, ends)
    element = c.elements[c.list_start[ends[whose]] + nth]
    order = np.lexsort((element, whose))
    whose, element = whose[order], element[order]
    again = np.zeros(len(order), bool)
    again[1:] = (whose[1:] == whose[:-1]) & (element[1:] == element[:-1])
    size = c.list_size[ends]
    different = size - np.bincount(whose[again], minlength=len(keys))
    appended = np.bincount(c.key[seen], minlength=c.keys)[keys]
    bad = (appended < different) | (different < size)
    return keys[bad], (different < size)[bad]


def _late(c: Columns, rows: Ints, rank: Ints, ok: Bools) -> Ints:
    """Returns the operations that start after one of higher rank has finished.

    At equal times starts come first: such operations are concurrent.
    """
    ends = np.flatnonzero(ok[rows])
    who = np.concatenate([np.arange(len(rows)), ends])
    finish = np.arange(len(who)) >= len(rows)
    key, ranks = c.key[rows[who]], rank[who]
    time = np.where(finish, c.fin[rows[who]], c.inv[rows[who]])
    order = np.lexsort((finish, time, key))
    key, ranks, finish, who = key[order], ranks[order], finish[order], who[order]
    # Each key's ranks are raised above those of all keys before it: one maximum serves all keys.
    _, dense = np.unique(ranks, return_inverse=True)
    lift = key * (int(dense.max(initial=0)) + 2)
    highest = np.maximum.accumulate(np.where(finish, lift + dense + 1, lift))
    late: Ints = rows[who[~finish & (lift + dense + 1 < highest)]]
    return late
