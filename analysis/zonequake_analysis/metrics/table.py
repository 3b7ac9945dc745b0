"""The tables `metrics` and `metric_series`: a run folder's samples, read and written by tasks.

    metrics/*.parquet ──▶ tables/metrics/hour=…    one row per sample, as it is scanned: no shuffle
                      ──▶ tables/metric_series     one row per series

No sample passes through the driver; it has the list of series.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from zonequake_analysis.errors import SamplesError
from zonequake_analysis.inputs.prometheus.sample_files import metric_files
from zonequake_analysis.metrics.stored_tables import Part, stored
from zonequake_analysis.metrics.tasks.scan import (
    RowGroup,
    merge,
    reading,
    scan,
    series_table,
)
from zonequake_analysis.spark_pass.in_tasks import in_tasks
from zonequake_analysis.storage.location import Location
from zonequake_analysis.storage.spark_paths import read_at, written_at

SAMPLES = (
    "metric string, labels map<string,string>, target string, series bigint, t_ms bigint, "
    "value double, stale boolean, hour bigint"
)
SERIES = (
    "series bigint, metric string, labels map<string,string>, target string, samples bigint, "
    "stale_marks bigint, first_ms bigint, last_ms bigint, least double, most double"
)
"""Spark gets these shapes with the tables, so that it starts no job to learn them."""

_TABLES = ("metrics", "metric_series", "metric_changes")

_TASK_BYTES = 4 * 1024 * 1024
"""Bytes of the files that a task reads, about, and holds while it writes: a million samples."""

_TASKS_TO_A_BUCKET = 4
"""Each bucket merges the facts of a part of the series, from all tasks."""

_NEEDED = ({"metric", "labels", "value", "stale"}, ({"series_id", "ts_ms"}, {"t_ms"}))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricTables:
    """`samples`: the folder tables/metrics; `series`: tables/metric_series, a row per series."""

    samples: Location
    series: pa.Table

    def files(self, hours: range | None = None) -> list[tuple[int, Location]]:
        """Returns the files of samples with their hours; `hours`: only those."""
        found = [
            (int(file.parent.name.removeprefix("hour=")), file)
            for file in self.samples.all_below(".parquet")
        ]
        return [(hour, file) for hour, file in found if hours is None or hour in hours]


def write_tables(spark: SparkSession, run: Path | Location) -> MetricTables | None:
    """Writes both tables; None if the folder has no samples. First removes the metric tables of an
    earlier analysis. Raises SamplesError, LocationError, PySparkException.
    """
    tables = Location.of(run).resolve() / "tables"
    for name in _TABLES:
        (tables / name).delete_folder()
    files = metric_files(run)
    if not files:
        return None
    samples, folder = tables / "metrics", tables / "metric_series"
    samples.make_folder()
    folder.make_folder()
    tasks = _in_tasks(_numbered_alike([group for file in files for group in _row_groups(file)]))
    buckets = max(1, len(tasks) // _TASKS_TO_A_BUCKET)
    work = partial(scan, tasks, samples, buckets)
    made = in_tasks(spark, work, merge, tasks=len(tasks), buckets=buckets) if tasks else []
    series = series_table(made)
    write_table(folder / "all.parquet", series)
    return MetricTables(samples=samples, series=series)


def write_table(file: Location, rows: pa.Table) -> None:
    """Writes one file of a table, which appears whole or not at all.

    Raises OSError, LocationError.
    """
    part = Part(rows.schema)
    for batch in rows.to_batches():
        part.add(batch)
    file.write(part.content())


def written(
    spark: SparkSession, rows: DataFrame, folder: Location, shape: str | StructType
) -> DataFrame:
    """Has Spark write a table and returns it."""
    path = folder.local
    if path is None:
        return stored(rows, folder)
    rows.write.parquet(written_at(path))
    return spark.read.schema(shape).parquet(read_at(path))


def _row_groups(file: Location) -> list[tuple[RowGroup, int]]:
    """Returns the row groups of a file, each with its bytes. Raises SamplesError, LocationError."""
    with reading(file), file.open() as stream:
        footer = pq.ParquetFile(stream).metadata
        names = set(footer.schema.to_arrow_schema().names)
    always, either = _NEEDED
    if not always <= names or not any(some <= names for some in either):
        raise SamplesError(
            f"{file}: found the columns {', '.join(sorted(names))}, expected metric, labels, "
            "series_id, ts_ms, value and stale"
        )
    found = []
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        size = sum(group.column(place).total_compressed_size for place in range(group.num_columns))
        named = either[0] <= names
        found.append((RowGroup(file=file.resolve(), number=number, named=named), size))
    return found


def _numbered_alike(groups: Sequence[tuple[RowGroup, int]]) -> list[tuple[RowGroup, int]]:
    """Returns the row groups so that a series has one number in all files: by `series_id` if every
    file has it, else by its labels."""
    by_labels = any(not group.named for group, _ in groups)
    return [(replace(group, by_labels=by_labels), size) for group, size in groups]


def _in_tasks(groups: Sequence[tuple[RowGroup, int]]) -> list[list[RowGroup]]:
    """Returns the row groups of each task, in their order."""
    tasks: list[list[RowGroup]] = []
    held = _TASK_BYTES
    for group, size in groups:
        if held + size > _TASK_BYTES:
            tasks.append([])
            held = 0
        tasks[-1].append(group)
        held += size
    return tasks
