"""Facts from a run's metrics: the small results that reach the driver, for verdict and report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from zonequake_analysis.errors import SamplesError
from zonequake_analysis.inputs.prometheus.sample_files import live_read, metric_files
from zonequake_analysis.inputs.prometheus.server_metrics import (
    OF_STORE,
    ServerMetric,
    not_scraped,
    of_system,
)
from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.measures.availability.windows import Unavailability
from zonequake_analysis.measures.counted_resets import RecordedResets, recorded_resets
from zonequake_analysis.measures.rebalances import FaultLanding
from zonequake_analysis.metrics.alert_rules import AlertRule, read_rules
from zonequake_analysis.metrics.changes import write_changes
from zonequake_analysis.metrics.counters import Alert, Counted, alerts, counted
from zonequake_analysis.metrics.scrapes import Targets, targets_of
from zonequake_analysis.metrics.shown_changes import ShownChanges
from zonequake_analysis.metrics.spans import Span, Spans, spans_of
from zonequake_analysis.metrics.table import write_tables
from zonequake_analysis.metrics.tasks.compared import Change
from zonequake_analysis.metrics.tasks.curve import Curve
from zonequake_analysis.metrics.tasks.steps import GAP_SCRAPES
from zonequake_analysis.metrics.whole_run import seen_in
from zonequake_analysis.storage.causes import told_by_worker
from zonequake_analysis.storage.location import Location

_MOST = 600
"""Most letters of a problem: a file's name, and what its reader says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A series in a span: a row of `metric_changes`; `curve`: of the strongest."""

    span: int
    metric: str
    measure: str
    labels: Mapping[str, str]
    target: str
    unit: str
    before: float | None
    scale: float | None
    during: float
    at_ms: int
    after: float | None
    score: float | None
    curve: Curve | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFacts:
    """Everything known of a run's metrics. `problem`: why nothing is known, else empty.

    `moved`: the strongest of each span, strongest first; `saturation`: of all members, those of
    `server_metrics`, in whose order they are shown; `not_scraped`: those without any sample.
    `start_ms`: when the history began, unix ms. `rules`: None if the run has not recorded them.
    `read_from`: in words, the live server that the analysis read them from; empty if they were
    recorded.
    """

    problem: str = ""
    targets: Targets | None = None
    spans: Spans | None = None
    moved: Sequence[Moved] = ()
    saturation: Sequence[Moved] = ()
    server_metrics: Sequence[ServerMetric] = OF_STORE
    not_scraped: Sequence[str] = ()
    counted: Sequence[Counted] = ()
    alerts: Sequence[Alert] = ()
    rules: Sequence[AlertRule] | None = None
    resets: RecordedResets = field(default_factory=RecordedResets)
    start_ms: int = 0
    read_from: str = ""


def metric_facts(
    spark: SparkSession,
    run: Path | Location,
    *,
    faults: Sequence[FaultLanding],
    windows: Sequence[Unavailability],
    events: Sequence[RecordedEvent],
    start_ns: int,
    end_ns: int,
    wall_offset_ns: int,
    declared: Sequence[ServerMetric] | None = None,
) -> MetricFacts | None:
    """Writes the tables of metrics and returns their facts; None for a folder without any.

    `declared`: what the system under test tells of its own load; None: the run is older.
    Samples and alert rules that can't be read become a problem in words, and all else of the run is
    judged without them.
    """
    try:
        rules, live = read_rules(run), live_read(run)
        if not metric_files(run):
            return None
    except SamplesError as error:
        return MetricFacts(problem=str(error)[:_MOST])
    server_metrics = OF_STORE if declared is None else declared
    try:
        tables = write_tables(spark, run)
        assert tables is not None
        seen = seen_in(spark, tables)
        targets = targets_of(tables.series, seen.scraped)
        spans = spans_of(
            faults=faults,
            windows=windows,
            events=events,
            start_ns=start_ns,
            end_ns=end_ns,
            wall_offset_ns=wall_offset_ns,
            scrape_ms=targets.usual_scrape_ms,
        )
        shown = ShownChanges()
        if spans.spans and targets.series:
            shown = write_changes(spark, run, tables, spans, targets, server_metrics)
        return MetricFacts(
            targets=targets,
            spans=spans,
            moved=[moved_of(row) for row in shown.strongest],
            saturation=[moved_of(row) for row in shown.saturated],
            server_metrics=server_metrics,
            not_scraped=_not_scraped(declared, tables.series) if declared else [],
            counted=counted(tables.series, seen.increases),
            alerts=alerts(tables.series),
            rules=rules,
            resets=recorded_resets(
                events,
                until_ns=(targets.last_ms - GAP_SCRAPES * targets.usual_scrape_ms) * 1_000_000
                - wall_offset_ns,
            ),
            start_ms=(start_ns + wall_offset_ns) // 1_000_000,
            read_from="" if live is None else live.words,
        )
    except Exception as error:
        # A failure in the JVM comes as Spark's own error, or as one of its bridge.
        said = getattr(error, "java_exception", error)
        known = PySparkException | pa.ArrowException | SamplesError
        if said is error and not isinstance(error, known):
            raise
        if told_by_worker(str(error)) is not None:
            raise  # the store refused: nothing is known of the samples
        told = told_by_worker(str(error), SamplesError) or str(said).strip().partition("\n")[0]
        return MetricFacts(problem=f"metrics/*.parquet can't be read as samples: {told[:_MOST]}")


def _not_scraped(declared: Sequence[ServerMetric], series: pa.Table) -> list[str]:
    rows = zip(series["metric"].to_pylist(), series["labels"].to_pylist(), strict=True)
    return not_scraped(declared, {metric for metric, labels in rows if of_system(dict(labels))})


def moved_of(row: Change) -> Moved:
    """Returns a row that has samples in its span, as the report takes it."""
    assert row.during is not None
    return Moved(
        span=row.span,
        metric=row.metric,
        measure=row.measure,
        labels=row.labels,
        target=row.target,
        unit=row.unit,
        before=row.before,
        scale=row.scale,
        during=row.during,
        at_ms=row.at_ms or 0,
        after=row.after,
        score=row.score,
        curve=row.curve,
    )


def of_nodes(facts: MetricFacts, span: Span) -> list[Moved]:
    """Returns the load of the nodes that a span names; of the busiest one if it names none."""
    by_target: dict[str, list[Moved]] = defaultdict(list)
    for one in facts.saturation:
        if one.span == span.number:
            by_target[one.target].append(one)
    named = [node for node in span.nodes if node in by_target]
    if not named and by_target:
        named = [max(by_target, key=lambda node: max(m.score or 0 for m in by_target[node]))]
    return [one for node in named for one in by_target[node]]
