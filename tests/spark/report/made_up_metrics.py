"""Metrics of made-up runs, for their pages: compared and drawn as those of a run are."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from msgspec.structs import replace as replaced

from zonequake_analysis.inputs.prometheus.metric_names import family, is_counter, unit
from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.measures.availability.fault_times import Repetition
from zonequake_analysis.measures.availability.windows import Unavailability
from zonequake_analysis.measures.rebalances import FaultLanding
from zonequake_analysis.metrics.metric_facts import MetricFacts, moved_of
from zonequake_analysis.metrics.scrapes import Targets
from zonequake_analysis.metrics.shown_changes import shown_of
from zonequake_analysis.metrics.spans import MOST_FAULTS, MOST_WINDOWS, Spans, spans_of
from zonequake_analysis.metrics.tasks.compared import About, Change, changes
from zonequake_analysis.metrics.tasks.curve import Curve, curve
from zonequake_analysis.metrics.tasks.steps import Points, points

S, MS = 1_000_000_000, 1_000_000
BROKE_S, HEALED_S = 40, 55
SILENT_S = range(47, 53)
"""Seconds without a scrape of the node that was killed."""

Value = Callable[[int], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeUp:
    """One series, with its value at each second of the run."""

    metric: str
    value: Value
    measure: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    target: str = "zq-default-0"


def _noise(second: int) -> float:
    return ((second * 2654435761) % 1000) / 1000


def _in_fault(usual: float, during: float) -> Value:
    return lambda s: (during if BROKE_S <= s < HEALED_S else usual) * (0.9 + 0.2 * _noise(s))


def _summed(rate: Value) -> Value:
    """A counter that grows by `rate(second)` a second."""
    return lambda s: sum(rate(one) for one in range(s + 1))


def usual_series() -> list[MadeUp]:
    """Ten and more that move, of units and kinds as a data node's."""
    log = (("environment", "log"),)
    store = "zonequake_store"
    found = [
        MadeUp(metric=f"{store}_commit_seconds", value=_in_fault(0.002, 0.3), measure=m, labels=log)
        for m in ("p50", "p99")
    ]
    found += [
        MadeUp(metric=f"{store}_request_seconds", value=_in_fault(usual, during), measure=name)
        for name, usual, during in (("p50", 0.002, 0.004), ("p99", 0.009, 0.8))
    ]
    found += [
        MadeUp(metric=f"{store}_{name}_total", value=_summed(_in_fault(usual, during)))
        for name, usual, during in (
            ("client_requests", 900.0, 120.0),
            ("entries_applied", 700.0, 20.0),
            ("catch_up_bytes", 0.0, 3.4e7),
            ("cpu_seconds", 0.4, 0.02),
        )
    ]
    found += [
        MadeUp(metric=f"{store}_{name}", value=_in_fault(usual, during))
        for name, usual, during in (
            ("loop_lag_seconds", 0.0004, 0.09),
            ("requests_waiting", 4.0, 300.0),
            ("log_used_bytes", 2e6, 9e8),
            ("catch_up_fraction", 0.0, 0.7),
            ("lease_unrenewed_seconds", 1.0, 7.0),
            ("storage_full", 0.0, 1.0),
        )
    ]
    found.append(MadeUp(metric=f"{store}_term", value=lambda s: 3.0 + (s > BROKE_S)))
    return found


def metric_facts(
    *,
    faults: Sequence[FaultLanding],
    windows: Sequence[Unavailability],
    events: Sequence[RecordedEvent],
    start_ns: int,
    seconds: int,
    wall_offset_ns: int,
    busy: bool = False,
) -> MetricFacts:
    """Returns what is known of the made-up series. `busy`: as many spans as are ever compared, and
    rows of each as a page ever shows, all of them moving wildly at five samples a second.
    """
    if busy:
        times = [start_ns + int(seconds * n / 80) * S for n in range(MOST_FAULTS)]
        each = tuple(Repetition(start_ns=t, over_ns=t, targets=faults[0].targets) for t in times)
        faults = [replace(faults[0], each=each)]
        windows = [replace(windows[0], start_ns=t) for t in times[:MOST_WINDOWS]]
    spans = spans_of(
        faults=faults,
        windows=windows,
        events=events,
        start_ns=start_ns,
        end_ns=start_ns + seconds * S,
        wall_offset_ns=wall_offset_ns,
        scrape_ms=1000,
    )
    start_ms = (start_ns + wall_offset_ns) // MS
    rng = random.Random(5)
    series = usual_series()
    if busy:
        series = [
            replace(one, metric=f"made_up_{n}_x_y_{n}_bytes", value=lambda _: rng.random() * 1e9)
            for n, one in enumerate(series)
        ]
    every_ms, silent_s = (200, range(0)) if busy else (1000, SILENT_S)
    found = list(_compared(series, spans, start_ms, seconds, every_ms=every_ms, silent_s=silent_s))
    of_row = {id(row): line for row, line in found}
    rows = [row for row, _ in found]
    if busy:
        numbers = count(100)
        rows = [replaced(row, score=next(numbers)) for row in rows]
        of_row = {id(new): line for new, (_, line) in zip(rows, found, strict=True)}
    shown = shown_of(rows, lambda row: of_row[id(row)])
    last_ms = start_ms + seconds * 1000
    return MetricFacts(
        targets=Targets(
            first_ms=start_ms,
            last_ms=last_ms,
            samples=seconds * len(series),
            series=len(series),
            scrape_ms={"": 1000, "zq-default-0": 1000},
            gaps=(),
        ),
        spans=spans,
        moved=[moved_of(row) for row in shown.strongest],
        saturation=[moved_of(row) for row in shown.saturated],
        start_ms=start_ms,
    )


def _compared(
    series: Sequence[MadeUp],
    spans: Spans,
    start_ms: int,
    seconds: int,
    *,
    every_ms: int,
    silent_s: range,
) -> Iterator[tuple[Change, Curve]]:
    around = {span.number: span.around for span in spans.spans if span.shown}
    for one in series:
        at_ms = [ms for ms in range(0, seconds * 1000, every_ms) if ms // 1000 not in silent_s]
        samples: Points = points(
            np.array([start_ms + ms for ms in at_ms]),
            np.array([one.value(ms // 1000) for ms in at_ms]),
            np.ones(len(at_ms), bool),
            counter=is_counter(one.metric),
            scrape_ms=every_ms,
        )
        about = About(
            metric=one.metric,
            labels=dict(one.labels),
            target=one.target,
            family=family(one.metric) + one.measure,
            unit=unit(one.metric, "level"),
            unit_of_rate=unit(one.metric, "rate"),
            scrape_ms=every_ms,
            counter=is_counter(one.metric),
            quantile=one.measure,
        )
        for row in changes(about, samples, spans, start_ms + seconds * 1000):
            if row.span not in around:
                continue
            by_rate = row.measure == "rate"
            yield row, curve(samples, around[row.span], by_rate=by_rate, scrape_ms=every_ms)
