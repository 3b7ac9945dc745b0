"""Tables that tasks read and write hold what Spark's own hold."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.histories.made_metrics import STALE, MadeSeries, write_metrics
from zonequake_analysis.inputs.prometheus.sample_files import metric_files
from zonequake_analysis.metrics.stored_tables import samples_in, stored
from zonequake_analysis.metrics.table import SAMPLES, SERIES, write_tables
from zonequake_analysis.storage.location import Location

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

HOUR_MS = 3_600_000
START_MS = 400_000 * HOUR_MS - 30_000
"""Half a minute before the hour is full, so that there are two."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Location]:
    run = tmp_path_factory.mktemp("run")
    series = [
        MadeSeries(metric="a_level", labels={"pod": "p-0", "zone": "z1"}, value=float),
        MadeSeries(metric="b_total", value=lambda s: STALE if s == 40 else s if s < 40 else None),
    ]
    write_metrics(run, series, start_ms=START_MS, seconds=60)
    (whole,) = metric_files(run)
    rows = pq.read_table(str(whole))
    pq.write_table(rows.slice(0, 50), run / "metrics" / "first.parquet", row_group_size=20)
    pq.write_table(rows.slice(50), run / "metrics" / "second.parquet")
    whole.delete()
    return metric_files(run)


def sorted_rows(found: DataFrame) -> list[str]:
    return sorted(str(sorted(row.asDict(recursive=True).items())) for row in found.collect())


def test_row_groups_are_read_once_each_as_spark_reads_the_files(
    spark: SparkSession, files: list[Location]
) -> None:
    read = samples_in(spark, files)
    assert read.rdd.getNumPartitions() == 4, "a task for each row group"
    assert sorted_rows(read) == sorted_rows(spark.read.parquet(*map(str, files)))


def test_tables_of_metrics_are_what_spark_would_make_of_the_files(
    spark: SparkSession, files: list[Location]
) -> None:
    tables = write_tables(spark, files[0].parent.parent)
    assert tables is not None
    folder = tables.samples.parent
    samples = spark.read.schema(SAMPLES).parquet(str(folder / "metrics"))
    pod = F.try_element_at("labels", F.lit("pod"))
    expected = spark.read.parquet(*map(str, files)).select(
        "metric",
        "labels",
        F.coalesce(pod, F.lit("")).alias("target"),
        F.xxhash64("metric", "series_id").alias("series"),
        F.col("ts_ms").alias("t_ms"),
        F.when(~F.col("stale"), F.col("value")).alias("value"),
        "stale",
        F.floor(F.col("ts_ms") / HOUR_MS).alias("hour"),
    )
    assert sorted_rows(samples) == sorted_rows(expected)
    assert samples.count() == 60 + 41
    assert {hour for hour, _ in tables.files()} == {399_999, 400_000}

    series = spark.read.schema(SERIES).parquet(str(folder / "metric_series"))
    numbers = expected.groupBy("series", "metric", "target").agg(
        F.first("labels").alias("labels"),
        F.count("*").alias("samples"),
        F.count_if("stale").alias("stale_marks"),
        F.min("t_ms").alias("first_ms"),
        F.max("t_ms").alias("last_ms"),
        F.min("value").alias("least"),
        F.max("value").alias("most"),
    )
    assert sorted_rows(series) == sorted_rows(numbers)
    assert len(sorted_rows(series)) == 2


def test_a_table_that_tasks_store_is_what_is_asked_later(
    spark: SparkSession, files: list[Location], tmp_path: Path
) -> None:
    rows = samples_in(spark, files)
    kept = stored(rows, Location.of(tmp_path / "rows"))
    assert sorted_rows(kept) == sorted_rows(spark.read.parquet(str(tmp_path / "rows")))
    assert sorted_rows(kept) == sorted_rows(rows)
    kept.unpersist()


def test_a_table_without_rows_is_a_file_with_its_columns(
    spark: SparkSession, files: list[Location], tmp_path: Path
) -> None:
    rows = samples_in(spark, files[:1]).where("metric is null").coalesce(1)
    stored(rows, Location.of(tmp_path / "rows")).unpersist()
    (file,) = (tmp_path / "rows").iterdir()
    table = pq.read_table(file)
    assert table.num_rows == 0
    assert table.column_names == rows.columns


def test_a_file_that_is_no_parquet_is_an_error_of_arrow(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = Location.of(tmp_path / "x.parquet")
    file.write(b"PAR1 and no more")
    with pytest.raises(pa.ArrowException):
        samples_in(spark, [file])
