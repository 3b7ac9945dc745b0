"""The operations among which a finding's witness is sought, from `tables/ops`; in Spark's tasks.

    a file of tables/ops to a task ──▶ those that a finding names, and the nearest to it ──▶ of all

A key may have any number of operations, and a finding stands anywhere among them: so a witness gets
a bounded number, by their distance in real time, and what the finding names whatever the distance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import or_

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import Row, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from zonequake_analysis.inputs.shapes import NEVER_NS, OPS, Function
from zonequake_analysis.spark_pass.in_tasks import Made, from_bytes, in_tasks, to_bytes
from zonequake_analysis.storage.place import Place

MOST_OPERATIONS = 5000
"""Most operations for one finding."""

MOST_ELEMENTS = 500_000
"""Most elements of all lists that they show, beside those of the first one."""

_MOST_AT_PLACE = 1000
"""Reads at the place that a finding names, which come before nearer ones elsewhere."""

_MOST_TWICE = 5

_Marks = NDArray[np.bool_]

_SHAPE = to_arrow_schema(OPS)
_FOUND = pa.schema([*_SHAPE, ("number", pa.int32()), ("whole", pa.bool_())])
"""`number`: that of the place sought; `whole`: whether it has no other operations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """The operations wanted: of a key, or of any key at `position` if `key_id` is None.

    `at_ns`: when the finding's operation began; `values`: what the writes that it names wrote;
    `position`: the place that it names.
    """

    partition_id: int
    key_id: int | None
    at_ns: int
    values: frozenset[int] = frozenset()
    position: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Operations as rows of `ops`; `whole`: there are no others."""

    found: pa.Table
    whole: bool = True

    def rows(self) -> list[Row]:
        """Returns the rows in the order of their starts."""
        rows = self.found.sort_by([("inv", "ascending"), ("fin", "ascending")]).to_pylist()
        return [Row(**row) for row in rows]


def candidates(
    spark: SparkSession, files: Sequence[Place], sought: Sequence[Sought]
) -> list[Candidates]:
    """Returns the operations for each place sought. `files`: those of `tables/ops`.

    Where some of a key are left out, the writes of what the finding's own operations show are
    there, too. Raises PySparkException.
    """
    found = _candidates(spark, files, sought)
    wider = {
        number: replace(one, values=values)
        for number, one in enumerate(sought)
        if one.key_id is not None and not found[number].whole
        if (values := one.values | _shown(found[number].found, one)) != one.values
    }
    if wider:
        again = _candidates(spark, files, list(wider.values()))
        for number, more in zip(wider, again, strict=True):
            found[number] = more
    return found


def _candidates(
    spark: SparkSession, files: Sequence[Place], sought: Sequence[Sought]
) -> list[Candidates]:
    if not sought or not files:
        return [Candidates(found=_SHAPE.empty_table())] * len(sought)
    made = in_tasks(
        spark,
        partial(_look, files, sought),
        partial(_nearest_of_all, sought),
        tasks=len(files),
        buckets=1,
    )
    rows = pa.concat_tables([_FOUND.empty_table(), *map(from_bytes, made)])
    found = []
    for number in range(len(sought)):
        own = rows.filter(pc.field("number") == number)
        whole = pc.all(own["whole"], min_count=0).as_py()
        found.append(Candidates(found=own.select(_SHAPE.names), whole=whole))
    return found


def _look(files: Sequence[Place], sought: Sequence[Sought], number: int) -> Made:
    """Yields the nearest operations of a file."""
    with files[number].open() as stream:
        rows = pq.read_table(
            stream,
            columns=_SHAPE.names,
            filters=reduce(or_, map(_wanted, sought)),
            partitioning=None,
            use_threads=False,
        )
    yield 0, to_bytes(_nearest_of_each(sought, [rows.cast(_SHAPE)] * len(sought)))


def _nearest_of_all(sought: Sequence[Sought], _bucket: int, made: Sequence[bytes]) -> bytes:
    """Returns the nearest among those of all files."""
    rows = pa.concat_tables([_FOUND.empty_table(), *map(from_bytes, made)])
    of_each = [rows.filter(pc.field("number") == number) for number in range(len(sought))]
    return to_bytes(_nearest_of_each(sought, of_each))


def _nearest_of_each(sought: Sequence[Sought], rows: Sequence[pa.Table]) -> pa.Table:
    found = [_FOUND.empty_table()]
    for number, (one, some) in enumerate(zip(sought, rows, strict=True)):
        kept, whole = nearest(some, one)
        marks = [pa.array([number] * len(kept), pa.int32()), pa.array([whole] * len(kept))]
        columns = [kept[name] for name in _SHAPE.names]
        found.append(pa.Table.from_arrays([*columns, *marks], schema=_FOUND))
    return pa.concat_tables(found)


def _wanted(one: Sought) -> pc.Expression:
    if one.key_id is not None:
        which = pc.field("key_id") == one.key_id
    else:
        which = (pc.field("position") == one.position) & ~pc.field("copy")
    return (pc.field("partition_id") == one.partition_id) & which


def nearest(rows: pa.Table, one: Sought) -> tuple[pa.Table, bool]:
    """Returns the operations for a place: first those named, then by distance in real time; and
    whether none was left out, here or before.

    An unanswered operation is as far as its start: it would overlap everything that follows.
    """
    own = rows.filter(_wanted(one))
    inv, fin = own["inv"].to_numpy(), own["fin"].to_numpy()
    answered, begun = fin != NEVER_NS, inv == one.at_ns
    end = int(fin[begun & answered].max(initial=one.at_ns))
    distance = np.maximum(inv - end, one.at_ns - np.where(answered, fin, inv)).clip(0)
    near, stands = np.lexsort((np.abs(inv - one.at_ns), distance)), _stands(own, one)
    level = np.full(len(own), 2)
    level[near[stands[near]][:_MOST_AT_PLACE]] = 1
    level[begun | (_writes(own) & (_among(own["value"], one.values) | stands))] = 0
    order = near[np.argsort(level[near], kind="stable")][:MOST_OPERATIONS]
    elements = pc.fill_null(pc.list_value_length(own["list"]), 0).to_numpy().astype(np.int64)
    sizes = elements[order]
    order = order[(sizes == 0) | (np.cumsum(sizes) - sizes[:1] <= MOST_ELEMENTS)]
    before = own["whole"] if "whole" in own.column_names else pa.array([], pa.bool_())
    whole = len(order) == len(own) and pc.all(before, min_count=0).as_py()
    return own.take(pa.array(order)), whole


def _writes(rows: pa.Table) -> _Marks:
    return np.asarray(rows["f"].to_numpy() != Function.READ.value)


def _among(column: pa.ChunkedArray, values: frozenset[int]) -> _Marks:
    wanted = pa.array(sorted(values), pa.int64())
    return np.asarray(pc.is_in(column, wanted).to_numpy())


def _stands(rows: pa.Table, one: Sought) -> _Marks:
    return _among(rows["position"], frozenset(() if one.position is None else (one.position,)))


def _shown(rows: pa.Table, one: Sought) -> set[int]:
    """Returns what the finding's own operations show: values of registers, and elements that stand
    twice in a list.
    """
    own = rows.filter(pa.array((rows["inv"].to_numpy() == one.at_ns) | _stands(rows, one)))
    shown: set[int | None] = set()
    for name in ("value", "expected", "found"):
        shown.update(own[name].to_pylist())
    for row in np.flatnonzero(own["inv"].to_numpy() == one.at_ns).tolist():
        counted = Counter(own["list"][row].as_py() or ())
        shown.update(value for value, times in counted.most_common(_MOST_TWICE) if times > 1)
    return {value for value in shown if value is not None}
