"""The usual time between scrapes of each target, and the gaps between them. Pure.

A target's longest series represents it: while Prometheus can't reach a target, its own `up` goes
on, but all other series end with a stale marker. Without a sample nothing is known; it is no sign
that nothing changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa

from zonequake_analysis.inputs.prometheus.slices import SCRAPE_MS
from zonequake_analysis.metrics.tasks.selected import SeriesSamples
from zonequake_analysis.metrics.tasks.steps import GAP_SCRAPES, since

MOST_GAPS = 500

_OF_PROMETHEUS = ("up", "scrape_")


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """No sample of this target between two moments; `ended`: it came back."""

    target: str
    start_ms: int
    end_ms: int
    ended: bool


class Scraped(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a target's longest series: the usual time between two of its samples, when
    the last one was, and its longest gaps, of which one more is known than is shown.
    """

    target: str
    scrape_ms: int
    last_ms: int
    gaps: list[Gap]


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """`scrape_ms` by target; under "" for series that rules made. Times are those of the first
    sample of all and of the last one. `gaps`: the longest ones, and those that last until the end;
    `gaps_left_out`: 1 if there are more.
    """

    first_ms: int
    last_ms: int
    samples: int
    series: int
    scrape_ms: Mapping[str, int]
    gaps: Sequence[Gap]
    gaps_left_out: int = 0

    @property
    def usual_scrape_ms(self) -> int:
        """The median of the targets' times between two samples."""
        found = sorted(ms for target, ms in self.scrape_ms.items() if target)
        return found[len(found) // 2] if found else SCRAPE_MS

    def without_gap(self, target: str) -> bool:
        """Returns whether it was scraped all the time, from its first sample to the last of all.

        False for every target if gaps are left out.
        """
        return not self.gaps_left_out and all(gap.target != target for gap in self.gaps)


def longest_series(series: pa.Table) -> dict[str, int]:
    """Returns the series that represents each target: its longest one, but Prometheus' own."""
    columns = (
        series[name].to_pylist()
        for name in ("target", "metric", "samples", "stale_marks", "series")
    )
    best: dict[str, tuple[bool, int, str, int]] = {}
    for target, metric, samples, stale_marks, number in zip(*columns, strict=True):
        of_prometheus = metric == _OF_PROMETHEUS[0] or metric.startswith(_OF_PROMETHEUS[1])
        place = (of_prometheus, stale_marks - samples, metric, number)
        if target not in best or place < best[target]:
            best[target] = place
    return {target: place[3] for target, place in best.items()}


def scraped(target: str, samples: SeriesSamples) -> Scraped | None:
    """Looks at the samples of a target's longest series; None if it has only stale markers."""
    t_ms = samples.t_ms[~samples.stale]
    if not len(t_ms):
        return None
    passed = since(t_ms)[1:]
    usual_ms = int(np.sort(passed)[(len(passed) - 1) // 2]) if len(passed) else 0
    usual_ms = usual_ms or SCRAPE_MS
    late = np.flatnonzero(passed > GAP_SCRAPES * usual_ms) if target else np.array([], np.int64)
    late = late[np.argsort(-passed[late], kind="stable")][: MOST_GAPS + 1]
    return Scraped(
        target=target,
        scrape_ms=usual_ms,
        last_ms=int(t_ms[-1]),
        gaps=[
            Gap(target=target, start_ms=int(t_ms[at]), end_ms=int(t_ms[at + 1]), ended=True)
            for at in late.tolist()
        ],
    )


def targets_of(series: pa.Table, found: Sequence[Scraped]) -> Targets:
    """Returns what is known of all targets. `series`: tables/metric_series."""
    if not series.num_rows:
        return Targets(
            first_ms=0, last_ms=0, samples=0, series=0, scrape_ms={"": SCRAPE_MS}, gaps=[]
        )
    last_ms = max(series["last_ms"].to_pylist())
    scrape_ms = {one.target: one.scrape_ms for one in found}
    scrape_ms.setdefault("", SCRAPE_MS)
    longest = sorted(
        (gap for one in found for gap in one.gaps), key=lambda gap: gap.start_ms - gap.end_ms
    )
    gone = [
        Gap(target=one.target, start_ms=one.last_ms, end_ms=last_ms, ended=False)
        for one in found
        if one.target and last_ms - one.last_ms > GAP_SCRAPES * one.scrape_ms
    ]
    return Targets(
        first_ms=min(series["first_ms"].to_pylist()),
        last_ms=last_ms,
        samples=sum(series["samples"].to_pylist()),
        series=series.num_rows,
        scrape_ms=scrape_ms,
        gaps=sorted([*longest[:MOST_GAPS], *gone], key=lambda gap: gap.start_ms),
        gaps_left_out=len(longest[MOST_GAPS : MOST_GAPS + 1]),
    )
