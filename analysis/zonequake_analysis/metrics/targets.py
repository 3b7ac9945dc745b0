"""The usual time between scrapes of each target, and the gaps between them; in Spark.

A target's longest series represents it: while Prometheus can't reach a target, its own `up` goes
on, but all other series end with a stale marker. Without a sample nothing is known; it is no sign
that nothing changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from zonequake_analysis.metrics.samples import GAP_SCRAPES
from zonequake_analysis.metrics.slices import SCRAPE_MS
from zonequake_analysis.metrics.small_tables import small_table
from zonequake_analysis.metrics.table import MetricTables

MOST_GAPS = 500

_OF_PROMETHEUS = ("up", "scrape_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """No sample of this target between two moments; `ended`: it came back."""

    target: str
    start_ms: int
    end_ms: int
    ended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """`scrape_ms` by target; under "" for series that rules made. Times are those of the first
    sample of all and of the last one. `gaps`: the longest ones, and those that last until the end;
    `gaps_left_out`: 1 if there are more.
    """

    first_ms: int
    last_ms: int
    samples: int
    series: int
    scrape_ms: Mapping[str, int]
    gaps: Sequence[Gap]
    gaps_left_out: int = 0

    @property
    def usual_scrape_ms(self) -> int:
        """The median of the targets' times between two samples."""
        found = sorted(ms for target, ms in self.scrape_ms.items() if target)
        return found[len(found) // 2] if found else SCRAPE_MS

    def without_gap(self, target: str) -> bool:
        """Returns whether it was scraped all the time, from its first sample to the last of all.

        False for every target if gaps are left out.
        """
        return not self.gaps_left_out and all(gap.target != target for gap in self.gaps)


def targets_of(spark: SparkSession, tables: MetricTables) -> Targets:
    """Looks at the longest series of each target."""
    series = tables.series
    whole = series.agg(
        F.min("first_ms").alias("first_ms"),
        F.max("last_ms").alias("last_ms"),
        F.sum("samples").alias("samples"),
        F.count(F.lit(1)).alias("series"),
    ).collect()[0]
    if not whole["series"]:
        return Targets(
            first_ms=0, last_ms=0, samples=0, series=0, scrape_ms={"": SCRAPE_MS}, gaps=[]
        )
    own = (F.col("metric") != _OF_PROMETHEUS[0]) & ~F.startswith("metric", F.lit(_OF_PROMETHEUS[1]))
    longest = Window.partitionBy("target").orderBy(
        F.desc(own), F.desc(F.col("samples") - F.col("stale_marks")), "metric", "series"
    )
    chosen = (
        series.withColumn("place", F.row_number().over(longest))
        .where(F.col("place") == 1)
        .select("series", "target")
    )
    by_time = Window.partitionBy("series").orderBy("t_ms")
    times = (
        tables.samples.where(~F.col("stale"))
        .select("series", "t_ms")
        .join(F.broadcast(chosen), "series")
        .withColumn("since_ms", F.col("t_ms") - F.lag("t_ms").over(by_time))
    )
    scraped = times.groupBy("target").agg(
        F.percentile_approx("since_ms", 0.5, 1000).alias("scrape_ms"),
        F.max("t_ms").alias("last_ms"),
    )
    rows = scraped.collect()
    scrape_ms = {row["target"]: int(row["scrape_ms"] or SCRAPE_MS) for row in rows}
    scrape_ms.setdefault("", SCRAPE_MS)
    limits = small_table(spark, list(scrape_ms.items()), "target string, scrape_ms bigint")
    found = [
        Gap(
            target=row["target"],
            start_ms=row["t_ms"] - row["since_ms"],
            end_ms=row["t_ms"],
            ended=True,
        )
        for row in times.join(F.broadcast(limits), "target")
        .where((F.col("target") != "") & (F.col("since_ms") > GAP_SCRAPES * F.col("scrape_ms")))
        .orderBy(F.desc("since_ms"))
        .limit(MOST_GAPS + 1)
        .collect()
    ]
    last_ms = int(whole["last_ms"])
    gone = [
        Gap(target=row["target"], start_ms=row["last_ms"], end_ms=last_ms, ended=False)
        for row in rows
        if row["target"] and last_ms - row["last_ms"] > GAP_SCRAPES * scrape_ms[row["target"]]
    ]
    return Targets(
        first_ms=int(whole["first_ms"]),
        last_ms=last_ms,
        samples=int(whole["samples"]),
        series=int(whole["series"]),
        scrape_ms=scrape_ms,
        gaps=sorted([*found[:MOST_GAPS], *gone], key=lambda gap: gap.start_ms),
        gaps_left_out=len(found[MOST_GAPS:]),
    )
