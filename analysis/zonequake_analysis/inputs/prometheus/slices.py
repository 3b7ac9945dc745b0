"""Cuts a stretch of a Prometheus server into slices, time × metrics, of bounded size. Pure.

    metric a  (2 series)    ┐ one group:  [0, 10 min)  [10 min, 20 min) …
    metric b  (30 series)   ┘
    metric c  (9,000 series)  alone:      [0, 50 s)  [50 s, 100 s) …

remote_read has no matcher by hash, so a metric with many series gets shorter slices of time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

LONGEST_MS = 10 * 60 * 1000
"""Longest time that is asked for at once."""

SCRAPE_MS = 1000
"""Default time between two samples of a series: the chart's own (`prometheus`)."""

MOST_NAMES = 200
"""Most metrics in one group: their names travel in one matcher."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The samples of some metrics with start_ms ≤ t < end_ms."""

    metrics: tuple[str, ...]
    start_ms: int
    end_ms: int

    @property
    def matcher(self) -> tuple[str, str]:
        """The label matcher that selects the metrics: operator and value."""
        if len(self.metrics) == 1:
            return "=", self.metrics[0]
        return "=~", "|".join(map(re.escape, self.metrics))


def slices(
    series: Mapping[str, int],
    start_ms: int,
    end_ms: int,
    *,
    samples: int,
    scrape_ms: int = SCRAPE_MS,
) -> list[Slice]:
    """Returns slices of about `samples` samples each, by time, that together hold everything once.

    `series`: the number of series of each metric. All slices of one group of metrics have the same
    length, and begin at whole multiples of it after `start_ms`.
    """
    wide = max(1, samples * scrape_ms // LONGEST_MS)
    groups: list[tuple[list[str], int]] = []
    names: list[str] = []
    total = 0
    for name, count in sorted(series.items()):
        if count > wide:
            groups.append(([name], count))
            continue
        if names and (total + count > wide or len(names) >= MOST_NAMES):
            groups.append((names, total))
            names, total = [], 0
        names.append(name)
        total += count
    if names:
        groups.append((names, total))
    found = [
        Slice(metrics=tuple(group), start_ms=first, end_ms=min(first + step, end_ms))
        for group, count in groups
        for step in [max(scrape_ms, min(LONGEST_MS, samples * scrape_ms // count))]
        for first in range(start_ms, end_ms, step)
    ]
    return sorted(found, key=lambda one: (one.start_ms, one.metrics))
