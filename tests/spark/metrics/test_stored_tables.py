"""Tables of metrics as tasks read and write them for a store hold what Spark's own hold."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.histories.made_metrics import STALE, MadeSeries, write_metrics
from zonequake_analysis.metrics.stored_tables import samples_in, stored
from zonequake_analysis.metrics.table import SAMPLES, metric_files, rows_of, series_of, written
from zonequake_analysis.storage.place import Place

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

HOUR_MS = 3_600_000
START_MS = 400_000 * HOUR_MS - 30_000
"""Half a minute before the hour is full, so that there are two."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Place]:
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
    spark: SparkSession, files: list[Place]
) -> None:
    read = samples_in(spark, files)
    assert read.rdd.getNumPartitions() == 4, "a task for each row group"
    assert sorted_rows(read) == sorted_rows(spark.read.parquet(*map(str, files)))


def test_what_tasks_wrote_is_what_spark_writes_and_what_is_asked_later(
    spark: SparkSession, files: list[Place], tmp_path: Path
) -> None:
    rows = rows_of(samples_in(spark, files))
    by_spark = written(spark, rows, Place.of(tmp_path / "spark"), SAMPLES, by="hour")
    by_tasks = stored(rows, Place.of(tmp_path / "tasks"), by="hour")
    read_again = spark.read.schema(SAMPLES).parquet(str(tmp_path / "tasks"))
    assert {folder.name for folder in (tmp_path / "tasks").iterdir()} == {
        "hour=399999",
        "hour=400000",
    }
    assert sorted_rows(by_spark) == sorted_rows(by_tasks) == sorted_rows(read_again)
    assert by_spark.count() == 60 + 41

    series = stored(series_of(by_tasks), Place.of(tmp_path / "series"))
    assert sorted_rows(series) == sorted_rows(spark.read.parquet(str(tmp_path / "series")))
    assert sorted_rows(series) == sorted_rows(series_of(by_spark))
    by_tasks.unpersist()
    series.unpersist()


def test_a_table_without_rows_is_a_file_with_its_columns(
    spark: SparkSession, files: list[Place], tmp_path: Path
) -> None:
    series = series_of(rows_of(samples_in(spark, files))).where("series is null")
    stored(series, Place.of(tmp_path / "series")).unpersist()
    (file,) = (tmp_path / "series").iterdir()
    table = pq.read_table(file)
    assert table.num_rows == 0
    assert table.column_names == series.columns


def test_a_file_that_is_no_parquet_is_an_error_of_arrow(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = Place.of(tmp_path / "x.parquet")
    file.write(b"PAR1 and no more")
    with pytest.raises(pa.ArrowException):
        samples_in(spark, [file])
