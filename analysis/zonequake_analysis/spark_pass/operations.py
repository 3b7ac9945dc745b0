"""`tables/ops` as Spark reads it for the exact checks, which never shuffle operations.

On a file system that Spark itself reads, the files are a table bucketed by partition. Spark alone
can't read an object store: there a task reads each bucket's file once, through the run's own
location, and keeps the suspects. Spark caches them, each bucket in a partition of its own.

Where a partition is split, the table is bucketed by key: then a check that compares keys with each
other shuffles the operations that it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from zonequake_analysis.inputs.shapes import OPS
from zonequake_analysis.spark_pass.bucket import Suspects, file_of
from zonequake_analysis.storage.location import Location
from zonequake_analysis.storage.spark_paths import in_sql, read_at

_TABLE = "zonequake_ops"
_ORDER = ("partition_id", "key_id", "inv")
_BATCH_ROWS = 16 * 1024


def operations(
    spark: SparkSession, folder: Location, suspects: Sequence[Suspects], *, buckets: int, by: str
) -> DataFrame:
    """Returns the operations that the exact checks ask for, and maybe others.

    `suspects`: those of each bucket, from 0 on; `by`: the id that decides about a row's bucket, of
    its partition or of its key.
    """
    if folder.local is not None:
        return _table(spark, folder.local, buckets, by)
    return cached(spark, folder, suspects, buckets, by)


def _table(spark: SparkSession, target: Path, buckets: int, by: str) -> DataFrame:
    """Returns the files as a table whose buckets Spark knows, so that no check shuffles."""
    shape = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in OPS)
    spark.sql(f"DROP TABLE IF EXISTS {_TABLE}")
    spark.sql(
        f"CREATE TABLE {_TABLE} ({shape}) USING parquet CLUSTERED BY ({by}) "
        f"SORTED BY ({', '.join(_ORDER)}) INTO {buckets} BUCKETS "
        f"LOCATION {in_sql(read_at(target))}"
    )
    return spark.table(_TABLE)


def cached(
    spark: SparkSession,
    folder: Location,
    suspects: Sequence[Suspects],
    buckets: int,
    by: str = "partition_id",
) -> DataFrame:
    """Returns only the suspects' operations, laid out as the table's: one shuffle, of suspects."""
    wanted = [(number, some) for number, some in enumerate(suspects) if _any(some)]

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        for batch in batches:
            for row in batch.column(0).to_pylist():
                number, some = wanted[row]
                yield from suspects_in(file_of(folder, number), some)

    return (
        spark.range(0, len(wanted), 1, max(1, len(wanted)))
        .mapInArrow(read, OPS)
        .repartition(buckets, by)
        .sortWithinPartitions(*_ORDER)
        .persist(StorageLevel.MEMORY_AND_DISK)
    )


def suspects_in(file: Location, suspects: Suspects) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a bucket's file that any exact check asks for, of the shape `OPS`."""
    partition, key = pc.field("partition_id"), pc.field("key_id")
    whole = suspects.sessions + suspects.split_sessions + suspects.entries
    some = partition.isin(suspects.partitions) & key.isin(sorted(suspects.keys))
    with file.open() as stream:
        table = pq.read_table(
            stream, filters=partition.isin(whole) | some, partitioning=None, use_threads=False
        )
    shape = to_arrow_schema(OPS)
    yield from table.select(shape.names).cast(shape).to_batches(max_chunksize=_BATCH_ROWS)


def _any(suspects: Suspects) -> bool:
    of_partitions = suspects.sessions or suspects.split_sessions or suspects.entries
    return bool(of_partitions or suspects.keys)
