"""The Spark job over run folders: each folder's verdict and tables become rows of `trend`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from zonequake_analysis.errors import RunFolderError
from zonequake_analysis.inputs.run_folder import read_description
from zonequake_analysis.many_runs.folders import read_run
from zonequake_analysis.many_runs.trend_rows import TrendRow, rows_of, without_rows
from zonequake_analysis.storage.location import Location

_TASKS_OF_A_CORE = 4
"""Folders differ in size: smaller tasks keep all cores at work to the end."""

_AGAIN = "run `zonequake analyze` over it again"

_SHAPE = (
    "run string, folder string, time_ns bigint, version string, target string, scenario string, "
    "objective string, unit string, value double, at_most double, bound double, verdict string, "
    "problem string, note string, usable boolean"
)
_TYPES = {
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
}
_ROWS = pa.schema([(name, _TYPES[kind]) for name, kind in map(str.split, _SHAPE.split(", "))])

TABLE = pa.schema(
    [
        ("run", pa.string()),
        ("folder", pa.string()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("version", pa.string()),
        ("target", pa.string()),
        ("scenario", pa.string()),
        ("objective", pa.string()),
        ("unit", pa.string()),
        ("value", pa.float64()),
        ("at_most", pa.float64()),
        ("bound", pa.float64()),
        ("verdict", pa.string()),
    ]
)
"""The table `trend`; `time` is null if a run doesn't say when it began, and `at_most` if `value` is
exact."""


def read_rows(spark: SparkSession, folders: Sequence[Location]) -> list[TrendRow]:
    """Returns the rows of all folders; a folder that can't be read has a row that says why."""
    locations = [folder.resolve() for folder in folders]

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows = [msgspec.to_builtins(row) for row in _rows(locations[number])]
                yield pa.RecordBatch.from_pylist(rows, schema=_ROWS)

    tasks = min(len(locations), _TASKS_OF_A_CORE * spark.sparkContext.defaultParallelism)
    found = spark.range(0, len(locations), 1, tasks).mapInArrow(read, _SHAPE).toArrow()
    return [msgspec.convert(row, TrendRow) for row in found.to_pylist()]


def _rows(folder: Location) -> list[TrendRow]:
    try:
        return rows_of(read_run(folder), read_description(folder).expectations)
    except Exception as error:  # noqa: BLE001 - one strange folder must not end the job for all
        is_told = isinstance(error, RunFolderError | OSError)
        why = str(error) if is_told else f"{folder}: {type(error).__name__}: {error}; {_AGAIN}"
        return [without_rows(str(folder), folder.name, why)]


def write_table(file: Path | Location, rows: Sequence[TrendRow]) -> None:
    """Writes the table `trend` as Parquet, by scenario, objective and time."""
    kept = sorted(
        (row for row in rows if row.problem is None),
        key=lambda row: (row.scenario, row.objective, row.time_ns, row.folder),
    )
    table = pa.Table.from_pylist(
        [
            {**msgspec.to_builtins(row), "time": row.time_ns // 1000 if row.time_ns else None}
            for row in kept
        ],
        schema=TABLE,
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    Location.of(file).write(sink.getvalue().to_pybytes())
