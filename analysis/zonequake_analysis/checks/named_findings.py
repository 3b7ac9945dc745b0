"""Findings with the names of what they are about, looked up among the operations of their keys.

A finding's moment is the begin of an operation on its key, so that one search among the operations
tells all names: those of the key, of the operations that began then, and of the member that
answered them. `tables.operation_findings` looks up in SQL what was found in SQL.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from zonequake_analysis.checks.found_rows import SHAPE
from zonequake_analysis.checks.screens.columns import Bools, Ints
from zonequake_analysis.checks.screens.segments import heads, lookup, ordered, spread

NAMES = "zone string, partition int, key string, node string, ops array<string>"
"""The columns that name a finding; all are null where no operation began then."""

NAMED = f"{SHAPE}, {NAMES}"
"""The columns of findings with their names."""

NAMING = ("key_id", "inv", "zone", "partition", "key", "node", "op")
"""The columns of operations that it needs."""


def named(found: pa.Table, ops: pa.Table) -> pa.Table:
    """Returns findings with `NAMES` as well. `ops`: at least all operations of their keys.

    Of a finding `ops` are in alphabetical order, each once; `node` is the member that answered
    them, null if several did.
    """
    ids = found.column("key_id").to_numpy()
    ops = ops.filter(pa.array(np.isin(ops.column("key_id").to_numpy(), np.unique(ids))))
    keys, key = np.unique(ops.column("key_id").to_numpy(), return_inverse=True)
    inv = ops.column("inv").to_numpy()
    order = ordered(key, inv)
    start = np.flatnonzero(heads(key[order], inv[order]))
    size = np.diff(np.append(start, len(order)))
    first = order[start]
    known = np.isin(ids, keys)
    moment = np.full(len(ids), -1)
    moment[known] = lookup(
        key[first],
        inv[first],
        np.searchsorted(keys, ids[known]),
        found.column("at_ns").to_numpy()[known],
    )
    there = moment >= 0
    row = pa.array(first[moment], mask=~there)
    columns = {name: ops.column(name).take(row) for name in ("zone", "partition", "key")}
    columns |= _of_moments(ops, order, start, size, moment, there)
    for name in ("zone", "partition", "key", "node", "ops"):
        found = found.append_column(name, columns[name])
    return found


def _of_moments(
    ops: pa.Table, order: Ints, start: Ints, size: Ints, moment: Ints, there: Bools
) -> dict[str, pa.Array]:
    """Returns the operations of each finding's moment, and their member."""
    many = np.where(there, size[moment] if len(size) else 0, 0)
    begin = np.where(there, start[moment] if len(start) else 0, 0)
    _, at = spread(begin, many)
    names = ops.column("op").take(pa.array(order[at])).combine_chunks()
    offsets = pa.array(np.append(0, np.cumsum(many)), pa.int32(), mask=np.append(~there, False))
    together = pa.ListArray.from_arrays(offsets, names)
    node = ops.column("node").take(pa.array(order[begin], mask=~there)).combine_chunks()
    several = np.flatnonzero(many > 1)
    if not len(several):
        return {"node": node, "ops": together}
    lists, members = together.to_pylist(), node.to_pylist()
    for number in several.tolist():
        rows = order[begin[number] : begin[number] + many[number]]
        answered = set(ops.column("node").take(pa.array(rows)).to_pylist()) - {None}
        members[number] = answered.pop() if len(answered) == 1 else None
        lists[number] = sorted(set(lists[number]))
    return {"node": pa.array(members, node.type), "ops": pa.array(lists, together.type)}
