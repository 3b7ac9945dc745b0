"""The exact checks over arrays, among the suspects of each bucket: a task reads the bucket's file.

No operation passes through the JVM, which would decode each column only to encode it again. The
findings come with their names (`named_findings`), as the operations are at hand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from zonequake_analysis.checks.arrays.over_columns import (
    NEEDED,
    found_among,
    found_in_order,
    found_in_sets,
    sessions_among,
)
from zonequake_analysis.checks.named_findings import NAMED, NAMING, named
from zonequake_analysis.spark_pass.bucket import Suspects, file_of
from zonequake_analysis.storage.location import Location

MOST_NAMED = 2000
"""Most ids in one condition; with more, the checks read more than the suspects and find the same.
"""

_BATCH_ROWS = 16 * 1024


_Ids = tuple[int, ...] | None
"""Ids in ascending order; None for so many that everything is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sought:
    """Keys to judge of a bucket's file, by what judges them, and partitions (`sessions`).

    `keys`: all of them.
    """

    file: Location
    keys: _Ids
    among: _Ids
    in_order: _Ids
    in_sets: _Ids
    sessions: tuple[int, ...]


def found_in_files(
    spark: SparkSession, folder: Location, suspects: Sequence[Suspects]
) -> DataFrame | None:
    """Returns what the checks over arrays find, each finding with its names; None if no suspect is
    theirs. `suspects`: those of each bucket, from 0 on, whose files are in `folder`.
    """
    sought = [
        found
        for number, some in enumerate(suspects)
        if (found := _sought(file_of(folder, number), some)) is not None
    ]
    if not sought:
        return None

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _found(sought[number])

    return spark.range(0, len(sought), 1, len(sought)).mapInArrow(judge, NAMED)


def _sought(file: Location, suspects: Suspects) -> _Sought | None:
    among = {*suspects.loss, *suspects.late, *suspects.registers, *suspects.lists}
    keys = {*among, *suspects.replayed, *suspects.sets}
    if not keys and not suspects.sessions:
        return None
    return _Sought(
        file=file,
        keys=_ids(keys),
        among=_ids(among),
        in_order=_ids(suspects.replayed),
        in_sets=_ids(suspects.sets),
        sessions=tuple(suspects.sessions),
    )


def _ids(given: Collection[int]) -> _Ids:
    return None if len(given) > MOST_NAMED else tuple(sorted(given))


def _found(sought: _Sought) -> Iterator[pa.RecordBatch]:
    key, partition = pc.field("key_id"), pc.field("partition_id")
    wanted = None
    if sought.keys is not None:
        wanted = key.isin(sought.keys) | partition.isin(sought.sessions)
    with sought.file.open() as stream:
        ops = pq.read_table(
            stream,
            columns=list(dict.fromkeys((*NEEDED, *NAMING))),
            filters=wanted,
            partitioning=None,
            use_threads=False,
        )

    def of(ids: _Ids) -> pa.Table:
        needed = ops.select(NEEDED)
        return needed if ids is None else needed.filter(key.isin(ids))

    found = [
        *found_among(of(sought.among)),
        *found_in_order(of(sought.in_order)),
        *found_in_sets(of(sought.in_sets)),
        *sessions_among(ops.filter(partition.isin(sought.sessions))),
    ]
    if found:
        yield from named(pa.Table.from_batches(found), ops).to_batches(max_chunksize=_BATCH_ROWS)
