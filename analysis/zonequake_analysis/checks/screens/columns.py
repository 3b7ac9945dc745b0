"""A bucket's operations as plain arrays, the input of every screen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zonequake_analysis.inputs.shapes import ABSENT, Function

Ints = NDArray[np.int64]
Bytes = NDArray[np.int8]
Bools = NDArray[np.bool_]

NULL = ABSENT
"""Stands for a value that is absent. A key with a row that really holds this number is `odd`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Operations sorted by (partition, key, invoke), one element of each array to a row.

    `partition` and `key` count up from 0 in that order. Times are in ns. `position` is -1 where
    there is none. A row's list is `elements[list_start:list_start + list_size]`. `odd`: keys (not
    rows) with something that these arrays can't represent or that the screens don't expect; each
    screen flags them all.
    """

    partition: Ints
    key: Ints
    partition_ids: Ints  # by partition
    key_ids: Ints  # by key
    partition_of: Ints  # by key
    process: Ints
    f: Bytes
    outcome: Bytes
    inv: Ints
    fin: Ints
    position: Ints
    value: Ints
    expected: Ints
    found: Ints
    applied: Bools
    bounded: Bools
    copy: Bools
    later_step: Bools  # of a transaction, whose place its first step has
    has_list: Bools
    list_start: Ints
    list_size: Ints
    elements: Ints
    odd: Bools

    @property
    def keys(self) -> int:
        """The number of keys."""
        return len(self.key_ids)


def columns(ops: pa.Table) -> Columns:
    """Returns a bucket's operations (shape `schema.OPS`, in the order of the layout) as columns."""
    partition_id, key_id = _ints(ops, "partition_id"), _ints(ops, "key_id")
    new_partition = _changes(partition_id)
    new_key = new_partition | _changes(key_id)
    partition, key = np.cumsum(new_partition) - 1, np.cumsum(new_key) - 1
    lists = ops.column("list").combine_chunks()
    elements = lists.values
    has_list = lists.is_valid().to_numpy(zero_copy_only=False)
    offsets = lists.offsets.to_numpy().astype(np.int64)
    value, expected, found = (_ints(ops, name, NULL) for name in ("value", "expected", "found"))
    position = _ints(ops, "position", NULL)
    inv, fin = _ints(ops, "inv"), _ints(ops, "fin")
    f = ops.column("f").to_numpy()
    odd_rows = (
        (has_list & (f != Function.READ.value))
        | (has_list & (value != NULL))
        | (fin < inv)
        | ((position < 0) & (position != NULL))
    )
    for name, numbers in (("value", value), ("expected", expected), ("found", found)):
        odd_rows |= (numbers == NULL) & ops.column(name).is_valid().to_numpy()
    if elements.null_count:
        holes = np.flatnonzero(elements.is_null().to_numpy(zero_copy_only=False))
        odd_rows[np.searchsorted(offsets, holes, side="right") - 1] = True
        elements = elements.fill_null(NULL)
    odd = np.zeros(int(key[-1]) + 1 if len(key) else 0, bool)
    odd[key[odd_rows]] = True
    first = np.flatnonzero(new_key)
    return Columns(
        partition=partition,
        key=key,
        partition_ids=partition_id[new_partition],
        key_ids=key_id[first],
        partition_of=partition[first],
        process=_ints(ops, "process"),
        f=f,
        outcome=ops.column("outcome").to_numpy(),
        inv=inv,
        fin=fin,
        position=np.where(position == NULL, -1, position),
        value=value,
        expected=expected,
        found=found,
        applied=ops.column("applied").to_numpy(),
        bounded=ops.column("bounded").to_numpy(),
        copy=_copies(ops),
        later_step=_later_steps(ops),
        has_list=has_list,
        list_start=offsets[:-1],
        list_size=np.where(has_list, np.diff(offsets), 0),
        elements=elements.to_numpy(),
        odd=odd,
    )


def _copies(ops: pa.Table) -> Bools:
    """Returns which operations are copies: none before the operations are viewed."""
    if "copy" not in ops.column_names:
        return np.zeros(len(ops), bool)
    found: Bools = ops.column("copy").to_numpy()
    return found


def _later_steps(ops: pa.Table) -> Bools:
    """Returns which operations are steps of transactions after the first one."""
    if "step" not in ops.column_names:
        return np.zeros(len(ops), bool)
    found: Bools = ops.column("step").fill_null(0).to_numpy() > 0
    return found


def _ints(ops: pa.Table, name: str, absent: int = 0) -> Ints:
    column = ops.column(name)
    result: Ints = (column.fill_null(absent) if column.null_count else column).to_numpy()
    return result


def _changes(values: Ints) -> Bools:
    """Returns whether each element differs from the one before it; the first one does."""
    result = np.ones(len(values), bool)
    result[1:] = values[1:] != values[:-1]
    return result
