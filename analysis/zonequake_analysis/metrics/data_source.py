"""Spark's data source `prometheus`: a live server, read by remote_read in slices as partitions.

    register(spark)
    spark.read.format("prometheus").option("url", "http://127.0.0.1:9090")
        .option("start_ms", 1700000000000).option("end_ms", 1700003600000).load()

A partition is a slice of time × metrics of about `samples` samples, which one task reads. Only the
list of series passes through the driver.

| option | what | default |
| --- | --- | --- |
| `url` | base URL of the server, as the executors reach it | |
| `start_ms`, `end_ms` | start_ms ≤ t < end_ms, unix ms | |
| `match` | label matchers that must all hold: `__name__=~"zonequake_.*",pod="a"` | everything |
| `samples` | samples in a partition, about | 1,000,000 |
| `scrape_ms` | time between two samples of a series | measured at some series |

The server limits the requests that it reads at once (`--storage.remote.read-concurrent-limit`, 10):
further tasks wait there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from zonequake_analysis.errors import PrometheusError
from zonequake_analysis.inputs.prometheus.matchers import matchers_in
from zonequake_analysis.inputs.prometheus.remote_read import (
    LABELS,
    Labels,
    Samples,
    http_post,
    metric_of,
    read,
    without_name,
)
from zonequake_analysis.inputs.prometheus.scrape_interval import measured_slices
from zonequake_analysis.inputs.prometheus.slices import Slice

SAMPLES = 1_000_000

SCHEMA = (
    "metric string, labels map<string,string>, target string, t_ms bigint, value double, "
    "stale boolean"
)
_ARROW = pa.schema(
    [
        ("metric", pa.string()),
        ("labels", LABELS),
        ("target", pa.string()),
        ("t_ms", pa.int64()),
        ("value", pa.float64()),
        ("stale", pa.bool_()),
    ]
)


def register(spark: SparkSession) -> None:
    """Makes the format `prometheus` known to this session."""
    spark.dataSource.register(PrometheusSource)


class SlicePartition(InputPartition):
    """A slice that one task reads."""

    def __init__(self, one: Slice) -> None:
        super().__init__(one)
        self.slice = one


class PrometheusSource(DataSource):
    """The format `prometheus`; see the module."""

    @classmethod
    def name(cls) -> str:
        return "prometheus"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return PrometheusReader(
            url=self._text("url"),
            start_ms=self._number("start_ms"),
            end_ms=self._number("end_ms"),
            matchers=matchers_in(self.options.get("match", "")),
            samples=self._number("samples", SAMPLES),
            scrape_ms=self._number("scrape_ms") if "scrape_ms" in self.options else None,
        )

    def _text(self, name: str) -> str:
        found = self.options.get(name)
        if not found:
            raise PrometheusError(
                f'found no option {name!r}, expected .option("{name}", …): '
                "url, start_ms and end_ms are needed"
            )
        return str(found)

    def _number(self, name: str, default: int | None = None) -> int:
        text = self._text(name) if default is None else str(self.options.get(name, default))
        try:
            return int(text)
        except ValueError as error:
            raise PrometheusError(f"option {name}: found {text!r}, expected an integer") from error


class PrometheusReader(DataSourceReader):
    """Lists the slices on the driver, and reads one of them in each task."""

    def __init__(
        self,
        *,
        url: str,
        start_ms: int,
        end_ms: int,
        matchers: Sequence[str],
        samples: int,
        scrape_ms: int | None,
    ) -> None:
        if start_ms >= end_ms or samples < 1 or (scrape_ms is not None and scrape_ms < 1):
            raise PrometheusError(
                f"found start_ms {start_ms}, end_ms {end_ms}, samples {samples}, scrape_ms "
                f"{scrape_ms}; expected start_ms < end_ms, and at least 1"
            )
        self._url = url
        self._start_ms = start_ms
        self._end_ms = end_ms
        self._matchers = tuple(matchers)
        self._samples = samples
        self._scrape_ms = scrape_ms

    def partitions(self) -> Sequence[InputPartition]:
        cut = measured_slices(
            http_post(self._url),
            self._start_ms,
            self._end_ms,
            self._matchers,
            samples=self._samples,
            scrape_ms=self._scrape_ms,
        )
        return [SlicePartition(one) for one in cut]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, SlicePartition):
            return  # Spark makes one without a value where there are no slices
        for found in read(http_post(self._url), partition.slice, self._matchers):
            yield _rows(found)


def target_of(labels: Labels) -> str:
    """Returns the target of a series: its pod, or else its instance; empty if a rule made it."""
    given = dict(labels)
    return given.get("pod") or given.get("instance") or ""


def _rows(found: Samples) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            found.repeated([metric_of(labels) for labels in found.series], pa.string()),
            found.repeated([without_name(labels) for labels in found.series], LABELS),
            found.repeated([target_of(labels) for labels in found.series], pa.string()),
            pa.array(found.t_ms),
            pa.array(found.values, mask=found.stale),
            pa.array(found.stale),
        ],
        schema=_ARROW,
    )
