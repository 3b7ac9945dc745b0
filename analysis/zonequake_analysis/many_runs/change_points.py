"""Change points of a series of runs: where its level steps by more than chance explains. Pure.

At each place the last WINDOW runs before it and the first WINDOW after it are compared by ranks
(Mann & Whitney, *On a test of whether one of two random variables is stochastically larger*, Annals
of Mathematical Statistics 18, 1947), so that a few outliers or a skewed distribution don't matter.
Of the places where the medians differ by MIN_CHANGE the one that stands out most is a change point
if its probability by chance, exact over all ways to deal the same values, times the number of
places (Bonferroni) is at most CHANCE. Both sides are then searched in the same way (binary
segmentation: Scott & Knott, *A cluster analysis method for grouping means*, Biometrics 30, 1974).

So a step is found as soon as FEWEST runs show it: with 30 runs before it 4 are enough if all are
beyond all of those before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

WINDOW = 30
"""Most runs on each side that are compared; runs further away may have had another level."""

FEWEST = 4
"""Fewest runs on each side."""

MIN_CHANGE = 0.1
"""Share of the median before: smaller steps don't matter, however certain they are."""

CHANCE = 0.01
"""Probability that a series without any change shows one."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePoint:
    """The level changes with the value at `index`; `before` and `after` are the medians of the
    values between the neighbouring change points."""

    index: int
    before: float
    after: float
    chance: float


def change_points(values: Sequence[float]) -> list[ChangePoint]:
    """Returns the change points of a series in its order; values must be finite."""
    series = np.asarray(values, np.float64)
    places = max(1, len(series) - 2 * FEWEST + 1)
    found: dict[int, float] = {}
    ahead = [(0, len(series))]
    while ahead:
        first, last = ahead.pop()
        best = _best_place(series, first, last)
        if best is None:
            continue
        chance = chance_of(*_sides(series, first, last, best)) * places
        if chance <= CHANCE:
            found[best] = chance
            ahead += [(first, best), (best, last)]
    edges = [0, *sorted(found), len(series)]
    medians = [float(np.median(series[a:b])) for a, b in pairwise(edges) if b > a]
    return [
        ChangePoint(index=index, before=medians[i], after=medians[i + 1], chance=found[index])
        for i, index in enumerate(sorted(found))
    ]


def _sides(series: Floats, first: int, last: int, place: int) -> tuple[Floats, Floats]:
    return series[max(first, place - WINDOW) : place], series[place : min(last, place + WINDOW)]


def _best_place(series: Floats, first: int, last: int) -> int | None:
    """Returns the place at which the ranks differ most, among those where the medians differ."""
    best, most = None, 0.0
    for place in range(first + FEWEST, last - FEWEST + 1):
        before, after = _sides(series, first, last, place)
        level = float(np.median(before))
        if abs(float(np.median(after)) - level) <= MIN_CHANGE * abs(level):
            continue
        apart = _deviation(before, after)
        if apart > most:
            best, most = place, apart
    return best


def mid_ranks(values: Floats) -> Floats:
    """Returns ranks from 1 on; equal values share the middle of their ranks."""
    ordered = np.sort(values)
    below = np.searchsorted(ordered, values, side="left")
    up_to = np.searchsorted(ordered, values, side="right")
    ranks: Floats = (below + up_to + 1) / 2
    return ranks


def _deviation(before: Floats, after: Floats) -> float:
    """Returns the distance of the sum of ranks from its mean, in standard deviations."""
    n, m = len(before), len(after)
    ranks = mid_ranks(np.concatenate([before, after]))
    variance = n * m * float(ranks.var()) / (n + m - 1)
    if variance <= 0:
        return 0.0
    return abs(float(ranks[n:].sum()) - m * (n + m + 1) / 2) / math.sqrt(variance)


def chance_of(before: Floats, after: Floats) -> float:
    """Returns the probability of a sum of ranks at least so far from its mean, two-sided and exact.

    Counts by dynamic programming how many choices of as many values have each sum. Ranks are
    doubled, so that the middle of two is a whole number.
    """
    n, m = len(before), len(after)
    doubled = np.rint(2 * mid_ranks(np.concatenate([before, after]))).astype(np.int64)
    total = int(doubled.sum())
    ways = np.zeros((m + 1, total + 1))
    ways[0, 0] = 1.0
    for rank in doubled.tolist():
        ways[1:, rank:] += ways[:-1, : total + 1 - rank].copy()
    sums = np.arange(total + 1)
    middle = m * (n + m + 1)  # of doubled ranks
    seen = abs(int(doubled[n:].sum()) - middle)
    far = np.abs(sums - middle) >= seen
    return float(ways[m, far].sum() / ways[m].sum())
