"""The increase of counters over the whole run, and the alerts of the run; in Spark.

A total is a lower bound: an increase counts even over a gap, a fall counts from zero, and a series
counts from its first sample on. So the number it is compared with may be larger, but not smaller.
Only a load pod's series counts from zero if it began after the first samples of all: its pod lives
only for the run, and makes a series with its first operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from zonequake_analysis.metrics.samples import GAP_SCRAPES
from zonequake_analysis.metrics.small_tables import small_table
from zonequake_analysis.metrics.table import MetricTables
from zonequake_analysis.metrics.targets import Targets

LOAD_OPERATIONS = "zonequake_load_operations_total"
RESETS = "zonequake_operator_resets_total"
DATA_LOST = "zonequake_operator_data_lost_total"
HELD = (LOAD_OPERATIONS, RESETS, DATA_LOST)
"""Counters that are compared with another record of the run."""

ALERTS = "ALERTS"
MOST_ALERTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """One counter's increase. `seen_ms`: the first increase between two neighbouring samples."""

    metric: str
    labels: dict[str, str]
    target: str
    total: int
    seen_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert in one of its states, from its first sample in it to its last one."""

    name: str
    state: str  # pending, firing
    labels: dict[str, str]
    start_ms: int
    end_ms: int


def counted(spark: SparkSession, tables: MetricTables, targets: Targets) -> list[Counted]:
    """Returns the totals of `HELD`, one for each series."""
    limits = small_table(spark, list(targets.scrape_ms.items()), "target string, scrape_ms bigint")
    series = (
        tables.series.where(F.col("metric").isin(*HELD))
        .join(F.broadcast(limits), "target")
        .select("series", "metric", "labels", "target", "first_ms", "scrape_ms")
    )
    of_load = (F.col("metric") == LOAD_OPERATIONS).alias("of_load")
    wanted = F.broadcast(series.select("series", "first_ms", "scrape_ms", of_load))
    by_time = Window.partitionBy("series").orderBy("t_ms")
    until = by_time.rowsBetween(Window.unboundedPreceding, -1)
    value, before = F.col("value"), F.col("before")
    late = F.col("first_ms") > targets.first_ms + GAP_SCRAPES * F.col("scrape_ms")
    born = F.col("of_load") & late
    step = (
        F.when(before.isNull(), F.when(born, value).otherwise(0.0))
        .when(value < before, value)
        .otherwise(value - before)
    )
    rows = (
        tables.samples.where(F.col("metric").isin(*HELD))
        .select("series", "t_ms", "value")
        .join(wanted, "series")
        .withColumn("since_ms", F.col("t_ms") - F.lag("t_ms").over(by_time))
        .withColumn("last", F.lag("value").over(by_time))
        .withColumn("before", F.last("value", ignorenulls=True).over(until))
    )
    close = (F.col("since_ms") <= GAP_SCRAPES * F.col("scrape_ms")) & (value > F.col("last"))
    totals = (
        rows.where(value.isNotNull())
        .groupBy("series")
        .agg(F.sum(step).alias("total"), F.min(F.when(close, F.col("t_ms"))).alias("seen_ms"))
    )
    return [
        Counted(
            metric=row["metric"],
            labels=dict(row["labels"]),
            target=row["target"],
            total=round(row["total"]),
            seen_ms=row["seen_ms"],
        )
        for row in totals.join(F.broadcast(series), "series").collect()
    ]


def alerts(tables: MetricTables) -> Sequence[Alert]:
    """Returns the alerts that were pending or firing, the earliest first."""
    rows = (
        tables.series.where(F.col("metric") == ALERTS)
        .orderBy("first_ms")
        .limit(MOST_ALERTS)
        .collect()
    )
    found = []
    for row in rows:
        labels = dict(row["labels"])
        found.append(
            Alert(
                name=labels.pop("alertname", ""),
                state=labels.pop("alertstate", ""),
                labels=labels,
                start_ms=row["first_ms"],
                end_ms=row["last_ms"],
            )
        )
    return found
