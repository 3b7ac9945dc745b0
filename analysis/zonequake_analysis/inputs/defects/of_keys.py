"""Defects of a key and of a process that only a bucket's operations together show. Pure."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zonequake_analysis.inputs.defects.of_history import (
    MOST_EXAMPLES,
    Defects,
    HistoryDefect,
    HistoryDefectKind,
    plain,
)
from zonequake_analysis.inputs.shapes import NEVER_NS, Function, OutcomeCode

Ints = NDArray[np.int64]


def without_refused(ops: pa.Table, defects: Defects) -> pa.Table:
    """Returns the operations of keys that can be judged."""
    if defects.everything:
        return ops.slice(0, 0)
    if not defects.refused or not ops.num_rows:
        return ops
    wanted = np.array(defects.refused, np.int64).reshape(-1, 2)
    partition, key = (ops.column(name).to_numpy() for name in ("partition_id", "key_id"))
    near = np.flatnonzero(np.isin(key, wanted[:, 1]))
    named = set(defects.refused)
    keep = np.ones(ops.num_rows, bool)
    for row in near.tolist():
        keep[row] = (int(partition[row]), int(key[row])) not in named
    return ops.filter(pa.array(keep))


def two_uses(ops: pa.Table) -> Defects:
    """Returns the keys that are written both as a register and as a list.

    Writes that certainly never happened don't count, and neither do reads: a read of another kind
    than what was written is the mistake of the store.
    """
    if not ops.num_rows:
        return Defects()
    f = ops.column("f").to_numpy()
    happened = ops.column("outcome").to_numpy() != OutcomeCode.FAIL.value
    listed = np.flatnonzero(happened & (f == Function.APPEND.value))
    if not len(listed):
        return Defects()
    register = np.flatnonzero(happened & ((f == Function.WRITE.value) | (f == Function.CAS.value)))
    partition, key = (ops.column(name).to_numpy() for name in ("partition_id", "key_id"))
    # Compare key ids alone first: both kinds hardly ever share one.
    if not np.isin(register_keys := np.unique(key[register]), key[listed]).any():
        return Defects()
    both = np.intersect1d(register_keys, key[listed])
    first: dict[tuple[int, int], int] = {}
    for row in register[np.isin(key[register], both)].tolist():
        first.setdefault((int(partition[row]), int(key[row])), row)
    found: dict[tuple[int, int], HistoryDefect] = {}
    for row in listed[np.isin(key[listed], both)].tolist():
        name = (int(partition[row]), int(key[row]))
        if name in first and name not in found:
            found[name] = _two_uses(ops, first[name], row)
    return Defects(
        counts={HistoryDefectKind.TWO_USES.value: len(found)} if found else {},
        examples=sorted(found.values(), key=lambda defect: defect.origins)[:MOST_EXAMPLES],
        refused=list(found),
    )


def appended_again(ops: pa.Table) -> Defects:
    """Returns the lists to which two operations appended one value.

    A list that shows it twice would look like an append that was applied twice. Appends that
    certainly never happened don't count.
    """
    if not ops.num_rows:
        return Defects()
    appended = ops.column("f").to_numpy() == Function.APPEND.value
    appended &= ops.column("outcome").to_numpy() != OutcomeCode.FAIL.value
    rows = np.flatnonzero(appended & ops.column("value").is_valid().to_numpy())
    value = ops.column("value").fill_null(0).to_numpy()[rows]
    if len(np.unique(value)) == len(rows):  # values of the load are unique in the run
        return Defects()
    partition, key, origin = (
        ops.column(name).to_numpy()[rows] for name in ("partition_id", "key_id", "origin")
    )
    order = np.lexsort((origin, value, key, partition))
    again = np.ones(max(0, len(rows) - 1), bool)
    for column in (partition, key, value):
        again &= np.diff(column[order]) == 0
    earlier, later = rows[order[:-1][again]].tolist(), rows[order[1:][again]].tolist()
    partition, key = (ops.column(name).to_numpy() for name in ("partition_id", "key_id"))
    found: dict[tuple[int, int], HistoryDefect] = {}
    for first, second in zip(earlier, later, strict=True):
        name = (int(partition[first]), int(key[first]))
        if name not in found:
            found[name] = _appended_again(ops, first, second)
    return Defects(
        counts={HistoryDefectKind.APPENDED_AGAIN.value: len(found)} if found else {},
        examples=sorted(found.values(), key=lambda defect: defect.origins)[:MOST_EXAMPLES],
        refused=list(found),
    )


def _appended_again(ops: pa.Table, first: int, second: int) -> HistoryDefect:
    key, where = _named(ops, first)
    ops_named = [f"{{}} (op `{plain(ops.column('op')[row].as_py())}`)" for row in (first, second)]
    return HistoryDefect(
        kind=HistoryDefectKind.APPENDED_AGAIN,
        field="value",
        words=f"key `{key}` of {where} got {ops.column('value')[first].as_py()} at {ops_named[0]} "
        f"and again at {ops_named[1]}",
        origins=[ops.column("origin")[row].as_py() for row in (first, second)],
    )


def _named(ops: pa.Table, row: int) -> tuple[str, str]:
    """Returns the key of a row, and its zone with its partition, as a sentence shows them."""
    where = f"{ops.column('zone')[row].as_py() or ''}/{ops.column('partition')[row].as_py()}"
    return plain(ops.column("key")[row].as_py()), plain(where)


def _two_uses(ops: pa.Table, register: int, listed: int) -> HistoryDefect:
    def one(row: int) -> str:
        f = Function(ops.column("f")[row].as_py()).name.lower()
        return f"{{}} (`f` {f}, op `{plain(ops.column('op')[row].as_py())}`)"

    key, where = _named(ops, listed)
    return HistoryDefect(
        kind=HistoryDefectKind.TWO_USES,
        field="key",
        words=f"key `{key}` of {where} is a register at {one(register)} "
        f"and a list at {one(listed)}",
        origins=[ops.column("origin")[row].as_py() for row in (register, listed)],
    )


def overlaps(ops: pa.Table, partitions: Collection[int], *, clock_offset_ns: int) -> Defects:
    """Returns operations of one process that ran at the same time: they have no session order.

    Looks only at these partitions. `clock_offset_ns`: by how much both ends of intervals were
    widened.
    """
    if not partitions:
        return Defects()
    partition_id = ops.column("partition_id").to_numpy()
    # All steps of a transaction run at the same time.
    first_step = ops.column("step").fill_null(0).to_numpy() == 0
    rows = np.flatnonzero(
        first_step & np.isin(partition_id, np.array(sorted(partitions), np.int64))
    )
    process, inv, fin = (ops.column(n).to_numpy()[rows] for n in ("process", "inv", "fin"))
    # An unanswered operation has no place, and its process should not have gone on.
    fin = np.where(fin == NEVER_NS, np.iinfo(np.int64).min, fin)
    order = np.lexsort((inv, process, partition_id[rows]))
    rows, process, inv, fin = rows[order], process[order], inv[order], fin[order]
    origin = ops.column("origin").to_numpy()[rows]
    at, by = _overlapping(partition_id[rows], process, inv, fin, 2 * clock_offset_ns)
    first = np.lexsort((rows[at], rows[by], origin[at], origin[by]))[:MOST_EXAMPLES]
    pairs = zip(rows[by[first]].tolist(), rows[at[first]].tolist(), strict=True)
    named = _with_later_steps(ops, rows[np.union1d(at, by)])
    key_id = ops.column("key_id").to_numpy()
    names = zip(partition_id[named].tolist(), key_id[named].tolist(), strict=True)
    return Defects(
        counts={HistoryDefectKind.OVERLAP.value: len(at)} if len(at) else {},
        examples=[_overlap(ops, earlier, later) for earlier, later in pairs],
        refused=sorted(set(names)),
    )


def _with_later_steps(ops: pa.Table, rows: Ints) -> Ints:
    """Returns these operations, and all steps of those that are the first of a transaction."""
    begun = [ops.column(name).to_numpy() for name in ("partition_id", "process", "inv")]
    later = np.flatnonzero(ops.column("step").fill_null(0).to_numpy() > 0)
    later = later[np.isin(begun[2][later], begun[2][rows])]
    named = set(zip(*(column[rows].tolist() for column in begun), strict=True))
    its = zip(*(column[later].tolist() for column in begun), strict=True)
    more = [row for row, one in zip(later.tolist(), its, strict=True) if one in named]
    return np.concatenate([rows, np.array(more, np.int64)])


def _overlapping(
    partition: Ints, process: Ints, inv: Ints, fin: Ints, uncertain_ns: int
) -> tuple[Ints, Ints]:
    """Returns the operations that began too early, and for each the one that ended last of those
    before it, the earliest if several did.

    The operations are ordered by `partition`, `process` and `inv`; both results are their places.
    """
    if not len(inv):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    begins = np.append(True, (np.diff(partition) != 0) | (np.diff(process) != 0))
    # The end's rank, above all ranks of the sessions before: a running maximum starts over in each.
    _, rank = np.unique(fin, return_inverse=True)
    reached = np.cumsum(begins) * len(fin) + rank
    later = np.append(True, reached[1:] > np.maximum.accumulate(reached)[:-1])
    last = np.maximum.accumulate(np.where(later, np.arange(len(fin)), 0))
    at = np.flatnonzero(~begins)
    by = last[at - 1]
    # Without a sign the difference is right however far both are apart.
    lasted_ns = fin[by].astype(np.uint64) - inv[at].astype(np.uint64)
    early = (fin[by] > inv[at]) & (lasted_ns > np.uint64(uncertain_ns))
    return at[early], by[early]


def _overlap(ops: pa.Table, earlier: int, later: int) -> HistoryDefect:
    first, second = (plain(ops.column("op")[row].as_py()) for row in (earlier, later))
    process = ops.column("process")[later].as_py()
    return HistoryDefect(
        kind=HistoryDefectKind.OVERLAP,
        field="process",
        words=f"{{}}, field `process`: {process} ended op `{first}` here, and began op `{second}` "
        "({}) before that",
        origins=[ops.column("origin")[row].as_py() for row in (earlier, later)],
    )


def orphans(count: int, origins: Ints) -> Defects:
    """Returns the defect of completions that have no invoke."""
    if not count:
        return Defects()
    return Defects(
        counts={HistoryDefectKind.ORPHAN.value: count},
        examples=[
            HistoryDefect(
                kind=HistoryDefectKind.ORPHAN,
                field="op",
                words="{}, field `op`: no invoke has this name, with the same key, process and "
                "`inv`",
                origins=[origin],
            )
            for origin in np.sort(origins)[:MOST_EXAMPLES].tolist()
        ],
    )
