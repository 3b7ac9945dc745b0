"""Intervals of 95 %: of one run's quantiles and rates, and of medians over several runs. Pure.

**One run, a quantile.** Order statistics: the interval from the r-th to the s-th smallest latency
holds the quantile q with the probability that a binomial count of (n, q) lies in r … s - 1,
whatever the distribution (David & Nagaraja, *Order Statistics*, 3rd ed. 2003, section 7.1). That
holds for independent operations. Those of a run are not: an outage makes many slow at once. So n is
divided by the design effect (Woodruff, *Confidence intervals for medians and other position
measures*, JASA 47, 1952): how much more the share of slow operations varies between PARTS equal
parts of the time than it would among independent ones. One burst that alone makes up the slow
operations then leaves the upper end open, since one event says nothing about the next one.

**One run, a rate.** Batch means over the same parts, with Student's t (Law, *Simulation Modeling
and Analysis*, 5th ed. 2015, section 9.5.3).

**Several runs.** Runs are independent of each other, operations are not, so runs are drawn: the
percentile bootstrap of the median (Efron & Tibshirani, *An Introduction to the Bootstrap*, 1993,
chapter 13), with a fixed seed, so that the same runs give the same interval.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from zonequake_analysis.many_runs.quantities import Estimate

LEVEL = 0.95
PARTS = 20
"""Number of equal parts of the time, between which a run varies."""

T_PARTS = 2.093
"""Student's t at 97.5 % with PARTS - 1 degrees of freedom."""

RESAMPLES = 4000
SEED = 1
FEWEST_RUNS = 3
"""Fewest runs for a bootstrap: with two it would only repeat the two."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def quantiles(latency: Floats, part: Ints, wanted: Mapping[str, float]) -> dict[str, Estimate]:
    """Returns quantiles of at least one latency with their intervals.

    `part` is the part of the time of each latency.
    """
    ordered = np.sort(latency)
    return {name: _quantile(latency, ordered, part, q) for name, q in wanted.items()}


def _quantile(latency: Floats, ordered: Floats, part: Ints, q: float) -> Estimate:
    count = len(ordered)
    value = float(ordered[min(count, math.ceil(q * count)) - 1])
    # Both are needed: the operations of a burst may all have taken the same time.
    effect = max(design_effect(latency > value, part), design_effect(latency >= value, part))
    independent = count / effect
    first, last = ranks(max(1, int(independent)), q)
    scale = count / independent
    low, high = math.floor(first * scale), math.ceil(last * scale)
    return Estimate(
        value=value,
        low=float(ordered[low - 1]) if low >= 1 else 0.0,
        high=float(ordered[high - 1]) if high <= count else math.inf,
    )


def design_effect(slow: NDArray[np.bool_], part: Ints) -> float:
    """Returns how many operations count as much as one independent one; at least 1."""
    count = len(slow)
    share = float(slow.mean())
    if share in (0.0, 1.0):
        return 1.0
    sizes = np.bincount(part, minlength=PARTS).astype(np.float64)
    slow_ones = np.bincount(part, weights=slow, minlength=PARTS)
    used = int((sizes > 0).sum())
    if used < 2:
        return 1.0
    variance = used / (used - 1) * float(((slow_ones - share * sizes) ** 2).sum()) / count**2
    return min(float(count), max(1.0, variance / (share * (1 - share) / count)))


def ranks(count: int, q: float) -> tuple[int, int]:
    """Returns the ranks, from 1 on, between which the quantile of `count` values is. If no value
    bounds it, the lower rank is 0, or the upper one `count` + 1."""
    spread = 10 * math.sqrt(count * q * (1 - q)) + 10
    first, last = max(0, math.floor(count * q - spread)), min(count, math.ceil(count * q + spread))
    at = np.arange(first, last + 1)
    steps = np.log((count - at[:-1]) / (at[:-1] + 1.0)) + math.log(q / (1 - q))
    log_first = (
        math.lgamma(count + 1)
        - math.lgamma(first + 1)
        - math.lgamma(count - first + 1)
        + first * math.log(q)
        + (count - first) * math.log1p(-q)
    )
    below = np.cumsum(np.exp(log_first + np.concatenate([[0.0], np.cumsum(steps)])))
    tail = (1 - LEVEL) / 2
    # The lower rank: P(count < rank) stays within the tail; the upper: P(count >= rank) does.
    low = first + int(np.searchsorted(below, tail, side="right"))
    high = first + int(np.searchsorted(below, 1 - tail, side="left")) + 1
    return low, min(high, count + 1)


def rate(part: Ints, span_s: float) -> Estimate:
    """Returns operations per second, from the part of the time of each operation."""
    each = np.bincount(part, minlength=PARTS) / (span_s / PARTS)
    mean = float(each.mean())
    margin = T_PARTS * float(each.std(ddof=1)) / math.sqrt(PARTS)
    return Estimate(value=mean, low=max(0.0, mean - margin), high=mean + margin)


def drawn_medians(values: Sequence[float], name: str) -> Floats:
    """Returns medians of RESAMPLES draws of as many runs; `name` and SEED seed them."""
    rng = np.random.default_rng([SEED, zlib.crc32(name.encode())])
    known = np.asarray(values, np.float64)
    drawn: Floats = np.median(known[rng.integers(len(known), size=(RESAMPLES, len(known)))], axis=1)
    return drawn


def between(draws: Floats) -> tuple[float, float]:
    """Returns both ends of the middle 95 % of some draws."""
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(draws, [tail, 1 - tail], method="inverted_cdf")
    return float(low), float(high)


def of_runs(estimates: Sequence[Estimate], name: str) -> Estimate:
    """Returns the median of several runs with its interval; up to two runs: their widest
    interval.
    """
    if len(estimates) < FEWEST_RUNS:
        return Estimate(
            value=float(np.median([one.value for one in estimates])),
            low=min(one.low for one in estimates),
            high=max(one.high for one in estimates),
        )
    values = [one.value for one in estimates]
    low, high = between(drawn_medians(values, name))
    return Estimate(value=float(np.median(values)), low=low, high=high)
