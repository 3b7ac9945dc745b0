"""Spark's data source `prometheus`, at a real Prometheus of which a target dies."""

from __future__ import annotations

import time
from collections import Counter
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.spark.metrics.real_prometheus import SCRAPE_MS, Target, prometheus, value, wait_until
from zonequake_analysis.errors import PrometheusError
from zonequake_analysis.inputs.prometheus.matchers import matchers_in
from zonequake_analysis.inputs.prometheus.remote_read import FILE, pull
from zonequake_analysis.metrics.data_source import PrometheusSource, register
from zonequake_analysis.metrics.table import write_tables

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SERIES = 30


def test_slices_hold_every_sample_of_a_live_server_once_with_its_staleness(
    spark: SparkSession, tmp_path: Path
) -> None:
    lives, dies = Target(SERIES), Target(SERIES)
    start_ms = int(time.time() * 1000)
    with prometheus(tmp_path, [lives.port, dies.port]) as url:
        wait_until(lambda: dies.scrapes >= 10, "10 scrapes")
        dies.close()
        gone = f'up{{instance="127.0.0.1:{dies.port}"}}'
        wait_until(lambda: value(url, gone) == [0.0], "a target is gone")
        wait_for_scrapes(lives, 5)
        end_ms = int(time.time() * 1000)
        wait_for_scrapes(lives, 2)  # what the one before the last brought is stored
        frame = _read(spark, url, start_ms, end_ms)
        assert frame.rdd.getNumPartitions() > 5
        found = frame.collect()
        count = pull(url, start_ms, end_ms, ['__name__=~"made.*"'], tmp_path / "metrics")
        tables = write_tables(spark, tmp_path)
    lives.close()
    assert tables is not None
    series = tables.series.to_pylist()
    pulled = pq.read_table(tmp_path / "metrics" / FILE).to_pylist()

    def of(row: Any) -> tuple[str, str]:
        return row["target"], dict(row["labels"])["number"]

    def at(row: Any) -> tuple[object, ...]:
        return *of(row), row["t_ms"]

    def key(row: object, name: str) -> tuple[object, ...]:
        return (row["labels"]["instance"], row["labels"]["number"], row[name])  # type: ignore[index]

    samples = Counter(key(row, "t_ms") for row in found)
    assert len(found) == count > 10 * SERIES
    assert max(samples.values()) == 1
    assert set(samples) == {key(row | {"labels": dict(row["labels"])}, "ts_ms") for row in pulled}
    assert {row["value"] for row in found if row["stale"]} == {None}
    assert None not in {row["value"] for row in found if not row["stale"]}
    # A busy machine may miss a scrape of either: that, too, leaves one marker in each series.
    in_order = groupby(sorted(found, key=at), of)
    marks = {of_series: [row["stale"] for row in rows] for of_series, rows in in_order}
    for (target, number), marked in marks.items():
        if target == f"127.0.0.1:{dies.port}":
            assert marked[-1], f"no marker behind series {number} of the target that died"
        assert (True, True) not in pairwise([True, *marked])
    assert {of(row): row["stale_marks"] for row in series} == {
        of_series: sum(marked) for of_series, marked in marks.items()
    }
    assert len(marks) == 2 * SERIES


def wait_for_scrapes(target: Target, count: int) -> None:
    before = target.scrapes
    wait_until(lambda: target.scrapes >= before + count, f"{count} more scrapes")


def _read(spark: SparkSession, url: str, start_ms: int, end_ms: int) -> DataFrame:
    register(spark)
    return (
        spark.read.format("prometheus")
        .option("url", url)
        .option("start_ms", start_ms)
        .option("end_ms", end_ms)
        .option("match", '__name__=~"made.*", job="made"')
        .option("samples", 4 * 2 * SERIES)
        .option("scrape_ms", SCRAPE_MS)
        .load()
    )


def test_a_server_that_is_not_there_is_named(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="is Prometheus running"):
        _read(spark, "http://127.0.0.1:9", 0, 1000).agg(F.count("*")).collect()


def test_an_option_that_is_missing_or_no_number_is_named() -> None:
    with pytest.raises(PrometheusError, match="found no option 'url'"):
        PrometheusSource({}).reader(None)  # type: ignore[arg-type]
    options = {"url": "http://127.0.0.1:9", "start_ms": "now", "end_ms": "1"}
    with pytest.raises(PrometheusError, match="start_ms: found 'now', expected an integer"):
        PrometheusSource(options).reader(None)  # type: ignore[arg-type]
    with pytest.raises(PrometheusError, match="expected start_ms < end_ms"):
        PrometheusSource(options | {"start_ms": "1"}).reader(None)  # type: ignore[arg-type]


def test_matchers_are_split_at_commas_outside_their_quotes() -> None:
    assert matchers_in('a="x,y", b=~"p|q"') == ['a="x,y"', 'b=~"p|q"']
    assert matchers_in("") == []
    with pytest.raises(PrometheusError, match="expected name="):
        matchers_in("a=1")
