"""Check 2 for registers: linearizability from the outside, by zones (Gibbons and Korach 1997).

This check trusts nothing that the store says of its order. Every written value is unique, so a read
names its write; a value with its write and its reads is a cluster, with

    f = earliest finish, s = latest start        (an unanswered write never finishes)

and cluster i must precede cluster j iff f_i < s_j. A history of reads and writes is linearizable
iff no read ends before its write starts and no two clusters must each precede the other. A cas
e → v puts v's cluster right after e's: chains of cas form one block that nothing else may enter,

    inside a block   no later version finishes before an earlier one starts
    between blocks   the same test with the block's earliest finish and latest start

SQL aggregates the operations into clusters. SQL can't follow the chains, so `violations` sweeps
each bucket's clusters as whole arrays. All of it is O(n log n).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zonequake_analysis.checks.findings import findings
from zonequake_analysis.inputs.shapes import ABSENT, NEVER_NS, Function, OutcomeCode

CHECK = "black-box"
BEFORE_ALL_NS = -(2**63)

_KEY = ["partition_id", "key_id"]
_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]

KINDS = ("", "phantom", "future-read", "cas-fork", "cas-order", "stale", "value-twice")
"""Faults of a cluster, by code; 0 is none."""

_PHANTOM, _FUTURE, _FORK, _CHAIN, _STALE, _TWICE = range(1, 7)


def zones(ops: DataFrame) -> DataFrame:
    """Returns clusters of registers that no order explains, as findings. Kinds are `KINDS`."""
    f = F.col("f")
    ok = F.col("outcome") == OutcomeCode.OK.value
    cas = f == Function.CAS.value
    refused = cas & ok & ~F.col("applied")
    writes = (f == Function.WRITE.value) | (cas & ~refused)
    clusters = (
        ops.where(
            (F.col("outcome") != OutcomeCode.FAIL.value)
            & (ok | writes)
            & ~F.col("bounded")
            & F.col("list").isNull()
            & (f != Function.APPEND.value)
        )
        .withColumns(
            {
                "element": F.coalesce(
                    F.when(refused, F.col("found")).otherwise(F.col("value")), F.lit(ABSENT)
                ),
                "writes": writes,
            }
        )
        .groupBy(*_KEY, "element")
        .agg(
            F.min("fin").alias("first_finish"),
            F.max("inv").alias("last_start"),
            F.coalesce(F.max(F.when(F.col("writes"), F.col("inv"))), F.lit(NEVER_NS)).alias(
                "write_start"
            ),
            F.coalesce(F.min(F.when(~F.col("writes"), F.col("fin"))), F.lit(NEVER_NS)).alias(
                "first_read_end"
            ),
            F.count_if("writes").alias("writes"),
            F.count_if(F.col("writes") & ok).alias("answered"),
            F.bool_or(F.col("writes") & cas).alias("by_cas"),
            F.coalesce(
                F.max(F.when(F.col("writes") & cas, F.col("expected"))), F.lit(ABSENT)
            ).alias("expected"),
        )
    )
    flagged = clusters.mapInArrow(
        _sweep_bucket, "partition_id bigint, key_id bigint, value bigint, at_ns bigint, code int"
    )
    kinds = F.array(*[F.lit(kind) for kind in KINDS])
    return findings(
        flagged, check=CHECK, kind=F.element_at(kinds, F.col("code") + 1), value="value"
    )


def _sweep_bucket(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the result of `violations` over all of a task's clusters; keys never cross tasks."""
    received = list(batches)
    if not received:
        return
    table = pa.Table.from_batches(received)
    columns = {name: table.column(name).to_numpy() for name in table.column_names}
    # A 64-bit hash names the key; it includes the partition's name, so partitions don't share it.
    verdict = violations(
        Clusters(
            key=columns["key_id"],
            value=columns["element"],
            first_finish=columns["first_finish"],
            last_start=columns["last_start"],
            write_start=columns["write_start"],
            first_read_end=columns["first_read_end"],
            writes=columns["writes"],
            answered=columns["answered"],
            by_cas=columns["by_cas"],
            expected=columns["expected"],
        )
    )
    bad = np.flatnonzero(verdict)
    yield pa.RecordBatch.from_pydict(
        {
            "partition_id": columns["partition_id"][bad],
            "key_id": columns["key_id"][bad],
            "value": columns["element"][bad],
            "at_ns": columns["last_start"][bad],
            "code": verdict[bad].astype(np.int32),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """One row per key and value, as equally long arrays; times in ns.

    `by_cas`: whether a cas wrote the value; `expected` is what it expected.
    """

    key: _Ints
    value: _Ints
    first_finish: _Ints
    last_start: _Ints
    write_start: _Ints
    first_read_end: _Ints
    writes: _Ints
    answered: _Ints
    by_cas: _Bools
    expected: _Ints


def violations(given: Clusters) -> NDArray[np.int8]:
    """Returns each cluster's fault as a code (index into `KINDS`), 0 for none.

    If every code of a key is 0, its history is linearizable; else it is not, unless one of them is
    `value-twice`: then the key can't be judged.
    """
    c, origin = _with_absent(given)
    size = len(c.key)
    code = np.zeros(size, dtype=np.int8)
    parent = _parents(c)
    reads = c.first_read_end != NEVER_NS
    initial = c.value == ABSENT
    live = _live((c.answered > 0) | reads | initial, parent)
    code[live & ~initial & (c.writes == 0)] = _PHANTOM
    code[live & c.by_cas & (parent < 0)] = _PHANTOM
    code[live & (c.first_read_end < c.write_start) & (c.writes > 0)] = _FUTURE
    parent = np.where(live, parent, -1)
    children = np.bincount(parent[parent >= 0], minlength=size)
    forked = (parent >= 0) & (children[np.maximum(parent, 0)] > 1)
    code[forked] = _FORK
    root, depth = _chains(np.where(forked, -1, parent))
    code[live & (depth < 0)] = _CHAIN
    first = np.where(initial, BEFORE_ALL_NS, c.first_finish)
    _check_chains(code, live, root, depth, first, c.last_start)
    _check_blocks(code, live, root, c.key, first, c.last_start)
    # Last, since the other rules need unique values: write 0, cas 0 to 1, cas 1 to 0 is no cycle.
    code[live & (c.writes > 1)] = _TWICE
    result = np.zeros(len(given.key), dtype=np.int8)
    own = origin >= 0
    result[origin[own]] = code[own]
    # A cluster added for an initial value that no operation read passes its fault to its successor.
    orphan = np.flatnonzero(~own & (code > 0))
    for row in orphan:
        result[origin[parent == row]] = code[row]
    return result


def _with_absent(c: Clusters) -> tuple[Clusters, _Ints]:
    """Adds the initial value of keys whose cas expected it though no operation read it; sorted.

    Also returns each row's place before, -1 for an added one.
    """
    wanted = np.unique(c.key[c.by_cas & (c.expected == ABSENT)])
    missing = np.setdiff1d(wanted, c.key[c.value == ABSENT])
    count = len(missing)

    def extended(column: _Ints, fill: int) -> _Ints:
        return np.concatenate([column, np.full(count, fill, dtype=np.int64)])

    key = np.concatenate([c.key, missing])
    value = extended(c.value, ABSENT)
    order = np.lexsort((value, key))
    origin = np.concatenate([np.arange(len(c.key)), np.full(count, -1)])[order]
    return (
        Clusters(
            key=key[order],
            value=value[order],
            first_finish=extended(c.first_finish, NEVER_NS)[order],
            last_start=extended(c.last_start, BEFORE_ALL_NS)[order],
            write_start=extended(c.write_start, BEFORE_ALL_NS)[order],
            first_read_end=extended(c.first_read_end, NEVER_NS)[order],
            writes=extended(c.writes, 0)[order],
            answered=extended(c.answered, 0)[order],
            by_cas=np.concatenate([c.by_cas, np.zeros(count, bool)])[order],
            expected=extended(c.expected, ABSENT)[order],
        ),
        origin.astype(np.int64),
    )


def _parents(c: Clusters) -> _Ints:
    """Returns the row of the cluster that each cas expected, -1 where there is none."""
    parent = np.full(len(c.key), -1, dtype=np.int64)
    cas = np.flatnonzero(c.by_cas)
    if len(cas) == 0:
        return parent
    names = np.empty(len(c.key), dtype=[("key", np.int64), ("value", np.int64)])
    names["key"], names["value"] = c.key, c.value
    sought = np.empty(len(cas), dtype=names.dtype)
    sought["key"], sought["value"] = c.key[cas], c.expected[cas]
    place = np.minimum(_search(names, sought), len(names) - 1)
    found = names[place] == sought
    parent[cas[found]] = place[found]
    return parent


def _search(names: np.ndarray, sought: np.ndarray) -> _Ints:
    """Returns the place of each (key, value) among the sorted `names`."""
    both = np.concatenate([names, sought])
    order = np.lexsort((np.arange(len(both)) >= len(names), both["value"], both["key"]))
    is_name = order < len(names)
    rank = np.cumsum(is_name) - 1
    result = np.empty(len(sought), dtype=np.int64)
    result[order[~is_name] - len(names)] = np.maximum(rank[~is_name], 0)
    return result


def _live(live: _Bools, parent: _Ints) -> _Bools:
    """Returns `live` with what a living cas expected; one round for each cas without an answer."""
    while True:
        expected = parent[live & (parent >= 0)]
        if live[expected].all():
            return live
        live = live.copy()
        live[expected] = True


def _chains(parent: _Ints) -> tuple[_Ints, _Ints]:
    """Returns the head of each row's chain of cas and the distance to it, -1 on a cycle.

    Uses pointer doubling: O(n log of the longest chain).
    """
    rows = np.arange(len(parent))
    root = np.where(parent < 0, rows, parent)
    depth = (parent >= 0).astype(np.int64)
    heads = parent < 0
    for _ in range(max(1, int(np.ceil(np.log2(max(2, len(parent)))))) + 1):
        if heads[root].all():
            return root, depth
        depth = depth + depth[root]
        root = root[root]
    return root, np.where(heads[root], depth, -1)


def _check_chains(
    code: NDArray[np.int8], live: _Bools, root: _Ints, depth: _Ints, first: _Ints, last: _Ints
) -> None:
    """Marks versions of a chain that start after a later version has finished."""
    members = np.flatnonzero(
        live & (depth >= 0) & (np.bincount(root, minlength=len(root))[root] > 1)
    )
    if len(members) == 0:
        return
    order = members[np.lexsort((-depth[members], root[members]))]
    later = _running(first[order], root[order], np.minimum, NEVER_NS)
    late = order[later < last[order]]
    code[late[code[late] == 0]] = _CHAIN


def _check_blocks(
    code: NDArray[np.int8], live: _Bools, root: _Ints, key: _Ints, first: _Ints, last: _Ints
) -> None:
    """Marks blocks that must both precede and follow another block of their key."""
    size = len(code)
    block_first = np.full(size, NEVER_NS, dtype=np.int64)
    block_last = np.full(size, BEFORE_ALL_NS, dtype=np.int64)
    np.minimum.at(block_first, root[live], first[live])
    np.maximum.at(block_last, root[live], last[live])
    heads = np.unique(root[live])
    f, s = block_first[heads], block_last[heads]
    forward = f < s
    order = np.lexsort((forward, np.minimum(f, s), key[heads]))
    heads, f, s, forward = heads[order], f[order], s[order], forward[order]
    held = _running(np.where(forward, s, BEFORE_ALL_NS), key[heads], np.maximum, BEFORE_ALL_NS)
    bad = heads[f < held]
    code[bad[code[bad] == 0]] = _STALE


def _running(values: _Ints, group: _Ints, fold: np.ufunc, neutral: int) -> _Ints:
    """Returns for each element the fold over those before it in its group; groups are contiguous.

    Doubles the distance looked back each time, which needs no loop over groups.
    """
    shifted = np.concatenate([np.array([neutral], dtype=np.int64), values[:-1]])
    start = np.concatenate([[True], group[1:] != group[:-1]]) if len(group) else np.array([], bool)
    shifted = np.where(start, neutral, shifted)
    first_of_group = np.maximum.accumulate(np.where(start, np.arange(len(group)), 0))
    longest = int((np.arange(len(group)) - first_of_group).max(initial=0))
    distance = 1
    result = shifted
    while distance <= longest:
        inside = np.arange(len(group)) - distance >= first_of_group
        back = np.where(inside, np.roll(result, distance), neutral)
        result = fold(result, back)
        distance *= 2
    return result
