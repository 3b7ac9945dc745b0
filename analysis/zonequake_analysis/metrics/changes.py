"""The table `metric_changes`: each series in each span, against the quiet phase; in Spark.

    samples of the spans ─▶ steps ─┬─▶ levels and rates ─┐
                                   └─▶ quantiles ────────┴─▶ series × part ─▶ series × span

The score is robust: how far the 10 %, 50 % or 90 % point of a span is from the quiet phase's
median, in units of `scale`. That is the spread of the quiet phase (1.4826 × MAD), but at least 5 %
of its median and 1 % of the largest value seen, because a series that stood still has no spread,
and for counted events at least the variation by chance of so few.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from zonequake_analysis.metrics.samples import GAP_SCRAPES, QUANTILES, quantiles, steps
from zonequake_analysis.metrics.small_tables import small_table
from zonequake_analysis.metrics.spans import Spans, Stretch
from zonequake_analysis.metrics.table import HOUR_MS, MetricTables, written
from zonequake_analysis.metrics.targets import Targets
from zonequake_analysis.metrics.words import family, is_counter, is_quiet, unit
from zonequake_analysis.storage.place import Place

MIN_QUIET = 4
"""Fewest samples of the quiet phase for a comparison."""

MIN_SCALE_OF_MEDIAN = 0.05
MIN_SCALE_OF_MOST = 0.01
MAD_TO_SIGMA = 1.4826

_QUIET = -1
"""Number of the quiet phase among the spans."""

_OF_SERIES = ("counter", "scrape_ms", "bucket")
_SHOWN = (
    "series",
    "metric",
    "labels",
    "target",
    "counter",
    "scrape_ms",
    "family",
    "unit",
    "unit_of_rate",
)

CHANGES = (
    "span int, span_kind string, span_name string, metric string, measure string, "
    "labels map<string,string>, target string, family string, unit string, before double, "
    "scale double, during double, at_ms bigint, after double, score double, samples int, "
    "gap_ms bigint"
)
COLUMNS = tuple(column.split()[0] for column in CHANGES.split(", "))


def write_changes(
    spark: SparkSession,
    run: Path | Place,
    tables: MetricTables,
    spans: Spans,
    targets: Targets,
) -> DataFrame:
    """Writes `tables/metric_changes` and returns it."""
    folder = Place.of(run).resolve() / "tables" / "metric_changes"
    found = changes(spark, tables, spans, targets)
    return written(spark, found.coalesce(1), folder, found.schema)


def changes(spark: SparkSession, tables: MetricTables, spans: Spans, targets: Targets) -> DataFrame:
    """Returns the rows of the table: one for each series and span in which it has samples."""
    series = named_series(spark, tables, targets.scrape_ms).where(
        ~F.col("quiet") & ((F.col("least") < F.col("most")) | (F.col("stale_marks") > 0))
    )
    looked = _within(tables.samples, spans, targets.scrape_ms).join(
        F.broadcast(series.select("series", "counter", "scrape_ms", "bucket")), "series"
    )
    stepped = steps(looked.select("series", "t_ms", "value", "stale", *_OF_SERIES))
    histograms = _histograms(series)
    found = quantiles(stepped.where("bucket"), _buckets(series)).select(
        "series",
        "t_ms",
        "value",
        F.lit(None).cast("double").alias("rate"),
        F.lit(None).cast("bigint").alias("since_ms"),
        F.lit(False).alias("stale"),
    )
    points = stepped.where(~F.col("bucket")).select(
        "series",
        "t_ms",
        "value",
        (F.col("step") / F.col("since_ms") * 1000).alias("rate"),
        "since_ms",
        "stale",
    )
    parts = _parts(spark, points.union(found), spans)
    shown = series.where(~F.col("bucket")).select(*_SHOWN, F.lit("").alias("quantile"))
    return _compared(spark, parts, shown.union(histograms), spans, targets.last_ms)


def named_series(
    spark: SparkSession, tables: MetricTables, scrape_ms: Mapping[str, int]
) -> DataFrame:
    """Returns the table of series with the facts from their names and targets."""
    names = [row["metric"] for row in tables.series.select("metric").distinct().collect()]
    words = small_table(
        spark,
        [_words(name) for name in names],
        "metric string, counter boolean, quiet boolean, bucket boolean, family string, "
        "unit string, unit_of_rate string",
    )
    targets = small_table(
        spark, list(scrape_ms.items()) or [("", 1000)], "target string, scrape_ms bigint"
    )
    return tables.series.join(F.broadcast(words), "metric").join(F.broadcast(targets), "target")


def _words(name: str) -> tuple[str, bool, bool, bool, str, str, str]:
    of_bucket = name.endswith("_bucket")
    stem = name.removesuffix("_bucket")
    return (
        name,
        is_counter(name),
        is_quiet(name),
        of_bucket,
        family(stem),
        unit(stem, "level"),
        unit(name, "rate"),
    )


def _within(samples: DataFrame, spans: Spans, scrape_ms: Mapping[str, int]) -> DataFrame:
    """Returns the samples that are compared, and those just before."""
    look_back = (GAP_SCRAPES + 1) * max(scrape_ms.values(), default=1000)
    stretches = [] if spans.quiet is None else [spans.quiet]
    stretches += [part for span in spans.spans for part in (span.during, span.after)]
    joined: list[Stretch] = []
    for one in sorted(stretches, key=lambda one: one.start_ms):
        first = one.start_ms - look_back
        if joined and first <= joined[-1].end_ms:
            last = max(joined[-1].end_ms, one.end_ms)
            joined[-1] = Stretch(start_ms=joined[-1].start_ms, end_ms=last)
        else:
            joined.append(Stretch(start_ms=first, end_ms=one.end_ms))
    hours = {
        hour for one in joined for hour in range(one.start_ms // HOUR_MS, one.end_ms // HOUR_MS + 1)
    }
    inside = F.lit(False)
    for one in joined:
        inside = inside | ((F.col("t_ms") >= one.start_ms) & (F.col("t_ms") < one.end_ms))
    return samples.where(F.col("hour").isin(sorted(hours)) & inside)


def _histogram() -> Column:
    """Returns a number that identifies the histogram of a bucket's series."""
    rest = F.map_filter("labels", lambda name, _: name != "le")
    return F.xxhash64("metric", F.to_json(F.array_sort(F.map_entries(rest))))


def _buckets(series: DataFrame) -> DataFrame:
    return series.where("bucket").select(
        "series",
        _histogram().alias("histogram"),
        F.try_element_at("labels", F.lit("le")).try_cast("double").alias("le"),
    )


def _histograms(series: DataFrame) -> DataFrame:
    """Returns the series that quantiles make, one for each histogram and quantile."""
    stem = F.regexp_replace("metric", "_bucket$", "")
    named = series.where("bucket").select(
        _histogram().alias("histogram"),
        stem.alias("metric"),
        F.map_filter("labels", lambda name, _: name != "le").alias("labels"),
        "target",
        "scrape_ms",
        "family",
        "unit",
    )
    one = named.groupBy("histogram").agg(
        *(F.any_value(name).alias(name) for name in named.columns if name != "histogram")
    )
    every = one.select(F.explode(F.array(*map(F.lit, QUANTILES))).alias("quantile"), "*")
    return every.select(
        F.xxhash64("histogram", "quantile").alias("series"),
        "metric",
        "labels",
        "target",
        F.lit(False).alias("counter"),
        "scrape_ms",
        "family",
        "unit",
        F.lit("").alias("unit_of_rate"),
        "quantile",
    )


def _parts(spark: SparkSession, points: DataFrame, spans: Spans) -> DataFrame:
    """Returns one row per series, with an array of its points by span and part."""
    rows = [
        (span.number, part, one.start_ms, one.end_ms)
        for span in spans.spans
        for part, one in (("during", span.during), ("after", span.after))
    ]
    if spans.quiet is not None:
        rows.append((_QUIET, "quiet", spans.quiet.start_ms, spans.quiet.end_ms))
    parts = small_table(spark, rows, "span int, part string, start_ms bigint, end_ms bigint")
    inside = (F.col("t_ms") >= F.col("start_ms")) & (F.col("t_ms") < F.col("end_ms"))
    alive = ~F.col("stale") & F.col("value").isNotNull()
    since = F.when(F.col("t_ms") - F.col("since_ms") >= F.col("start_ms"), F.col("since_ms"))
    return (
        points.join(F.broadcast(parts), inside)
        .groupBy("series", "span", "part")
        .agg(
            F.min(F.when(alive, F.col("t_ms"))).alias("first_ms"),
            F.max(F.when(alive, F.col("t_ms"))).alias("last_ms"),
            F.max(since).alias("longest_ms"),
            F.collect_list(F.when(alive, F.struct("value", "rate", "t_ms"))).alias("points"),
        )
        .groupBy("series")
        .agg(
            F.collect_list(
                F.struct("span", "part", "first_ms", "last_ms", "longest_ms", "points")
            ).alias("parts")
        )
    )


def _compared(
    spark: SparkSession, parts: DataFrame, series: DataFrame, spans: Spans, last_ms: int
) -> DataFrame:
    """Returns one row for each series and span. `last_ms`: the last sample of all, which ends no
    gap.
    """
    asked = small_table(
        spark,
        [
            (s.number, s.kind, s.name, s.during.start_ms, min(s.during.end_ms, last_ms))
            for s in spans.spans
        ],
        "span int, span_kind string, span_name string, start_ms bigint, end_ms bigint",
    )
    quiet = _part("quiet", F.lit(_QUIET))["points"]
    rates = F.filter(F.transform(quiet, lambda p: p["rate"]), lambda r: r.isNotNull())
    grows = (
        (F.size(rates) >= MIN_QUIET)
        & ~F.exists(rates, lambda r: r < 0)
        & (F.size(F.filter(rates, lambda r: r > 0)) * 2 > F.size(rates))
    )
    rows = (
        parts.join(F.broadcast(series), "series")
        .withColumn(
            "by_rate",
            F.col("counter") | ((F.col("quantile") == "") & F.coalesce(grows, F.lit(False))),
        )
        .withColumn("quiet", _values(quiet))
        .withColumn("before", _at(_sorted("quiet"), 0.5))
        .withColumn("deviations", _deviations())
        .crossJoin(F.broadcast(asked))
        .withColumn("part", _part("during", F.col("span")))
        .withColumn("found", _values(F.col("part")["points"]))
        .withColumn("later", _values(_part("after", F.col("span"))["points"]))
        .withColumn("sorted", _sorted("found"))
        .withColumn("low", _at(F.col("sorted"), 0.1))
        .withColumn("high", _at(F.col("sorted"), 0.9))
        .withColumn("during", _farthest())
        .withColumn("at_ms", _when_farthest())
        .withColumn("scale", _scale())
    )
    enough = F.size(F.coalesce("quiet", F.array())) >= MIN_QUIET
    score = F.when(enough, F.abs(F.col("during") - F.col("before")) / F.nullif("scale", F.lit(0.0)))
    measured = F.when(F.col("quantile") != "", F.col("quantile")).otherwise(
        F.when(F.col("by_rate"), "rate").otherwise("level")
    )
    return rows.select(
        "span",
        "span_kind",
        "span_name",
        "metric",
        measured.alias("measure"),
        "labels",
        "target",
        "before",
        "scale",
        "during",
        "at_ms",
        _at(_sorted("later"), 0.5).alias("after"),
        F.when(F.col("during").isNotNull(), F.coalesce(score, F.when(enough, F.lit(0.0)))).alias(
            "score"
        ),
        F.coalesce(F.size("found"), F.lit(0)).alias("samples"),
        F.when(F.col("quantile") == "", _gap_ms()).alias("gap_ms"),
        "family",
        F.when(F.col("by_rate"), F.col("unit_of_rate")).otherwise(F.col("unit")).alias("unit"),
    ).select(*COLUMNS)


def _part(part: str, span: Column) -> Column:
    """Returns a part of the series' parts, null if it has no samples there."""
    return F.try_element_at(
        F.filter("parts", lambda p: (p["span"] == span) & (p["part"] == part)), F.lit(1)
    )


def _values(points: Column) -> Column:
    """Returns values and their times: rates or levels, as `by_rate` says."""
    both = F.transform(
        points,
        lambda p: F.struct(
            F.when(F.col("by_rate"), p["rate"]).otherwise(p["value"]).alias("v"),
            p["t_ms"].alias("t"),
        ),
    )
    return F.filter(both, lambda p: p["v"].isNotNull() & ~F.isnan(p["v"]))


def _sorted(column: str) -> Column:
    return F.array_sort(F.transform(column, lambda p: p["v"]))


def _at(values: Column, fraction: float) -> Column:
    """Returns the value at a fraction of a sorted array, rounded to its ends, never between two."""
    last = F.size(values) - 1
    place = F.floor(last * fraction) if fraction <= 0.5 else F.ceil(last * fraction)
    return F.when(last >= 0, F.try_element_at(values, (place + 1).cast("int")))


def _deviations() -> Column:
    before = F.col("before")
    return F.array_sort(F.transform("quiet", lambda p: F.abs(p["v"] - before)))


def _scale() -> Column:
    values = F.transform("quiet", lambda p: F.abs(p["v"]))
    scrape_s = F.col("scrape_ms") / 1000
    events = F.col("counter") & (F.col("unit_of_rate") == "times per second")
    return F.greatest(
        # The number of few events between two scrapes varies by its root.
        F.when(events & (F.col("before") > 0), F.sqrt(F.col("before") * scrape_s) / scrape_s),
        MAD_TO_SIGMA * _at(F.col("deviations"), 0.5),
        MIN_SCALE_OF_MEDIAN * F.abs("before"),
        *(MIN_SCALE_OF_MOST * F.abs(end) for end in ("low", "high")),
        MIN_SCALE_OF_MOST * F.array_max(values),
    )


def _farthest() -> Column:
    """Returns the 10 %, 50 % or 90 % point farthest from before; the median without a before."""
    middle = _at(F.col("sorted"), 0.5)
    before = F.coalesce("before", middle)
    points = F.array(
        *(
            F.struct(F.abs(value - before).alias("far"), value.alias("v"))
            for value in (F.col("low"), middle, F.col("high"))
        )
    )
    return F.array_max(points)["v"]


def _when_farthest() -> Column:
    before = F.coalesce("before", _at(F.col("sorted"), 0.5))
    points = F.transform(
        "found", lambda p: F.struct(F.abs(p["v"] - before).alias("far"), (-p["t"]).alias("t"))
    )
    return -F.array_max(points)["t"]


def _gap_ms() -> Column:
    """Returns the longest time in the span without a sample; 0 if only a few scrapes are
    missing.
    """
    part = F.col("part")
    gap = F.greatest(
        F.coalesce(part["first_ms"] - F.col("start_ms"), F.col("end_ms") - F.col("start_ms")),
        part["longest_ms"],
        F.col("end_ms") - part["last_ms"],
    )
    return F.when(gap > GAP_SCRAPES * F.col("scrape_ms"), gap).otherwise(0)
