"""Facts of the whole run from counters and the longest series of all targets; in Spark's tasks.

    tables/metrics ──▶ the longest series of each target, and counters ──by target──▶ numbers

All series of a target come to one task, which knows from the longest how often it was scraped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from zonequake_analysis.metrics.counters import HELD, LOAD_OPERATIONS, Increase, increase
from zonequake_analysis.metrics.scrapes import Scraped, longest_series, scraped
from zonequake_analysis.metrics.table import MetricTables
from zonequake_analysis.metrics.tasks.selected import (
    SeriesSamples,
    buckets_for,
    by_series,
    of_tasks,
    select,
    wanted,
)
from zonequake_analysis.metrics.tasks.steps import GAP_SCRAPES
from zonequake_analysis.spark_pass.in_tasks import in_tasks


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A counter: its target, its first sample, and whether a load pod made it."""

    target: str
    first_ms: int
    of_load: bool


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a bucket."""

    scraped: list[Scraped]
    increases: list[Increase]


def seen_in(spark: SparkSession, tables: MetricTables) -> Seen:
    """Returns the facts of all samples. Raises PySparkException."""
    longest = longest_series(tables.series)
    rows = tables.series.filter(pc.is_in(tables.series["metric"], pa.array(HELD)))
    held = {
        row["series"]: Held(
            target=row["target"],
            first_ms=row["first_ms"],
            of_load=row["metric"] == LOAD_OPERATIONS,
        )
        for row in rows.select(["series", "target", "first_ms", "metric"]).to_pylist()
    }
    target_of = {number: target for target, number in longest.items()}
    target_of |= {number: one.target for number, one in held.items()}
    if not target_of:
        return Seen(scraped=[], increases=[])
    some = tables.series.filter(pc.is_in(tables.series["series"], pa.array(list(target_of))))
    buckets = buckets_for(sum(some["samples"].to_pylist()))
    place = {target: number % buckets for number, target in enumerate(longest)}
    chosen = wanted(list(target_of), [place[target] for target in target_of.values()])
    tasks = of_tasks([file for _, file in tables.files()])
    first_ms = min(tables.series["first_ms"].to_pylist())
    made = in_tasks(
        spark,
        partial(select, tasks, chosen),
        partial(_look, longest, held, first_ms),
        tasks=len(tasks),
        buckets=buckets,
    )
    found = [msgspec.msgpack.decode(one, type=Seen) for one in made]
    return Seen(
        scraped=[one for part in found for one in part.scraped],
        increases=[one for part in found for one in part.increases],
    )


def _look(
    longest: Mapping[str, int],
    held: Mapping[int, Held],
    first_ms: int,
    _bucket: int,
    made: Sequence[bytes],
) -> bytes:
    samples: dict[int, SeriesSamples] = {one.series: one for one in by_series(made)}
    found = [
        scraped(target, samples[number]) for target, number in longest.items() if number in samples
    ]
    of_target = {one.target: one for one in found if one is not None}
    increases = []
    for number, one in held.items():
        if number in samples and one.target in of_target:
            scrape_ms = of_target[one.target].scrape_ms
            late = one.first_ms > first_ms + GAP_SCRAPES * scrape_ms
            grown = increase(samples[number], late=late, born=one.of_load, scrape_ms=scrape_ms)
            increases += [] if grown is None else [grown]
    return msgspec.msgpack.encode(Seen(scraped=list(of_target.values()), increases=increases))
