"""The tables `metrics` and `metric_series`: a run folder's samples, written by Spark.

    metrics/*.parquet ──▶ tables/metrics/hour=…    one row per sample, as it is scanned: no shuffle
                      ──▶ tables/metric_series     one row per series

No sample passes through the driver. Tasks read and write a store (`stored_tables`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from zonequake_analysis.metrics.stored_tables import samples_in, stored
from zonequake_analysis.storage.place import Place

HOUR_MS = 3_600_000

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

_AT_ONCE = {
    # A task of few row groups has few hours open at once, and so need not sort whole rows by hour.
    "spark.sql.files.maxPartitionBytes": "8m",
    "spark.sql.maxConcurrentOutputFileWriters": "32",
}
_ROW_GROUP_BYTES = 8 * 1024 * 1024
"""Bytes that a writer keeps before it writes: each task has one writer per hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricTables:
    """`samples`: tables/metrics; `series`: tables/metric_series, one row per series."""

    samples: DataFrame
    series: DataFrame


def metric_files(run: Path | Place) -> list[Place]:
    """Returns the files with samples of a run folder; empty if there are none."""
    return Place.of(run / "metrics").listed(".parquet")


def write_tables(spark: SparkSession, run: Path | Place) -> MetricTables | None:
    """Writes both tables; None if the folder has no samples. First removes the metric tables of an
    earlier analysis."""
    tables = Place.of(run).resolve() / "tables"
    for name in _TABLES:
        (tables / name).delete_folder()
    files = metric_files(run)
    if not files:
        return None
    with settings(spark, _AT_ONCE):
        rows = rows_of(_found(spark, files))
        samples = written(spark, rows, tables / "metrics", SAMPLES, by="hour")
        series = written(spark, series_of(samples), tables / "metric_series", SERIES)
    return MetricTables(samples=samples, series=series)


def written(
    spark: SparkSession,
    rows: DataFrame,
    folder: Place,
    shape: str | StructType,
    *,
    by: str | None = None,
) -> DataFrame:
    """Writes a table and returns it; `by`: the column whose values become folders."""
    path = folder.local
    if path is None:
        return stored(rows, folder, by=by)
    writer = rows.write
    if by is not None:
        writer = writer.partitionBy(by).option("parquet.block.size", _ROW_GROUP_BYTES)
    writer.parquet(path.as_uri())
    return spark.read.schema(shape).parquet(path.as_uri())


def _found(spark: SparkSession, files: Sequence[Place]) -> DataFrame:
    """Returns the samples as the files have them."""
    paths = [path.resolve() for file in files if (path := file.local) is not None]
    if not paths:
        return samples_in(spark, files)
    return spark.read.parquet(*[path.as_uri() for path in paths])


def rows_of(found: DataFrame) -> DataFrame:
    """Returns samples, as `pull` writes or `prometheus` reads them, as the table's rows."""
    t_ms = F.col("ts_ms" if "ts_ms" in found.columns else "t_ms")
    return found.select(
        "metric",
        "labels",
        _target().alias("target"),
        _series(found).alias("series"),
        t_ms.alias("t_ms"),
        F.when(~F.col("stale"), F.col("value")).alias("value"),
        "stale",
        F.floor(t_ms / HOUR_MS).alias("hour"),
    )


def series_of(samples: DataFrame) -> DataFrame:
    """Returns one row per series.

    First aggregates the numbers, of fixed width; then adds the labels of the first sample, because
    a map in the aggregation would make Spark sort all samples.
    """
    numbers = samples.groupBy("series").agg(
        F.count(F.lit(1)).alias("samples"),
        F.count_if("stale").alias("stale_marks"),
        F.min("t_ms").alias("first_ms"),
        F.max("t_ms").alias("last_ms"),
        F.min("value").alias("least"),
        F.max("value").alias("most"),
    )
    numbers = numbers.localCheckpoint()
    hours = [
        row["hour"]
        for row in numbers.select(F.floor(F.col("first_ms") / HOUR_MS).alias("hour"))
        .distinct()
        .collect()
    ]
    first = samples.where(F.col("hour").isin(hours)).select(
        "series", "metric", "labels", "target", F.col("t_ms").alias("first_ms")
    )
    named = first.join(F.broadcast(numbers), ["series", "first_ms"])
    return named.select(
        "series",
        "metric",
        "labels",
        "target",
        "samples",
        "stale_marks",
        "first_ms",
        "last_ms",
        "least",
        "most",
    ).coalesce(1)


def _target() -> Column:
    """Returns the same as `data_source.target_of`."""
    labels = F.col("labels")
    return F.coalesce(
        F.nullif(F.try_element_at(labels, F.lit("pod")), F.lit("")),
        F.nullif(F.try_element_at(labels, F.lit("instance")), F.lit("")),
        F.lit(""),
    )


def _series(found: DataFrame) -> Column:
    """Returns a number that identifies the series."""
    if "series_id" in found.columns:
        return F.xxhash64("metric", "series_id")
    pairs = F.array_sort(F.map_entries("labels"))
    return F.xxhash64("metric", F.to_json(pairs))


@contextmanager
def settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Sets what one job needs of the session, and restores it."""
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
