"""The operations around examples of findings, from `tables/ops`; in Spark's tasks.

    a file of tables/ops to a task ──▶ the nearest operations to each example ──▶ the nearest of all

Of a finding at a key they are the key's, else those of its partition within a second. A query for
a handful of rows would cost a small run a second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial, reduce
from operator import or_

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Row, SparkSession

from zonequake_analysis.checks.search.witness import WitnessOperation, operation
from zonequake_analysis.inputs.ids import name_id
from zonequake_analysis.inputs.shapes import OPS
from zonequake_analysis.post_mortem.examples import Example
from zonequake_analysis.spark_pass.in_tasks import Made, in_tasks
from zonequake_analysis.storage.place import Place

MOST_OPERATIONS = 12
"""Operations around a finding, beside those that it names itself."""

_NEAR_NS = 1_000_000_000
"""Operations of a whole partition are looked for so near to a finding that names no key."""


class _Sought(msgspec.Struct, frozen=True, kw_only=True):
    """The place of an example; `number`: its own among all."""

    number: int
    partition_id: int
    zone: str
    key: str | None
    at_ns: int
    named: list[str]


class _Near(msgspec.Struct, frozen=True, kw_only=True):
    """An operation around an example."""

    number: int
    unnamed: bool
    distance_ns: int
    op: str
    row: dict[str, object]


def around(
    spark: SparkSession, files: Sequence[Place], examples: Sequence[Example]
) -> dict[int, list[WitnessOperation]]:
    """Returns the operations around each example, by its place among them, in order of time.

    `files`: those of `tables/ops`. Raises PySparkException.
    """
    sought = [
        _Sought(
            number=number,
            partition_id=name_id(one.cell.zone, str(one.cell.partition)),
            zone=one.cell.zone,
            key=one.key,
            at_ns=one.cell.first_ns,
            named=list(one.named),
        )
        for number, one in enumerate(examples)
        if one.cell.partition is not None
    ]
    if not sought or not files:
        return {}
    made = in_tasks(
        spark,
        partial(_look, files, sought),
        partial(_nearest_of_all, sought),
        tasks=len(files),
        buckets=1,
    )
    found = [one for part in made for one in msgspec.msgpack.decode(part, type=list[_Near])]
    by_number: dict[int, list[WitnessOperation]] = defaultdict(list)
    rows = [(one.number, Row(**one.row)) for one in found]
    for number, row in sorted(rows, key=lambda one: (one[1]["inv"], one[1]["fin"])):
        by_number[number].append(operation(row))
    return by_number


def _look(files: Sequence[Place], sought: Sequence[_Sought], number: int) -> Made:
    """Yields the nearest operations of a file."""
    whole = reduce(or_, (_wanted(one) for one in sought)) & ~pc.field("copy")
    with files[number].open() as stream:
        rows = pq.read_table(stream, filters=whole, partitioning=None, use_threads=False)
    near = [one for place in sought for one in _nearest(rows, place)]
    yield 0, msgspec.msgpack.encode(near)


def _wanted(one: _Sought) -> pc.Expression:
    inv = pc.field("inv")
    if one.key is not None:
        which = pc.field("key") == one.key
    else:
        which = (inv >= one.at_ns - _NEAR_NS) & (inv <= one.at_ns + _NEAR_NS)
    return (pc.field("partition_id") == one.partition_id) & which


def _nearest(rows: pa.Table, one: _Sought) -> Iterator[_Near]:
    """Yields those of one example: the named ones of a key, and the nearest."""
    kept = rows.filter(_wanted(one) & (pc.coalesce(pc.field("zone"), pc.scalar("")) == one.zone))
    distance = np.abs(kept["inv"].to_numpy() - one.at_ns)
    named = pc.is_in(kept["op"], pa.array(one.named, pa.string()))
    of_names = named.to_numpy(zero_copy_only=False)
    others = np.sort(distance[~of_names])
    # All that are as far as the last one: the name decides among them.
    farthest = others[:MOST_OPERATIONS][-1] if len(others) else 0
    some = np.flatnonzero(of_names | (distance <= farthest))
    columns = kept.select([field.name for field in OPS]).take(pa.array(some)).to_pylist()
    near = [
        _Near(
            number=one.number,
            unnamed=not of_names[place],
            distance_ns=int(distance[place]),
            op=row["op"] or "",
            row=row,
        )
        for place, row in zip(some.tolist(), columns, strict=True)
    ]
    yield from _chosen(near, one)


def _chosen(near: list[_Near], one: _Sought) -> Iterator[_Near]:
    near.sort(key=lambda other: (other.unnamed, other.distance_ns, other.op))
    for place, other in enumerate(near):
        if place < MOST_OPERATIONS or (one.key is not None and not other.unnamed):
            yield other


def _nearest_of_all(sought: Sequence[_Sought], _bucket: int, made: Sequence[bytes]) -> bytes:
    """Returns the nearest among those of all files."""
    by_number: Mapping[int, list[_Near]] = defaultdict(list)
    for part in made:
        for one in msgspec.msgpack.decode(part, type=list[_Near]):
            by_number[one.number].append(one)
    return msgspec.msgpack.encode(
        [other for one in sought for other in _chosen(by_number[one.number], one)]
    )
