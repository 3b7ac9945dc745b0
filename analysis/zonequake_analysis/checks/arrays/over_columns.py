"""The exact checks over operations as arrays: what `loss`, `register_zones`, `list_prefixes`,
`claimed_order`, `sets` and `diverged` find in SQL, many times faster.

A store that answers from old state makes most keys suspects, and Spark takes seconds to plan a
check of a few rows. `over_files` brings these checks their operations. Keys of which arrays can't
tell (`unclear`) are left to SQL; tests compare the two, row by row, on random histories.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zonequake_analysis.checks import claimed_order, list_prefixes, loss, register_zones
from zonequake_analysis.checks.arrays.diverged import found_diverged
from zonequake_analysis.checks.arrays.replay import replayed
from zonequake_analysis.checks.arrays.sets import sets
from zonequake_analysis.checks.found_rows import FoundRows, batches
from zonequake_analysis.checks.screens import claimed, sessions
from zonequake_analysis.checks.screens.black_box import register_clusters
from zonequake_analysis.checks.screens.columns import NULL, Bools, Columns, Ints, columns
from zonequake_analysis.checks.screens.loss import of_lists, register_versions
from zonequake_analysis.checks.screens.prefixes import without_prefix
from zonequake_analysis.checks.screens.segments import (
    NEVER,
    NOTHING,
    heads,
    lookup,
    ordered,
    running,
    spread,
)
from zonequake_analysis.inputs.shapes import Function, OutcomeCode

NEEDED = (
    "partition_id",
    "key_id",
    "process",
    "f",
    "outcome",
    "inv",
    "fin",
    "position",
    "value",
    "list",
    "expected",
    "found",
    "applied",
    "bounded",
    "copy",
    "node",
)
"""The columns of operations that these checks read."""


def found_in_order(ops: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yields values that the claimed order contradicts, and members that have diverged.

    `ops`: whole keys, in the order of the layout.
    """
    c = columns(ops)
    if not c.keys:
        return
    judged, writes, unanswered, clear = _claimed(c)
    for rows in (
        replayed(c, judged, writes, unanswered),
        found_diverged(c, _members(ops), judged, writes),
    ):
        yield from _batches(c, rows, clear)


def found_in_sets(ops: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yields phantoms, aborted reads, duplicates and wrong refusals.

    `ops`: whole keys, in the order of the layout.
    """
    c = columns(ops)
    if not c.keys:
        return
    *_, clear = _claimed(c)
    for rows in sets(c, _members(ops)):
        yield from _batches(c, rows, clear)


def _claimed(c: Columns) -> tuple[Bools, Bools, claimed.Unanswered, Bools]:
    """Returns which rows are judged and which write, the writes without an answer, and, by key,
    whether arrays can tell."""
    judged, writes = claimed.judged_rows(c)
    unanswered = claimed.unanswered_writes(c, judged, writes)
    return judged, writes, unanswered, ~(unanswered.doubtful | c.odd)


def _members(ops: pa.Table) -> Ints:
    """Returns the node of each row as a number, -1 where there is none."""
    coded = ops.column("node").combine_chunks().dictionary_encode().indices
    result: Ints = coded.fill_null(-1).to_numpy().astype(np.int64)
    return result


def _batches(c: Columns, rows: FoundRows, clear: Bools) -> Iterator[pa.RecordBatch]:
    yield from batches(
        rows,
        partition_ids=c.partition_ids[c.partition_of],
        key_ids=c.key_ids,
        kept=clear[rows.key],
    )


def found_among(ops: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yields lost writes, stale reads, flicker, registers and lists without an order, and what
    breaks real time in the claimed order.

    `ops`: whole keys, in the order of the layout.
    """
    c = columns(ops)
    if not c.keys:
        return
    judged, writes, unanswered, clear = _claimed(c)
    found = (late(c, judged, writes, unanswered), *missed(c), without_order(c), torn_lists(c))
    for rows in found:
        yield from _batches(c, rows, clear)


def sessions_among(ops: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yields sessions that went back (`loss.sessions`).

    `ops`: all operations of their partitions, in any order.
    """
    answered = ops.filter(
        pc.field("position").is_valid()
        & (pc.field("outcome") == OutcomeCode.OK.value)
        & ~pc.field("bounded")
    )
    partition, key, process, inv, position = (
        answered.column(name).to_numpy()
        for name in ("partition_id", "key_id", "process", "inv", "position")
    )
    back = sessions.gone_back(partition=partition, process=process, inv=inv, position=position)
    value = answered.column("value").fill_null(NULL).to_numpy()
    found = FoundRows(
        check=loss.CHECK,
        kinds=("session",),
        kind=np.zeros(len(back.rows), np.int64),
        key=back.rows,
        value=value[back.rows],
        at_ns=inv[back.rows],
        position=back.reached,
        magnitude_ns=np.full(len(back.rows), NULL),
    )
    yield from batches(found, partition_ids=partition, key_ids=key)


def late(c: Columns, judged: Bools, writes: Bools, unanswered: claimed.Unanswered) -> FoundRows:
    """Returns operations that start after one of higher rank has finished (`real_time`)."""
    answered = c.outcome == OutcomeCode.OK.value
    placed = unanswered.rank != claimed.NO_RANK
    certain = np.flatnonzero(judged & answered)
    rows = np.concatenate([unanswered.rows[placed], certain])
    rank = np.concatenate([unanswered.rank[placed], 2 * c.position[certain] + ~writes[certain]])
    # By key and rank, then by start; from the end the highest rank and the latest start come first.
    by_start = np.argsort(rows, kind="stable")
    rows, rank = rows[by_start], rank[by_start]
    order = ordered(c.key[rows], rank)[::-1]
    rows, rank = rows[order], rank[order]
    finish = np.where(answered[rows], c.fin[rows], NEVER)
    head = heads(c.key[rows])
    earliest = running(finish, head, np.minimum, NEVER)
    # Of equal finishes the lower rank is named, as in SQL.
    sets = (finish <= earliest) & (finish != NEVER)
    newest = np.maximum.accumulate(np.where(sets, np.arange(len(rows)), -1))
    by = np.concatenate([[-1], newest[:-1]])[: len(rows)]
    bad = np.flatnonzero(earliest < c.inv[rows])
    return FoundRows(
        check=claimed_order.CHECK,
        kinds=("order",),
        kind=np.zeros(len(bad), np.int64),
        key=c.key[rows[bad]],
        value=c.value[rows[bad]],
        at_ns=c.inv[rows[bad]],
        position=rank[by[bad]] >> 1,
        magnitude_ns=np.full(len(bad), NULL),
    )


def without_order(c: Columns) -> FoundRows:
    """Returns values of registers that no order explains (`register_zones.zones`)."""
    clusters = register_clusters(c)
    code = register_zones.violations(clusters)
    bad = np.flatnonzero(code)
    nothing = np.full(len(bad), NULL)
    return FoundRows(
        check=register_zones.CHECK,
        kinds=register_zones.KINDS,
        kind=code[bad].astype(np.int64),
        key=clusters.key[bad],
        value=clusters.value[bad],
        at_ns=clusters.last_start[bad],
        position=nothing,
        magnitude_ns=nothing,
        has_values=True,
    )


def torn_lists(c: Columns) -> FoundRows:
    """Returns operations on lists that no order explains (`list_prefixes.prefixes`)."""
    found = without_prefix(c)
    rows, keys = np.concatenate([found.torn, found.late]), found.invented
    kinds = ("not-prefix", "stale", "element-twice", "phantom")
    nothing = np.full(len(rows) + len(keys), NULL)
    value = nothing.copy()
    value[len(found.torn) : len(rows)] = c.value[found.late]
    return FoundRows(
        check=list_prefixes.CHECK,
        kinds=kinds,
        kind=np.concatenate(
            [np.repeat([0, 1], [len(found.torn), len(found.late)]), np.where(found.twice, 2, 3)]
        ),
        key=np.concatenate([c.key[rows], keys]),
        value=value,
        at_ns=np.concatenate([c.inv[rows], found.last_start]),
        position=nothing,
        magnitude_ns=nothing,
    )


def missed(c: Columns) -> Iterator[FoundRows]:
    """Yields lost writes, stale reads and flicker (`loss.missed`)."""
    judged = (c.outcome == OutcomeCode.OK.value) & ~c.bounded
    rows, version, write = register_versions(c, judged)
    refused = (c.f == Function.CAS.value) & ~c.applied
    shown = np.where(refused, c.found, c.value)[rows]
    yield _swept(c, rows, version, write, shown)
    yield from _lists(c, judged)


def _lists(c: Columns, judged: Bools) -> Iterator[FoundRows]:
    reads, appends, last = of_lists(c, judged)
    keys = np.flatnonzero(last >= 0)
    ends = last[keys]
    owner, at = spread(c.list_start[ends], c.list_size[ends])
    place = lookup(keys[owner], c.elements[at], c.key[appends], c.value[appends])
    of_append = last[c.key[appends]]
    lost = (place < 0) & (c.fin[appends] < c.inv[of_append]) & (c.value[appends] != NULL)
    gone, seen_at = appends[lost], c.inv[of_append[lost]]
    yield FoundRows(
        check=loss.CHECK,
        kinds=("lost",),
        kind=np.zeros(len(gone), np.int64),
        key=c.key[gone],
        value=c.value[gone],
        at_ns=seen_at,
        position=np.full(len(gone), NULL),
        magnitude_ns=seen_at - c.fin[gone],
    )
    there = place >= 0
    ranks = at[place[there]] - c.list_start[of_append[there]] + 1
    rows = np.concatenate([reads, appends[there]])
    version = np.concatenate([_shared(c, reads, last), ranks])
    order = np.argsort(rows, kind="stable")
    rows, version = rows[order], version[order]
    yield _swept(c, rows, version, c.f[rows] == Function.APPEND.value, c.value[rows])


def _shared(c: Columns, reads: Ints, last: Ints) -> Ints:
    """Returns how many elements each list shares with the last one of its key."""
    size, of_last = c.list_size[reads], last[c.key[reads]]
    common = np.minimum(size, c.list_size[of_last])
    owner, at = spread(c.list_start[reads], common)
    other = c.list_start[of_last[owner]] + at - c.list_start[reads[owner]]
    torn = size > common
    torn[owner[c.elements[at] != c.elements[other]]] = True
    shared = size.copy()
    for number in np.flatnonzero(torn):
        mine, ends = (
            c.elements[c.list_start[row] : c.list_start[row] + c.list_size[row]]
            for row in (reads[number], of_last[number])
        )
        shared[number] = len(np.intersect1d(mine, ends))
    return shared


def _swept(c: Columns, rows: Ints, version: Ints, acked: Bools, element: Ints) -> FoundRows:
    """Returns reads of a lower version than was known when they started; rows by key and start."""
    asks = np.flatnonzero(~acked)
    # Starts come before finishes here, so a stable sort keeps that order at equal times.
    who = np.concatenate([asks, np.arange(len(rows))])
    time = np.concatenate([c.inv[rows[asks]], c.fin[rows]])
    starts = np.arange(len(who)) < len(asks)
    order = ordered(c.key[rows[who]], time)
    who, time, starts = who[order], time[order], starts[order]
    key = c.key[rows[who]]
    head = heads(key)

    def before(wanted: Bools, values: Ints) -> Ints:
        return running(np.where(wanted, values, NOTHING), head, np.maximum, NOTHING)

    by_write = ~starts & acked[who]
    acked_before = before(by_write, version[who])
    known_at = before(by_write, time)
    known = before(~starts, version[who])
    last = np.full(c.keys, -1)
    last[key[starts]] = np.flatnonzero(starts)
    bad = np.flatnonzero(starts & (version[who] < known))
    mine, end = version[who[bad]], last[key[bad]]
    missed_write = mine < acked_before[bad]
    is_last = time[bad] == time[end]
    flickers = ~missed_write & (version[who[end]] >= known[bad])
    unknown = known_at[bad] == NOTHING
    kinds = ("lost", "stale", "flicker")
    return FoundRows(
        check=loss.CHECK,
        kinds=kinds,
        kind=np.where(missed_write & is_last, 0, np.where(flickers, 2, 1)),
        key=key[bad],
        value=element[who[bad]],
        at_ns=time[bad],
        position=known[bad],
        magnitude_ns=np.where(unknown, NULL, time[bad] - np.where(unknown, 0, known_at[bad])),
    )
