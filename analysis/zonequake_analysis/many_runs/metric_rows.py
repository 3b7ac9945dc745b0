"""Metrics of two sets of runs side by side, with intervals where a side has several runs. Pure.

They explain what was compared, so none is a regression.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from zonequake_analysis.many_runs import intervals
from zonequake_analysis.many_runs.measured_run import MeasuredMetric, MeasuredRun

MOVED = 3.0
"""A metric has moved if it moved by this many times its spread before the faults."""

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricMedian:
    """A metric's median over `runs` runs of a side. `low` and `high`: the interval of that median;
    None of fewer than FEWEST_RUNS runs, which don't show how much one run differs from the next.
    """

    value: float
    low: float | None
    high: float | None
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSide:
    """A metric before and during the faults; `score`: how far it moved."""

    before: MetricMedian
    during: MetricMedian
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """A metric that moved on a side. None: no run of the side has it."""

    name: str
    measure: str
    unit: str
    base: MetricSide | None
    candidate: MetricSide | None

    @property
    def score(self) -> float:
        """The distance it moved, on the side where it moved further."""
        return max(side.score for side in (self.base, self.candidate) if side is not None)


def metric_rows(
    base: Sequence[MeasuredRun], candidate: Sequence[MeasuredRun]
) -> tuple[MetricRow, ...]:
    """Returns the metrics that moved on either side, those that moved furthest first."""
    old, new = _by_name(base), _by_name(candidate)
    rows = [
        MetricRow(
            name=name,
            measure=measure,
            unit=(new.get((name, measure)) or old[name, measure])[0].unit,
            base=_side("base", old.get((name, measure))),
            candidate=_side("candidate", new.get((name, measure))),
        )
        for name, measure in {**old, **new}
        if _moved(old.get((name, measure))) or _moved(new.get((name, measure)))
    ]
    return tuple(sorted(rows, key=lambda row: (-row.score, row.name, row.measure)))


def _by_name(runs: Iterable[MeasuredRun]) -> dict[_Key, list[MeasuredMetric]]:
    found: dict[_Key, list[MeasuredMetric]] = defaultdict(list)
    for run in runs:
        for metric in run.metrics:
            found[metric.name, metric.measure].append(metric)
    return dict(found)


def _moved(several: Sequence[MeasuredMetric] | None) -> bool:
    return bool(several) and float(np.median([one.score for one in several or ()])) >= MOVED


def _side(name: str, several: Sequence[MeasuredMetric] | None) -> MetricSide | None:
    if not several:
        return None
    seed = f"{name} {several[0].name} {several[0].measure}"
    return MetricSide(
        before=_median([one.before for one in several], f"{seed} before"),
        during=_median([one.during for one in several], f"{seed} during"),
        score=float(np.median([one.score for one in several])),
    )


def _median(values: Sequence[float], seed: str) -> MetricMedian:
    low, high = None, None
    if len(values) >= intervals.FEWEST_RUNS:
        low, high = intervals.between(intervals.drawn_medians(values, seed))
    return MetricMedian(value=float(np.median(values)), low=low, high=high, runs=len(values))
