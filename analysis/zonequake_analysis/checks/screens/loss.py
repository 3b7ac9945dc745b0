"""Screen of `loss`: reads that miss what was known. That of sessions is in `sessions`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zonequake_analysis.checks.screens.columns import NULL, Bools, Columns, Ints
from zonequake_analysis.checks.screens.segments import (
    NEVER,
    NOTHING,
    heads,
    lookup,
    marked,
    ordered,
    running,
    spread,
)
from zonequake_analysis.inputs.shapes import Function, OutcomeCode

_ABSENT = -1
"""Version of an absent key, below every place."""


def suspects(c: Columns) -> Bools:
    """Returns, by key, whether `loss` could find a lost value, a stale read or flicker."""
    judged = (c.outcome == OutcomeCode.OK.value) & ~c.bounded
    rows, version, write = register_versions(c, judged)
    list_rows, list_version, bad = _lists(c, judged)
    rows = np.concatenate([rows, list_rows])
    version = np.concatenate([version, list_version])
    write = np.concatenate([write, c.f[list_rows] == Function.APPEND.value])
    asks = np.flatnonzero(~write)
    # Starts come before finishes here, so a stable sort keeps that order at equal times.
    key = np.concatenate([c.key[rows[asks]], c.key[rows]])
    time = np.concatenate([c.inv[rows[asks]], c.fin[rows]])
    known = np.concatenate([np.full(len(asks), NOTHING), version])
    order = ordered(key, time)
    before = running(known[order], heads(key[order]), np.maximum, NOTHING)
    start = order < len(asks)
    late = version[asks[order[start]]] < before[start]
    bad[key[order[start][late]]] = True
    return bad | c.odd


def register_versions(c: Columns, judged: Bools) -> tuple[Ints, Ints, Bools]:
    """Returns the rows of registers with a version, the versions, and which rows are writes."""
    cas = c.f == Function.CAS.value
    write = (c.f == Function.WRITE.value) | (cas & c.applied)
    rows = np.flatnonzero(judged & ~c.has_list & (c.f != Function.APPEND.value))
    element = np.where(cas & ~write, c.found, c.value)[rows]
    key, writes, at = c.key[rows], write[rows], c.position[rows]
    order = ordered(key, element)
    head = heads(key[order], element[order])
    version = np.full(len(rows), NEVER)
    if len(rows):
        first = np.flatnonzero(head)
        written = np.maximum.reduceat(np.where(writes, at, -1)[order], first)
        seen = np.minimum.reduceat(np.where(~writes & (at >= 0), at, NEVER)[order], first)
        group = np.cumsum(head) - 1
        version[order] = np.where(written >= 0, written, seen)[group]
    version[element == NULL] = _ABSENT
    has = version != NEVER
    return rows[has], version[has], writes[has]


def of_lists(c: Columns, judged: Bools) -> tuple[Ints, Ints, Ints]:
    """Returns the rows that read lists, those that append to a list with a read, and by key the row
    of its last read; -1 for a key without one."""
    append = c.f == Function.APPEND.value
    absent = (c.f == Function.READ.value) & (c.value == NULL)
    mine = judged & (append | c.has_list | absent)
    is_list = marked(c.key[mine & (append | c.has_list)], c.keys)
    last = np.full(c.keys, -1)
    reads = np.flatnonzero(mine & ~append & is_list[c.key])
    last[c.key[reads]] = reads  # rows are ordered by start, so the last one stays
    return reads, np.flatnonzero(mine & append & (last[c.key] >= 0)), last


def _lists(c: Columns, judged: Bools) -> tuple[Ints, Ints, Bools]:
    """Returns the rows of lists with a version, the versions, and the keys that are suspects
    already.

    A list's version is its length if it is a prefix of the key's last list; otherwise the key is a
    suspect.
    """
    reads, appends, last = of_lists(c, judged)
    bad = np.zeros(c.keys, bool)
    of_read = last[c.key[reads]]
    size = c.list_size[reads]
    bad[c.key[reads[size > c.list_size[of_read]]]] = True
    tie = (c.inv[reads] == c.inv[of_read]) & (size != c.list_size[of_read])
    bad[c.key[reads[tie]]] = True
    owner, place = spread(c.list_start[reads], np.minimum(size, c.list_size[of_read]))
    other = c.list_start[of_read[owner]] + place - c.list_start[reads[owner]]
    bad[c.key[reads[owner[c.elements[place] != c.elements[other]]]]] = True
    keys = np.flatnonzero(last >= 0)
    ends = last[keys]
    owner, place = spread(c.list_start[ends], c.list_size[ends])
    row = lookup(keys[owner], c.elements[place], c.key[appends], c.value[appends])
    missing = row < 0
    ahead = c.fin[appends] < c.inv[last[c.key[appends]]]
    bad[c.key[appends[missing & ahead]]] = True
    there = appends[~missing]
    rank = place[row[~missing]] - c.list_start[last[c.key[there]]] + 1
    # `register_versions` gives a read of an absent key this version; an empty list gets the same.
    shown_version = np.where(size == 0, _ABSENT, size)
    return np.concatenate([reads, there]), np.concatenate([shown_version, rank]), bad


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Numbers of operations, all exact: acknowledged writes, those that no later read of their key
    covers, and the writes and reads that `loss` can judge."""

    acknowledged: int
    uncovered: int
    compared_writes: int
    compared_reads: int


def coverage(c: Columns) -> Coverage:
    """Counts what `loss` can judge of acknowledged writes, and of reads."""
    judged = (c.outcome == OutcomeCode.OK.value) & ~c.bounded
    write = (
        (c.f == Function.WRITE.value)
        | (c.f == Function.APPEND.value)
        | ((c.f == Function.CAS.value) & c.applied)
    )
    last_read = np.full(c.keys, NOTHING)
    reads = np.flatnonzero(judged & ~write)
    last_read[c.key[reads]] = c.inv[reads]  # in the order of their starts
    covered = last_read[c.key] > c.fin
    compared = _compared(c, judged)
    return Coverage(
        acknowledged=int((judged & write).sum()),
        uncovered=int((judged & write & ~covered).sum()),
        compared_writes=int((compared & write & covered).sum()),
        compared_reads=int((compared & (c.f == Function.READ.value)).sum()),
    )


def _compared(c: Columns, judged: Bools) -> Bools:
    """Returns the rows with a version, by which `loss` compares them.

    A list's versions are in its last read, without any place. An absent register is before its
    versions, if it has any.
    """
    rows, version, _ = register_versions(c, judged)
    has_any = marked(c.key[rows[version != _ABSENT]], c.keys)
    reads, appends, _ = of_lists(c, judged)
    found = np.zeros(len(c.key), bool)
    for chosen in (rows[has_any[c.key[rows]]], reads, appends):
        found[chosen] = True
    return found
