"""Samples with the steps between them, and quantiles of histograms; in Spark.

If a counter fell, its process began again, so its step counts from zero. A rate needs two samples
of one life, one scrape apart: there is none after a stale marker, and none over a gap.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

GAP_SCRAPES = 3
"""More missing scrapes than this make a gap: one may come late."""

QUANTILES = {"p50": 0.5, "p99": 0.99}


def steps(samples: DataFrame) -> DataFrame:
    """Adds `since_ms`, the time since the sample before, and `step`, the growth since then.

    `samples` need series, t_ms, value, stale, counter and scrape_ms. `step` is null if there is no
    rate; stale markers themselves are kept, with a null value.
    """
    before = Window.partitionBy("series").orderBy("t_ms")
    value, previous = F.col("value"), F.lag("value").over(before)
    since = F.col("t_ms") - F.lag("t_ms").over(before)
    grown = F.when(F.col("counter") & (value < F.col("previous")), value).otherwise(
        value - F.col("previous")
    )
    alive = F.col("since_ms") <= GAP_SCRAPES * F.col("scrape_ms")
    return (
        samples.withColumns({"previous": previous, "since_ms": since})
        .withColumn("step", F.when(alive, grown))
        .drop("previous")
    )


def quantiles(stepped: DataFrame, buckets: DataFrame) -> DataFrame:
    """Returns quantiles of histograms between each two scrapes: series, t_ms, value, measure.

    `stepped` are steps of bucket series; `buckets` has the histogram and the `le` of each. A
    quantile is interpolated linearly within its bucket, as by Prometheus' `histogram_quantile`.
    """
    # All buckets of a histogram are scraped at once, so they share one time stamp.
    cumulated = (
        stepped.where(F.col("step").isNotNull())
        .join(F.broadcast(buckets), "series")
        .groupBy("histogram", "t_ms")
        .agg(F.array_sort(F.collect_list(F.struct("le", "step"))).alias("buckets"))
        .withColumn("all", F.try_element_at("buckets", F.lit(-1)))
        .where(F.isnotnull("all") & (F.col("all.le") == float("inf")) & (F.col("all.step") > 0))
    )
    found = [
        cumulated.select(
            F.xxhash64("histogram", F.lit(name)).alias("series"),
            "t_ms",
            _quantile(q).alias("value"),
        )
        for name, q in QUANTILES.items()
    ]
    return found[0].union(found[1])


def _quantile(q: float) -> Column:
    buckets, wanted = F.col("buckets"), F.lit(q) * F.col("all.step")
    below = F.filter(buckets, lambda b: b["step"] < wanted)
    lower_le = F.coalesce(F.try_element_at(below, F.lit(-1))["le"], F.lit(0.0))
    lower = F.coalesce(F.try_element_at(below, F.lit(-1))["step"], F.lit(0.0))
    upper = F.try_element_at(F.filter(buckets, lambda b: b["step"] >= wanted), F.lit(1))
    within = lower_le + (upper["le"] - lower_le) * (wanted - lower) / (upper["step"] - lower)
    return F.when(upper["le"] == float("inf"), lower_le).otherwise(within)
