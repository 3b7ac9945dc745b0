"""Opens the tables of an analyzed run in a Spark session, each as a temporary view.

On a file system that Spark itself reads, Spark scans the files. In a store tasks read them through
the run's own location, each row group in a task, as the analysis itself does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from zonequake_analysis.errors import RunFolderError
from zonequake_analysis.metrics.stored_tables import samples_in
from zonequake_analysis.metrics.tasks.scan import HOUR_MS
from zonequake_analysis.storage.location import Location
from zonequake_analysis.storage.spark_paths import read_at
from zonequake_analysis.tables.schemas import OF_METRICS, TABLES, columns_of


def open_tables(spark: SparkSession, run: Path | str | Location) -> dict[str, DataFrame]:
    """Returns every table of `run` by its name, and makes each a temporary view of that name.

    `run`: a folder, or the URI of one. Tables of metrics have no rows where the run has no metrics.
    Raises RunFolderError for a run without the tables of a whole analysis, LocationError.
    """
    tables = Location.of(run).resolve() / "tables"
    there = {name for name in TABLES if (tables / name).exists()}
    lacking = [name for name in TABLES if name not in there and name not in OF_METRICS]
    if lacking:
        raise RunFolderError(
            f"found no table {', '.join(lacking)} in {tables}, expected all that an analysis "
            "writes: run `zonequake analyze` over the run, and again if it broke off"
        )
    opened = {
        name: _read(spark, tables / name, name) if name in there else _empty(spark, name)
        for name in TABLES
    }
    for name, table in opened.items():
        table.createOrReplaceTempView(name)
    return opened


def without_metrics(run: Path | str | Location) -> list[str]:
    """Lists the tables that the run doesn't have: those of metrics that are not there."""
    tables = Location.of(run) / "tables"
    return [name for name in OF_METRICS if not (tables / name).exists()]


def _empty(spark: SparkSession, name: str) -> DataFrame:
    return spark.createDataFrame([], TABLES[name])


def _read(spark: SparkSession, folder: Location, name: str) -> DataFrame:
    if (path := folder.local) is not None:
        return spark.read.schema(TABLES[name]).parquet(read_at(path))
    return by_tasks(spark, folder.all_below(".parquet"), name)


def by_tasks(spark: SparkSession, files: Sequence[Location], name: str) -> DataFrame:
    """Reads the table `name`, whose files tasks read through their locations, a row group each."""
    if not files:
        return _empty(spark, name)
    rows = samples_in(spark, files)
    columns = columns_of(TABLES[name])
    if "hour" in columns:  # the name of a folder, and in no file
        rows = rows.withColumn("hour", F.floor(F.col("t_ms") / HOUR_MS))
    return rows.select(*(F.col(column).cast(kind) for column, kind in columns.items()))
