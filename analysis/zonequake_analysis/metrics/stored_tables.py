"""Samples and tables of metrics in a store, which Spark itself can't read.

    tables/…  ── a task for each row group ──▶ rows
    rows, kept on the executors' disks ──────▶ tables/…, a file of each task

Later queries read the disks; a part that is lost there is read again. A task that is repeated
writes the same files again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import StorageLevel, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from zonequake_analysis.storage.location import Location

_BATCH_ROWS = 16 * 1024
_ROWS_TO_A_GROUP = 64 * 1024
"""Rows of a file that a task holds before it compresses them."""


def samples_in(spark: SparkSession, files: Sequence[Location]) -> DataFrame:
    """Returns the rows of the files, with the columns of the first file. Raises ArrowException for
    a file that is not Parquet, and LocationError.
    """
    footers = [_footer(file) for file in files]
    shape = to_arrow_schema(from_arrow_schema(footers[0].schema.to_arrow_schema()))
    groups = [
        (file, number)
        for file, footer in zip(files, footers, strict=True)
        for number in range(footer.num_row_groups)
    ]

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        for batch in batches:
            for row in batch.column(0).to_pylist():
                file, number = groups[row]
                with file.open() as stream:
                    rows = pq.ParquetFile(stream).iter_batches(
                        _BATCH_ROWS, row_groups=[number], columns=shape.names, use_threads=False
                    )
                    for some in rows:
                        table = pa.Table.from_batches([some]).select(shape.names).cast(shape)
                        yield from table.to_batches()

    return spark.range(0, len(groups), 1, max(1, len(groups))).mapInArrow(
        read, from_arrow_schema(shape)
    )


def stored(rows: DataFrame, folder: Location) -> DataFrame:
    """Writes a table and returns it."""
    kept = rows.persist(StorageLevel.DISK_ONLY)
    shape = to_arrow_schema(kept.schema)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        task = TaskContext.get()
        assert task is not None
        part = Part(shape)
        for batch in batches:
            part.add(batch)
        folder.make_folder()  # an object store has no folders
        (folder / f"part-{task.partitionId():05d}.parquet").write(part.content())
        yield pa.RecordBatch.from_pydict({"rows": pa.array([part.rows], pa.int64())})

    kept.mapInArrow(write, "rows bigint").collect()
    return kept


class Part:
    """A Parquet file in the making, compressed in memory."""

    def __init__(self, shape: pa.Schema) -> None:
        self.rows = 0
        self._shape = shape
        self._out = pa.BufferOutputStream()
        # As Spark's own files are, for the reason that session.py gives.
        self._writer = pq.ParquetWriter(self._out, shape, compression="snappy", store_schema=False)
        self._waiting: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows to the file."""
        self.rows += batch.num_rows
        self._waiting.append(batch)
        if sum(one.num_rows for one in self._waiting) >= _ROWS_TO_A_GROUP:
            self._write()

    def content(self) -> memoryview:
        """Ends the file, and returns it."""
        if self._waiting:
            self._write()
        self._writer.close()
        return memoryview(self._out.getvalue())

    def _write(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._waiting).cast(self._shape))
        self._waiting = []


def _footer(file: Location) -> pq.FileMetaData:
    with file.open() as stream:
        return pq.ParquetFile(stream).metadata
