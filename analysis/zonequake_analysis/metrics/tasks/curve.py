"""One series over the time around a span, as few points as a small picture can show. Pure.

The time is divided into bins, and each keeps its least and its greatest value, so that no peak is
lost. The line ends before a gap and begins again after it.
"""

from __future__ import annotations

import msgspec
import numpy as np

from zonequake_analysis.metrics.spans import Stretch
from zonequake_analysis.metrics.tasks.steps import GAP_SCRAPES, Bools, Ints, Points

MOST_POINTS = 60
_EXACT_GAPS = 6
"""The longest gaps keep the samples at both ends, so that they are as long as they were."""

_BINS = (MOST_POINTS - 2 * _EXACT_GAPS) // 2


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """The points of a series by time. `begins`: whether there was a gap before a point."""

    start_ms: int
    end_ms: int
    t_ms: list[int]
    value: list[float]
    begins: list[bool]


def curve(points: Points, around: Stretch, *, by_rate: bool, scrape_ms: int) -> Curve:
    """Returns at most MOST_POINTS points of a stretch: levels, or rates.

    A gap is more than a few missing scrapes, or a sample without a number, such as the marker at
    the end of a series.
    """
    first, last = np.searchsorted(points.t_ms, [around.start_ms, around.end_ms])
    some = slice(int(first), int(last))
    t_ms, value = points.t_ms[some], (points.rate if by_rate else points.value)[some]
    usable = points.known[some] & np.isfinite(value)
    if by_rate:
        usable &= points.has_rate[some]
    place = np.flatnonzero(usable)
    t_ms, value = t_ms[place], value[place]
    after_gap = np.diff(t_ms, prepend=t_ms[:1]) > GAP_SCRAPES * scrape_ms
    after_gap |= np.diff(place, prepend=place[:1] - 1) > 1
    after_gap[:1] = True
    kept = np.arange(len(t_ms))
    if len(kept) > MOST_POINTS:
        at = (t_ms - around.start_ms) * _BINS // (around.end_ms - around.start_ms)
        order = np.lexsort((value, at))
        ends = np.flatnonzero(np.diff(at[order], append=_BINS))
        starts = np.concatenate([[0], ends[:-1] + 1])
        kept = np.unique(np.concatenate([order[starts], order[ends], _edges(t_ms, after_gap)]))
    gaps_before = np.cumsum(after_gap)[kept]
    return Curve(
        start_ms=around.start_ms,
        end_ms=around.end_ms,
        t_ms=t_ms[kept].tolist(),
        value=value[kept].tolist(),
        begins=(np.diff(gaps_before, prepend=0) > 0).tolist(),
    )


def _edges(t_ms: Ints, after_gap: Bools) -> Ints:
    """Returns the samples at both ends of the longest gaps."""
    ends = np.flatnonzero(after_gap[1:]) + 1
    longest = ends[np.argsort(t_ms[ends - 1] - t_ms[ends], kind="stable")[:_EXACT_GAPS]]
    return np.concatenate([longest - 1, longest])
