"""The increase of counters over the whole run, and the alerts of the run. Pure.

A total is a lower bound: an increase counts even over a gap, a fall counts from zero, and a series
counts from its first sample on. So the number it is compared with may be larger, but not smaller.
Only a load pod's series counts from zero if it began after the first samples of all: its pod lives
only for the run, and makes a series with its first operation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zonequake_analysis.errors import SamplesError
from zonequake_analysis.metrics.tasks.selected import SeriesSamples
from zonequake_analysis.metrics.tasks.steps import GAP_SCRAPES, fell, since

LOAD_OPERATIONS = "zonequake_load_operations_total"
RESETS = "zonequake_operator_resets_total"
DATA_LOST = "zonequake_operator_data_lost_total"
ANSWERED = "zonequake_store_writes_answered_total"
HELD = (LOAD_OPERATIONS, RESETS, DATA_LOST, ANSWERED)
"""Counters that are compared with another record of the run."""

ALERTS = "ALERTS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """One counter's increase. `seen_ms`: the first increase between two neighbouring samples.
    `whole`: the total is no lower bound, but all that was counted up to the last sample.
    """

    metric: str
    labels: dict[str, str]
    target: str
    total: int
    seen_ms: int | None
    whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert in one of its states, from its first sample in it to its last one."""

    name: str
    state: str  # pending, firing
    labels: dict[str, str]
    start_ms: int
    end_ms: int


class Increase(msgspec.Struct, frozen=True, kw_only=True):
    """The increase of one series; `seen_ms`: when two neighbouring samples first showed one.
    `whole`: nothing was counted between its samples and lost.
    """

    series: int
    total: float
    seen_ms: int | None
    whole: bool


def increase(samples: SeriesSamples, *, late: bool, born: bool, scrape_ms: int) -> Increase | None:
    """Returns the increase over all samples, None without any value. `late`: it began after the
    first samples of all; `born`: then it counts from zero.

    A value that is no number is none: nothing counts so.
    """
    numbers = samples.known & np.isfinite(samples.value)
    value = samples.value[numbers]
    if not len(value):
        return None
    before, began_again = value[:-1], fell(value[1:], value[:-1])
    with np.errstate(over="ignore"):  # `counted` refuses an endless total
        grown = np.where(began_again, value[1:], value[1:] - before)
        total = float(grown.sum()) + (float(value[0]) if late and born else 0.0)
    inside = slice(*np.flatnonzero(numbers)[[0, -1]] + [0, 1])
    close_by = since(samples.t_ms[inside]) <= GAP_SCRAPES * scrape_ms
    # Neighbours among all samples: after a stale marker an increase was not seen.
    close = numbers[1:] & numbers[:-1] & (since(samples.t_ms)[1:] <= GAP_SCRAPES * scrape_ms)
    with np.errstate(invalid="ignore"):
        seen = samples.t_ms[1:][close & (samples.value[1:] > samples.value[:-1])]
    return Increase(
        series=samples.series,
        total=total,
        seen_ms=int(seen.min()) if len(seen) else None,
        whole=bool(
            numbers[inside].all()
            and close_by.all()
            and not began_again.any()
            and (not late or born or not value[0])
        ),
    )


def counted(series: pa.Table, found: Sequence[Increase]) -> list[Counted]:
    """Returns the totals of `HELD`, one for each series. `series`: tables/metric_series.

    Raises SamplesError for a total beyond all numbers.
    """
    of_series = {one.series: one for one in found}
    held = series.filter(pc.is_in(series["metric"], pa.array(HELD)))
    totals = []
    for row in held.to_pylist():
        one = of_series.get(row["series"])
        if one is None:
            continue
        metric, target = row["metric"], row["target"]
        if not math.isfinite(one.total):
            raise SamplesError(
                f"the increases of the counter {metric} of {target} sum to {one.total}, expected "
                "a number"
            )
        totals.append(
            Counted(
                metric=metric,
                labels=dict(row["labels"]),
                target=target,
                total=round(one.total),
                seen_ms=one.seen_ms,
                whole=one.whole,
            )
        )
    return totals


def alerts(series: pa.Table) -> Sequence[Alert]:
    """Returns the alerts that were pending or firing, the earliest first."""
    rows = series.filter(pc.equal(series["metric"], ALERTS)).to_pylist()
    found = []
    for row in sorted(rows, key=lambda row: int(row["first_ms"])):
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
