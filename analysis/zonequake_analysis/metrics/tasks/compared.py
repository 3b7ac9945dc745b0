"""One series in each span, against the quiet phase. Pure.

The score is robust: how far the 10 %, 50 % or 90 % point of a span is from the quiet phase's
median, in units of `scale`. That is the spread of the quiet phase (1.4826 × MAD), but at least 5 %
of its median and 1 % of the largest value seen, because a series that stood still has no spread,
and for counted events at least the variation by chance of so few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from zonequake_analysis.metrics.spans import Span, Spans, Stretch
from zonequake_analysis.metrics.tasks.curve import Curve
from zonequake_analysis.metrics.tasks.steps import GAP_SCRAPES, Floats, Ints, Points

MIN_QUIET = 4
"""Fewest samples of the quiet phase for a comparison."""

MIN_SCALE_OF_MEDIAN = 0.05
MIN_SCALE_OF_MOST = 0.01
MAD_TO_SIGMA = 1.4826

RATE = "rate"
"""The measure of a row that compares how fast a series grew."""

_EVENTS = "times per second"


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """A series, as its name tells. `quantile`: its name, empty for a series of Prometheus' own."""

    metric: str
    labels: dict[str, str]
    target: str
    family: str
    unit: str
    unit_of_rate: str
    scrape_ms: int
    counter: bool
    quantile: str = ""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `metric_changes`, in the order of its columns; `curve`: of rows that are drawn."""

    span: int
    span_kind: str
    span_name: str
    metric: str
    measure: str
    labels: dict[str, str]
    target: str
    family: str
    unit: str
    before: float | None
    scale: float | None
    during: float | None
    at_ms: int | None
    after: float | None
    score: float | None
    samples: int
    gap_ms: int | None
    curve: Curve | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The samples of a stretch. `value`: levels or rates."""

    t_ms: Ints
    value: Floats
    ordered: Floats

    def at(self, fraction: float) -> float | None:
        """Returns the value at a fraction, rounded to the ends, never between two."""
        return _at(self.ordered, fraction)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quiet:
    """The quiet phase of a series. `scales`: those that its scores have at least."""

    before: float | None
    scales: Sequence[float]
    samples: int


def changes(about: About, points: Points, spans: Spans, last_ms: int) -> list[Change]:
    """Returns a row for each span; none if the series has no sample in any stretch.

    `last_ms`: the last sample of all, which ends no gap.
    """
    if not any(len(points.t_ms[_inside(points, stretch)]) for stretch in stretches(spans)):
        return []
    by_rate = about.counter or (not about.quantile and _grows(points, spans.quiet))
    quiet = _quiet(about, _part(points, spans.quiet, by_rate=by_rate))
    return [
        _change(about, points, span, quiet, by_rate=by_rate, last_ms=last_ms)
        for span in spans.spans
    ]


def stretches(spans: Spans) -> list[Stretch]:
    """Returns every stretch of time that is looked at."""
    quiet = [] if spans.quiet is None else [spans.quiet]
    return quiet + [part for span in spans.spans for part in (span.during, span.after)]


def _inside(points: Points, stretch: Stretch) -> slice:
    first, last = np.searchsorted(points.t_ms, [stretch.start_ms, stretch.end_ms])
    return slice(int(first), int(last))


def _grows(points: Points, quiet: Stretch | None) -> bool:
    """Returns whether it grew nearly all the time of the quiet phase, and never fell."""
    if quiet is None:
        return False
    some = _inside(points, quiet)
    rates = points.rate[some][points.has_rate[some] & points.known[some]]
    grown = (rates > 0) | np.isnan(rates)
    return bool(len(rates) >= MIN_QUIET and not (rates < 0).any() and grown.sum() * 2 > len(rates))


def _part(points: Points, stretch: Stretch | None, *, by_rate: bool) -> _Part:
    some = slice(0) if stretch is None else _inside(points, stretch)
    value = (points.rate if by_rate else points.value)[some]
    there = points.known[some] & ~np.isnan(value)
    if by_rate:
        there &= points.has_rate[some]
    value = value[there]
    return _Part(t_ms=points.t_ms[some][there], value=value, ordered=np.sort(value))


def _change(
    about: About, points: Points, span: Span, quiet: _Quiet, *, by_rate: bool, last_ms: int
) -> Change:
    part = _part(points, span.during, by_rate=by_rate)
    before, during, middle = quiet.before, None, part.at(0.5)
    at_ms = None
    if middle is not None:
        beside = middle if before is None else before
        during = _farthest(part, beside)
        at_ms = _when_farthest(part, beside)
    scale = _scale(quiet, part)
    score = None
    if during is not None and before is not None and quiet.samples >= MIN_QUIET:
        score = abs(during - before) / scale if scale else 0.0
    return Change(
        span=span.number,
        span_kind=span.kind,
        span_name=span.name,
        metric=about.metric,
        measure=about.quantile or (RATE if by_rate else "level"),
        labels=about.labels,
        target=about.target,
        family=about.family,
        unit=about.unit_of_rate if by_rate else about.unit,
        before=before,
        scale=scale,
        during=during,
        at_ms=at_ms,
        after=_part(points, span.after, by_rate=by_rate).at(0.5),
        score=score,
        samples=len(part.value),
        gap_ms=None if about.quantile else _gap_ms(about, points, span.during, last_ms),
    )


def _at(ordered: Floats, fraction: float) -> float | None:
    last = len(ordered) - 1
    if last < 0:
        return None
    place = math.floor(last * fraction) if fraction <= 0.5 else math.ceil(last * fraction)
    return float(ordered[place])


def _far(value: Floats, beside: float) -> Floats:
    with np.errstate(invalid="ignore"):
        far = np.abs(value - beside)
    return np.where(np.isnan(far), np.inf, far)


def _farthest(part: _Part, before: float) -> float:
    """Returns the 10 %, 50 % or 90 % point farthest from before."""
    ends = [part.at(fraction) for fraction in (0.1, 0.5, 0.9)]
    values = np.array([end for end in ends if end is not None])
    return float(values[np.lexsort((values, _far(values, before)))[-1]])


def _when_farthest(part: _Part, before: float) -> int:
    """Returns when it was farthest, for the first time."""
    return int(part.t_ms[np.argmax(_far(part.value, before))])


def _quiet(about: About, quiet: _Part) -> _Quiet:
    before = quiet.at(0.5)
    if before is None:
        return _Quiet(before=None, scales=(), samples=0)
    spread = _at(np.sort(np.abs(quiet.value - before)), 0.5)
    found = [MAD_TO_SIGMA * (spread or 0.0), MIN_SCALE_OF_MEDIAN * abs(before)]
    found.append(MIN_SCALE_OF_MOST * float(np.abs(quiet.value).max()))
    if about.counter and about.unit_of_rate == _EVENTS and before > 0:
        # The number of few events between two scrapes varies by its root.
        scrape_s = about.scrape_ms / 1000
        found.append(math.sqrt(before * scrape_s) / scrape_s)
    return _Quiet(before=before, scales=found, samples=len(quiet.value))


def _scale(quiet: _Quiet, part: _Part) -> float | None:
    ends = [part.at(fraction) for fraction in (0.1, 0.9)]
    found = [MIN_SCALE_OF_MOST * abs(end) for end in ends if end is not None]
    return max([*found, *quiet.scales], default=None)


def _gap_ms(about: About, points: Points, during: Stretch, last_ms: int) -> int:
    """Returns the longest time in the span without a sample; 0 if only a few scrapes are
    missing.
    """
    end_ms = min(during.end_ms, last_ms)
    some = _inside(points, during)
    t_ms, since_ms = points.t_ms[some], points.since_ms[some]
    passed = since_ms[(since_ms > 0) & (t_ms - since_ms >= during.start_ms)]
    alive = t_ms[points.known[some]]
    gaps = [end_ms - during.start_ms]
    if len(alive):
        gaps = [int(alive.min()) - during.start_ms, end_ms - int(alive.max())]
    gap_ms = max([*gaps, *map(int, passed)])
    return gap_ms if gap_ms > GAP_SCRAPES * about.scrape_ms else 0
