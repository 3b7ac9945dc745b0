"""The table `metric_changes`: each series in each span, against the quiet phase; in Spark's tasks.

    tables/metrics ──▶ samples of the spans ──by series and histogram──▶ points ──▶ series × span

Quantiles of a histogram stand beside the series, so all its buckets come to one task. Each task
writes a file, and returns the rows that may be among the strongest of a span that is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from zonequake_analysis.inputs.prometheus.metric_names import family, is_counter, is_quiet, unit
from zonequake_analysis.inputs.prometheus.remote_read import LABELS
from zonequake_analysis.inputs.prometheus.server_metrics import OF_STORE, ServerMetric
from zonequake_analysis.metrics.scrapes import Targets
from zonequake_analysis.metrics.shown_changes import ShownChanges, merged, shown_of
from zonequake_analysis.metrics.spans import Spans, Stretch
from zonequake_analysis.metrics.table import MetricTables, write_table
from zonequake_analysis.metrics.tasks.compared import RATE, About, Change, stretches
from zonequake_analysis.metrics.tasks.compared import changes as compared
from zonequake_analysis.metrics.tasks.curve import Curve, curve
from zonequake_analysis.metrics.tasks.scan import HOUR_MS
from zonequake_analysis.metrics.tasks.selected import (
    SeriesSamples,
    buckets_for,
    by_series,
    of_tasks,
    select,
    wanted,
)
from zonequake_analysis.metrics.tasks.steps import (
    GAP_SCRAPES,
    Bools,
    Floats,
    Ints,
    Points,
    points,
    quantiles,
    steps,
)
from zonequake_analysis.spark_pass.in_tasks import in_tasks
from zonequake_analysis.storage.location import Location

CHANGES = (
    "span int, span_kind string, span_name string, metric string, measure string, "
    "labels map<string,string>, target string, family string, unit string, before double, "
    "scale double, during double, at_ms bigint, after double, score double, samples int, "
    "gap_ms bigint"
)
_TYPES = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "map<string,string>": LABELS,
}
_ARROW = pa.schema(
    [(name, _TYPES[kind]) for name, kind in (column.split() for column in CHANGES.split(", "))]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """A series that is compared. `histogram`: that of a bucket, None of any other series."""

    about: About
    histogram: int | None
    le: float | None


def write_changes(
    spark: SparkSession,
    run: Path | Location,
    tables: MetricTables,
    spans: Spans,
    targets: Targets,
    declared: Sequence[ServerMetric] = OF_STORE,
) -> ShownChanges:
    """Writes `tables/metric_changes`: one row for each series and span in which it has samples.

    `declared`: those of the members' own load. Returns the rows that are shown. Raises
    PySparkException.
    """
    folder = Location.of(run).resolve() / "tables" / "metric_changes"
    folder.empty_folder()
    series = _series(tables, targets.scrape_ms, {one.sampled for one in declared})
    looked = _looked(spans, targets.scrape_ms)
    hours = range(looked[0].start_ms // HOUR_MS, looked[-1].end_ms // HOUR_MS + 1)
    inside = {
        hour for one in looked for hour in range(one.start_ms // HOUR_MS, one.end_ms // HOUR_MS + 1)
    }
    files = [file for hour, file in tables.files(hours) if hour in inside]
    tasks = of_tasks(files)
    if not series or not tasks:
        write_table(folder / "part-00000.parquet", _ARROW.empty_table())
        return ShownChanges()
    usual_ms = max(1, targets.usual_scrape_ms)
    scrapes = sum(one.end_ms - one.start_ms for one in looked) // usual_ms
    rows = len(series) * len(spans.spans)
    buckets = min(buckets_for(len(series) * scrapes, rows=rows), len(series))
    together = [
        number if one.histogram is None else one.histogram
        for number, one in enumerate(series.values())
    ]
    chosen = wanted(
        list(series),
        [one % buckets for one in together],
        [(one.start_ms, one.end_ms) for one in looked],
    )
    made = in_tasks(
        spark,
        partial(select, tasks, chosen),
        partial(_compare, series, spans, targets.last_ms, folder, declared=declared),
        tasks=len(tasks),
        buckets=buckets,
    )
    return merged([msgspec.msgpack.decode(one, type=ShownChanges) for one in made])


def _series(
    tables: MetricTables, scrape_ms: Mapping[str, int], declared: Set[str]
) -> dict[int, _Named]:
    """Returns the series that may have changed, by number; `declared`: names that are not quiet."""
    found: dict[int, _Named] = {}
    histograms: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
    columns = ["series", "metric", "labels", "target", "stale_marks", "least", "most"]
    for row in tables.series.select(columns).to_pylist():
        metric, least, most = row["metric"], row["least"], row["most"]
        # NaN is larger than any number.
        moved = least is not None and (least < most or (most != most and least == least))
        still = not moved and not row["stale_marks"]
        quiet = is_quiet(metric) and metric not in declared
        if row["target"] not in scrape_ms or quiet or still:
            continue
        of_bucket = metric.endswith("_bucket")
        stem = metric.removesuffix("_bucket")
        labels = dict(row["labels"])
        rest = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
        found[row["series"]] = _Named(
            about=About(
                metric=metric,
                labels=labels,
                target=row["target"],
                family=family(stem),
                unit=unit(stem, "level"),
                unit_of_rate=unit(metric, "rate"),
                scrape_ms=scrape_ms[row["target"]],
                counter=is_counter(metric),
            ),
            histogram=histograms.setdefault((metric, rest), len(found)) if of_bucket else None,
            le=_le(labels.get("le", "")) if of_bucket else None,
        )
    return found


def _le(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _looked(spans: Spans, scrape_ms: Mapping[str, int]) -> list[Stretch]:
    """Returns the stretches of samples that are compared or drawn, and of those just before, by
    time; none overlap.
    """
    look_back = (GAP_SCRAPES + 1) * max(scrape_ms.values(), default=1000)
    joined: list[Stretch] = []
    drawn = [span.around for span in spans.spans if span.shown]
    for one in sorted([*stretches(spans), *drawn], key=lambda one: one.start_ms):
        first = one.start_ms - look_back
        if joined and first <= joined[-1].end_ms:
            last = max(joined[-1].end_ms, one.end_ms)
            joined[-1] = Stretch(start_ms=joined[-1].start_ms, end_ms=last)
        else:
            joined.append(Stretch(start_ms=first, end_ms=one.end_ms))
    return joined


def _compare(
    series: Mapping[int, _Named],
    spans: Spans,
    last_ms: int,
    folder: Location,
    bucket: int,
    made: Sequence[bytes],
    *,
    declared: Sequence[ServerMetric] = OF_STORE,
) -> bytes:
    """Writes the rows of a bucket's series, and returns those that may be shown."""
    found = list(_rows(series, spans, last_ms, by_series(made)))
    rows = [one.row for one in found]
    columns = [
        pa.array([getattr(row, field.name) for row in rows], field.type)
        if field.type != LABELS
        else pa.array([list(row.labels.items()) for row in rows], LABELS)
        for field in _ARROW
    ]
    table = pa.Table.from_arrays(columns, schema=_ARROW)
    write_table(folder / f"part-{bucket:05d}.parquet", table)
    of_row = {id(one.row): one for one in found}
    around = {span.number: span.around for span in spans.spans if span.shown}

    def curve_of(row: Change) -> Curve:
        of = of_row[id(row)]
        by_rate = row.measure == RATE
        return curve(of.points, around[row.span], by_rate=by_rate, scrape_ms=of.scrape_ms)

    shown = shown_of([row for row in rows if row.span in around], curve_of, declared)
    return msgspec.msgpack.encode(shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """A row with the samples that it came from."""

    row: Change
    points: Points
    scrape_ms: int


_Steps = tuple[float | None, Ints, Floats, Bools]


def _rows(
    series: Mapping[int, _Named], spans: Spans, last_ms: int, samples: Iterator[SeriesSamples]
) -> Iterator[_Compared]:
    def rows(about: About, found: Points) -> Iterator[_Compared]:
        for row in compared(about, found, spans, last_ms):
            yield _Compared(row=row, points=found, scrape_ms=about.scrape_ms)

    histograms: dict[int, tuple[About, list[_Steps]]] = {}
    for one in samples:
        named = series[one.series]
        about = named.about
        if named.histogram is None:
            found = points(
                one.t_ms,
                one.value,
                one.known,
                counter=about.counter,
                scrape_ms=about.scrape_ms,
            )
            yield from rows(about, found)
        else:
            step, there = steps(
                one.t_ms,
                one.value,
                one.known,
                counter=about.counter,
                scrape_ms=about.scrape_ms,
            )
            of = histograms.setdefault(named.histogram, (about, []))
            of[1].append((named.le, one.t_ms, step, there))
    for about, buckets in histograms.values():
        for name, found in quantiles(buckets).items():
            of_quantile = replace(
                about,
                metric=about.metric.removesuffix("_bucket"),
                labels={k: v for k, v in about.labels.items() if k != "le"},
                counter=False,
                unit_of_rate="",
                quantile=name,
            )
            yield from rows(of_quantile, found)
