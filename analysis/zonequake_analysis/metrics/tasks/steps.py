"""Samples with the steps between them, and quantiles of histograms. Pure.

If a counter fell, its process began again, so its step counts from zero. A rate needs two samples
of one life, one scrape apart: there is none after a stale marker, and none over a gap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

GAP_SCRAPES = 3
"""More missing scrapes than this make a gap: one may come late."""

QUANTILES = {"p50": 0.5, "p99": 0.99}


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Samples of one series by time. `value`: NaN where not `known`; `since_ms`: since the sample
    before, 0 for the first one; `rate`: per second, NaN without one.
    """

    t_ms: Ints
    value: Floats
    known: Bools
    since_ms: Ints
    rate: Floats
    has_rate: Bools


def since(t_ms: Ints) -> Ints:
    """Returns the time since the sample before; 0 for the first one."""
    return np.diff(t_ms, prepend=t_ms[:1])


def fell(value: Floats, before: Floats) -> Bools:
    """Returns where a value is less than the one before; NaN is larger than any number."""
    return (value < before) | (np.isnan(before) & ~np.isnan(value))


def steps(
    t_ms: Ints, value: Floats, known: Bools, *, counter: bool, scrape_ms: int
) -> tuple[Floats, Bools]:
    """Returns the growth since the sample before, and where there is any."""
    passed = since(t_ms)
    before = np.concatenate([[np.nan], value[:-1]])
    was_known = np.concatenate([[False], known[:-1]])
    there = known & was_known & (passed <= GAP_SCRAPES * scrape_ms)
    grown = value - before
    if counter:
        grown = np.where(fell(value, before), value, grown)
    return grown, there


def points(t_ms: Ints, value: Floats, known: Bools, *, counter: bool, scrape_ms: int) -> Points:
    """Returns samples of a series, by time, with their rates."""
    step, there = steps(t_ms, value, known, counter=counter, scrape_ms=scrape_ms)
    passed = since(t_ms)
    has_rate = there & (passed > 0)
    rate = np.full(len(t_ms), np.nan)
    np.divide(step, passed, out=rate, where=has_rate)
    return Points(
        t_ms=t_ms,
        value=value,
        known=known,
        since_ms=passed,
        rate=rate * 1000,
        has_rate=has_rate,
    )


def quantiles(
    buckets: Sequence[tuple[float | None, Ints, Floats, Bools]],
) -> Mapping[str, Points]:
    """Returns quantiles of a histogram between each two scrapes, by `QUANTILES`.

    `buckets`: the `le` of each, with times, steps, and where there is a step. A quantile is
    interpolated linearly within its bucket, as by Prometheus' `histogram_quantile`. All buckets of
    a histogram are scraped at once, so they share one time stamp.
    """
    by_le = sorted(buckets, key=lambda one: -np.inf if one[0] is None else one[0])
    t_ms = np.unique(np.concatenate([at[there] for _, at, _, there in by_le]))
    grown = np.full((len(t_ms), len(by_le)), np.nan)
    has = np.zeros(grown.shape, bool)
    for column, (_, at, step, there) in enumerate(by_le):
        rows = np.searchsorted(t_ms, at[there])
        grown[rows, column] = step[there]
        has[rows, column] = True
    le = np.array([np.nan if one[0] is None else one[0] for one in by_le])
    width, every = len(by_le), np.arange(len(t_ms))
    last = width - 1 - np.argmax(has[:, ::-1], axis=1)
    whole = grown[every, last]
    kept = np.flatnonzero((le[last] == np.inf) & (whole > 0))
    t_ms, grown, has, whole = t_ms[kept], grown[kept], has[kept], whole[kept]
    every = np.arange(len(t_ms))
    found = {}
    for name, fraction in QUANTILES.items():
        wanted = fraction * whole
        below = has & (grown < wanted[:, None])
        some = below.any(axis=1)
        lower = width - 1 - np.argmax(below[:, ::-1], axis=1)
        lower_le = np.where(some, le[lower], 0.0)
        lower_le = np.where(np.isnan(lower_le), 0.0, lower_le)
        counted = np.where(some, grown[every, lower], 0.0)
        upper = np.argmax(has & (grown >= wanted[:, None]), axis=1)
        with np.errstate(invalid="ignore"):
            within = lower_le + (le[upper] - lower_le) * (wanted - counted) / (
                grown[every, upper] - counted
            )
        value = np.where(le[upper] == np.inf, lower_le, within)
        none = np.zeros(len(t_ms), bool)
        found[name] = Points(
            t_ms=t_ms,
            value=value,
            known=~np.isnan(le[upper]),
            since_ms=np.zeros(len(t_ms), np.int64),
            rate=np.full(len(t_ms), np.nan),
            has_rate=none,
        )
    return found
