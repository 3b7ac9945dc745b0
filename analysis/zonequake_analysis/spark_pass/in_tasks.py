"""Runs Python in Spark's tasks: each makes bytes for some buckets, which are joined by bucket.

    task 0 ─┬─▶ bucket 0 ─▶ joined
    task 1 ─┼─▶ bucket 1 ─▶ joined       a single task for a single bucket joins them itself

Planning and running a query costs a small run more than its samples do; this is one short job.
Each task that makes something tells on which executor it ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from zonequake_analysis.cluster.task_places import keep_places, own_place

Made = Iterable[tuple[int, bytes]]
"""What a task makes: some bytes, each with its bucket."""


def in_tasks(
    spark: SparkSession,
    work: Callable[[int], Made],
    join: Callable[[int, list[bytes]], bytes],
    *,
    tasks: int,
    buckets: int,
) -> list[bytes]:
    """Returns what `join` made of each bucket that got something, by bucket.

    `work` gets the number of its task, `join` a bucket and all that tasks made for it, by task.
    Both travel to the workers, and may run again for the same number.
    """

    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        ran = own_place()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for bucket, made in work(number):
                    yield _row(bucket, number, made, ran)
                    ran = b""

    def joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        ran = own_place()
        by_bucket: dict[int, list[tuple[int, bytes]]] = {}
        for batch in batches:
            columns = (column.to_pylist() for column in batch.columns)
            for bucket, task, one, other in zip(*columns, strict=True):
                by_bucket.setdefault(bucket, []).append((task, one))
                ran += other
        for bucket in sorted(by_bucket):
            parts = sorted(by_bucket.pop(bucket), key=lambda part: part[0])
            yield _row(bucket, 0, join(bucket, [one for _, one in parts]), ran)
            ran = b""

    def both(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return joined(make(batches))

    numbers = spark.range(0, tasks, 1, max(1, tasks))
    if tasks <= 1 and buckets == 1:
        made = numbers.mapInArrow(both, _SHAPE)
    else:
        made = numbers.mapInArrow(make, _SHAPE).repartitionById(buckets, "bucket")
        made = made.mapInArrow(joined, _SHAPE)
    rows = made.collect()
    keep_places(spark, (row["ran"] for row in rows))
    return [bytes(row["made"]) for row in sorted(rows, key=lambda row: int(row["bucket"]))]


def shape(names: Sequence[str]) -> StructType:
    """Returns these columns of bytes, or of integers if they are `bucket` or `task`.

    The same in SQL would have Spark load its parser, which takes a fifth of a second.
    """
    return StructType(
        [
            StructField(name, IntegerType() if name in ("bucket", "task") else BinaryType())
            for name in names
        ]
    )


_SHAPE = shape(["bucket", "task", "made", "ran"])


def _row(bucket: int, task: int, made: bytes, ran: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "bucket": pa.array([bucket], pa.int32()),
            "task": pa.array([task], pa.int32()),
            "made": pa.array([made], pa.binary()),
            "ran": pa.array([ran], pa.binary()),
        }
    )


def to_bytes(table: pa.Table) -> bytes:
    """Returns a table as bytes that `from_bytes` reads."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_bytes(content: bytes) -> pa.Table:
    """Returns the table of `to_bytes`."""
    with pa.ipc.open_stream(content) as reader:
        return reader.read_all()
