"""Chooses the operations nearest to findings, from `tables/ops`; in Spark's tasks.

    a file of tables/ops to a task ──▶ those that a finding names, and the nearest to it ──▶ of all

A key may have any number of operations, and a finding stands anywhere among them: so a finding gets
a bounded number, by their distance in real time, and what it names whatever the distance. Among
them its witness is sought, and a report shows them around an example. A query for a handful of rows
would cost a small run a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import pairwise
from operator import or_

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow.dataset import ParquetFileFormat
from pyspark.sql import Row, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from zonequake_analysis.inputs.shapes import ABSENT, NEVER_NS, OPS, Function
from zonequake_analysis.spark_pass.in_tasks import Made, from_bytes, in_tasks, to_bytes
from zonequake_analysis.storage.location import Location

MOST_OPERATIONS = 5000
"""Most operations for one finding."""

MOST_ELEMENTS = 500_000
"""Most elements of all lists that they show, beside those of the first one."""

_MOST_AT_PLACE = 1000
"""Reads at the place that a finding names, which come before nearer ones elsewhere."""

_MOST_TWICE = 5

_BATCH_ROWS = 2048
"""Rows that a task holds beside those that it keeps: lists may have thousands of elements each."""

_Marks = NDArray[np.bool_]

_SHAPE = to_arrow_schema(OPS)
_FOUND = pa.schema([*_SHAPE, ("number", pa.int32()), ("whole", pa.bool_())])
"""`number`: that of the place sought; `whole`: whether it has no other operations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """The operations wanted: of a key, or of any key at `position` if `key_id` is None.

    `at_ns`: when the finding's operation began; `values`: what the writes that it names wrote;
    `position`: the place that it names; `named`: names of operations, all of which are wanted of a
    key. `within_ns`: only those that began so near to `at_ns`. `copies`: rows that show an
    operation again, too. `by_start`: the distance counts from start to start.
    """

    partition_id: int
    key_id: int | None
    at_ns: int
    values: frozenset[int] = frozenset()
    position: int | None = None
    named: frozenset[str] = frozenset()
    within_ns: int | None = None
    copies: bool = True
    by_start: bool = False
    most: int = MOST_OPERATIONS
    most_elements: int | None = MOST_ELEMENTS


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
    spark: SparkSession, files: Sequence[Location], sought: Sequence[Sought]
) -> list[Candidates]:
    """Returns the operations for each place sought. `files`: those of `tables/ops`.

    Where some of a key are left out, the writes of what the finding's own operations show are
    there, too. Raises PySparkException.
    """
    found = nearest(spark, files, sought)
    wider = {
        number: replace(one, values=values)
        for number, one in enumerate(sought)
        if one.key_id is not None and not found[number].whole
        if (values := one.values | _shown(found[number].found, one)) != one.values
    }
    if wider:
        again = nearest(spark, files, list(wider.values()))
        for number, more in zip(wider, again, strict=True):
            found[number] = more
    return found


def nearest(
    spark: SparkSession, files: Sequence[Location], sought: Sequence[Sought]
) -> list[Candidates]:
    """Returns the nearest operations for each place sought. Raises PySparkException."""
    if not sought or not files:
        return [Candidates(found=_SHAPE.empty_table())] * len(sought)
    made = in_tasks(
        spark,
        partial(_look, files, sought),
        partial(_nearest_of_all, sought),
        tasks=len(files),
        buckets=1,
    )
    own = dict(_by_number(pa.concat_tables([_FOUND.empty_table(), *map(from_bytes, made)])))
    found = [own.get(number, _FOUND.empty_table()) for number in range(len(sought))]
    return [
        Candidates(
            found=some.select(_SHAPE.names), whole=pc.all(some["whole"], min_count=0).as_py()
        )
        for some in found
    ]


def _look(files: Sequence[Location], sought: Sequence[Sought], number: int) -> Made:
    """Yields the nearest operations of a file."""
    yield 0, to_bytes(_nearest_of_each(sought, _read(files[number], sought)))


def _read(file: Location, sought: Sequence[Sought]) -> Iterator[pa.Table]:
    """Yields the rows of each place sought, with its number, a few of the file at a time.

    A row group is skipped if its statistics show that it has none. Within a key the rows come by
    time, so a finding's own operation is known before those after it are compared with its end.
    """
    somewhere = reduce(or_, map(_place, sought))
    with file.open() as stream:
        some = ParquetFileFormat().make_fragment(stream).subset(somewhere, schema=_SHAPE)
        groups = [group.id for group in some.row_groups]
    with file.open() as stream:
        batches = pq.ParquetFile(stream).iter_batches(
            _BATCH_ROWS, row_groups=groups, columns=_SHAPE.names, use_threads=False
        )
        for batch in batches:
            rows = _marked(pa.Table.from_batches([batch]).select(_SHAPE.names), sought)
            if len(rows):
                yield rows


def _marked(rows: pa.Table, sought: Sequence[Sought]) -> pa.Table:
    """Returns the rows of each place sought, one place after the other.

    Whole columns are compared in arrays: a filter of Arrow's costs milliseconds for each place.
    """
    columns = {name: rows[name].to_numpy() for name in ("partition_id", "key_id", "inv")}
    position = pc.fill_null(rows["position"], ABSENT).to_numpy()
    is_copy = pc.fill_null(rows["copy"], False).to_numpy()
    of_partition = {
        number: np.flatnonzero(columns["partition_id"] == number)
        for number in {one.partition_id for one in sought}
    }
    found = []
    for one in sought:
        own = of_partition[one.partition_id]
        if one.key_id is not None:
            own = own[columns["key_id"][own] == one.key_id]
        elif one.position is not None:
            own = own[position[own] == one.position]
        if one.within_ns is not None:
            own = own[np.abs(columns["inv"][own] - one.at_ns) <= one.within_ns]
        found.append(own if one.copies else own[~is_copy[own]])
    marks = np.repeat(np.arange(len(sought), dtype=np.int32), [len(own) for own in found])
    taken = rows.take(pa.array(np.concatenate(found))).cast(_SHAPE)
    whole = pa.array(np.ones(len(marks), bool))
    return pa.Table.from_arrays([*taken.columns, pa.array(marks), whole], schema=_FOUND)


def _nearest_of_all(sought: Sequence[Sought], _bucket: int, made: Sequence[bytes]) -> bytes:
    """Returns the nearest among those of all files."""
    return to_bytes(_nearest_of_each(sought, map(from_bytes, made)))


def _nearest_of_each(sought: Sequence[Sought], parts: Iterable[pa.Table]) -> pa.Table:
    """Returns the nearest among all parts; holds those of the parts before, and one part."""
    kept: dict[int, pa.Table] = {}
    for part in parts:
        for number, own in _by_number(part):
            before = kept.get(number, _FOUND.empty_table())
            kept[number] = _nearest(pa.concat_tables([before, own]), sought[number])
    return pa.concat_tables([_FOUND.empty_table(), *kept.values()])


def _by_number(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yields stretches of rows of one place sought, with its number; a place may have several."""
    numbers = rows["number"].to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for begin, end in pairwise(edges):
        if begin < end:
            yield int(numbers[begin]), rows.slice(begin, end - begin)


def _place(one: Sought) -> pc.Expression:
    """Returns what `_marked` looks for, copies included, as row groups' statistics tell it."""
    which = pc.field("partition_id") == one.partition_id
    if one.key_id is not None:
        which &= pc.field("key_id") == one.key_id
    elif one.position is not None:
        which &= pc.field("position") == one.position
    if one.within_ns is not None:
        inv = pc.field("inv")
        which &= (inv >= one.at_ns - one.within_ns) & (inv <= one.at_ns + one.within_ns)
    return which


def _nearest(own: pa.Table, one: Sought) -> pa.Table:
    """Returns the operations for a place: first those named, then by distance in real time.

    `whole` of each says whether none was left out, here or before. An unanswered operation is as
    far as its start: it would overlap everything that follows.
    """
    inv, fin = own["inv"].to_numpy(), own["fin"].to_numpy()
    answered, begun = fin != NEVER_NS, inv == one.at_ns
    from_start = distance = np.abs(inv - one.at_ns)
    if not one.by_start:
        end = int(fin[begun & answered].max(initial=one.at_ns))
        distance = np.maximum(inv - end, one.at_ns - np.where(answered, fin, inv)).clip(0)
    name = pc.rank(own["op"], tiebreaker="min").to_numpy()
    near, stands = np.lexsort((name, from_start, distance)), _stands(own, one)
    named = _among(own["op"], one.named, pa.string())
    level = np.full(len(own), 2)
    level[near[stands[near]][:_MOST_AT_PLACE]] = 1
    level[named | (_writes(own) & (_among(own["value"], one.values, pa.int64()) | stands))] = 0
    if not one.by_start:
        level[begun] = 0
    most = one.most if one.key_id is None else max(one.most, int(named.sum()))
    order = near[np.argsort(level[near], kind="stable")][:most]
    if one.most_elements is not None:
        elements = pc.fill_null(pc.list_value_length(own["list"]), 0).to_numpy().astype(np.int64)
        sizes = elements[order]
        order = order[(sizes == 0) | (np.cumsum(sizes) - sizes[:1] <= one.most_elements)]
    whole = len(order) == len(own) and pc.all(own["whole"], min_count=0).as_py()
    kept = own.take(pa.array(order)).drop_columns("whole")
    return kept.append_column(_FOUND.field("whole"), pa.array([whole] * len(kept), pa.bool_()))


def _writes(rows: pa.Table) -> _Marks:
    return np.asarray(rows["f"].to_numpy() != Function.READ.value)


def _among(
    column: pa.ChunkedArray, values: frozenset[int] | frozenset[str], of: pa.DataType
) -> _Marks:
    wanted = pa.array(list(values), of)
    return np.asarray(pc.is_in(column, wanted).to_numpy())


def _stands(rows: pa.Table, one: Sought) -> _Marks:
    place = frozenset(() if one.position is None else (one.position,))
    return _among(rows["position"], place, pa.int64())


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
