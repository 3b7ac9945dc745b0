"""The time between two samples of a server's series, measured at some of them.

A server's configuration says it of now and of each job; samples say it of the run's time, and any
server of remote_read has them. The shortest is taken: slices of time that are too short cost
requests, slices that are too long cost memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from zonequake_analysis.inputs.prometheus.remote_read import PostBytes, Samples, read, series_counts
from zonequake_analysis.inputs.prometheus.slices import LONGEST_MS, SCRAPE_MS, Slice, slices

_UP = "up"
"""Has a series for each target, so that it shows the interval of every job."""

_SAMPLES = 100_000
"""Samples that are looked at, about, if there is one a second."""

_MOST_SERIES = 100
_SHORTEST_LOOK_MS = 150_000
"""Within it a series that is scraped each minute, as by default, has two samples."""

_LEAST_MS = 100


def measured_slices(
    post: PostBytes,
    start_ms: int,
    end_ms: int,
    matchers: Sequence[str],
    *,
    samples: int,
    scrape_ms: int | None = None,
) -> list[Slice]:
    """Returns slices of about `samples` samples that together hold all series of that time once.

    `scrape_ms`: the time between two samples; None: it is measured. Raises PrometheusError.
    """
    series = series_counts(post, start_ms, end_ms, matchers)
    if scrape_ms is None:
        scrape_ms = scrape_interval_ms(post, series, start_ms, end_ms, matchers)
    return slices(series, start_ms, end_ms, samples=samples, scrape_ms=scrape_ms)


def scrape_interval_ms(
    post: PostBytes,
    series: Mapping[str, int],
    start_ms: int,
    end_ms: int,
    matchers: Sequence[str],
) -> int:
    """Returns the time between two samples, as measured in the middle of the time.

    `series`: the number of series of each metric. If no series that is looked at has two samples,
    the shortest usual interval is assumed. Raises PrometheusError.
    """
    if not series:
        return SCRAPE_MS
    return shortest_ms(read(post, looked_at(series, start_ms, end_ms), matchers)) or SCRAPE_MS


def looked_at(series: Mapping[str, int], start_ms: int, end_ms: int) -> Slice:
    """Returns the slice of few samples that the interval is measured at."""
    names, count = [_UP], series.get(_UP, 0)
    if not count:
        names = []
        for name, its_count in sorted(series.items(), key=lambda one: (one[1], one[0])):
            if names and count + its_count > _MOST_SERIES:
                break
            names.append(name)
            count += its_count
    wanted_ms = min(LONGEST_MS, max(_SHORTEST_LOOK_MS, _SAMPLES * SCRAPE_MS // count))
    first_ms = max(start_ms, (start_ms + end_ms - wanted_ms) // 2)
    return Slice(metrics=tuple(names), start_ms=first_ms, end_ms=min(end_ms, first_ms + wanted_ms))


def shortest_ms(found: Iterable[Samples]) -> int | None:
    """Returns the shortest of the series' usual times between two samples; None if none has two."""
    usual = []
    for some in found:
        for t_ms in np.split(some.t_ms, np.flatnonzero(np.diff(some.rows)) + 1):
            passed = np.diff(t_ms)
            if len(passed):
                usual.append(int(np.median(passed)))
    return max(_LEAST_MS, min(usual)) if usual else None
