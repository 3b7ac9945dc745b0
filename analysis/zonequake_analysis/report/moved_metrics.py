"""The report's part on metrics, for each fault and window.

It shows the series that moved, and the load of the nodes concerned together with the clients'
latency.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from zonequake_analysis.judgement.judge import Judgement
from zonequake_analysis.measures.timeline import Latencies, all_of
from zonequake_analysis.metrics.metric_facts import MetricFacts, Moved, of_nodes
from zonequake_analysis.metrics.shown_changes import MIN_SCORE
from zonequake_analysis.metrics.spans import Span, Stretch
from zonequake_analysis.metrics.tasks.steps import QUANTILES
from zonequake_analysis.report import svg

_HIDDEN_LABELS = ("job", "instance", "namespace", "component", "pool", "pod")
_SCALES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedRow:
    """One series of a span, in words; `chart`: markup, of the strongest."""

    metric: str
    of: str
    before: str
    during: str
    after: str
    at_s: str
    score: str
    chart: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanCard:
    """One fault or window: the series that moved; what clients saw, and beside it the load of its
    nodes.
    """

    title: str
    kind: str
    from_s: float
    to_s: float
    moved: Sequence[MovedRow]
    load: Sequence[MovedRow]
    gaps: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreSpans:
    """The faults and windows that were compared and are not shown; `query`: SQL that lists them."""

    words: str
    query: str


def more_spans(facts: MetricFacts | None) -> MoreSpans | None:
    """Returns what the report leaves to the table; None if it shows all spans."""
    spans = () if facts is None or facts.spans is None else facts.spans.spans
    hidden = [span for span in spans if not span.shown]
    if not hidden:
        return None
    kinds = Counter(span.kind for span in hidden)
    told = [f"{n} more {kind}{'s' if n > 1 else ''}" for kind, n in sorted(kinds.items())]
    return MoreSpans(
        words=" and ".join(told),
        query="SELECT span_name, metric, measure, target, before, during, after, score FROM "  # noqa: S608
        f"metric_changes WHERE span IN ({', '.join(str(span.number) for span in hidden)}) "
        f"AND score >= {MIN_SCORE:g} ORDER BY span, score DESC",
    )


def unknown_load(facts: MetricFacts | None) -> str:
    """Returns what the report can't show of the members' own load, as a sentence; empty if nothing
    is missing.
    """
    if facts is None or facts.problem:
        return ""
    if not facts.server_metrics:
        return (
            "The system under test gives no metrics of its own load (latency, CPU, fsync, queue), "
            "so that none stand beside what clients saw."
        )
    if not facts.not_scraped:
        return ""
    return (
        "Of the metrics of its own load that the target's package declares, there is no sample of "
        f"{', '.join(facts.not_scraped)}: not scraped, or the package misspells the name."
    )


def span_cards(judgement: Judgement) -> list[SpanCard]:
    """Returns the faults that are shown, then the windows, each by time; empty without metrics."""
    facts = judgement.evidence.metrics
    if facts is None or facts.spans is None:
        return []
    drawn = judgement.timeline
    load = all_of(drawn.latencies.values()) if drawn.latencies else None
    shown = [span for span in facts.spans.spans if span.shown]
    shown.sort(key=lambda span: (span.kind, span.during.start_ms))
    return [_card(facts, one, judgement, load) for one in shown]


def _card(facts: MetricFacts, span: Span, judgement: Judgement, load: Latencies | None) -> SpanCard:
    assert facts.targets is not None
    targets = {one.target for one in facts.saturation}
    gaps = [
        f"{gap.target or 'rules'}: no sample from {_s(facts, gap.start_ms)} to "
        f"{_s(facts, gap.end_ms) if gap.ended else 'the end'}"
        for gap in facts.targets.gaps
        if gap.start_ms < span.during.end_ms
        and gap.end_ms > span.during.start_ms
        and (gap.target in targets or gap.target in span.nodes)
    ]
    return SpanCard(
        title=span.name,
        kind=span.kind,
        from_s=(span.during.start_ms - facts.start_ms) / 1000,
        to_s=(span.during.end_ms - facts.start_ms) / 1000,
        moved=[
            replace(_row(facts, one), chart=_chart(facts, span, one))
            for one in facts.moved
            if one.span == span.number
        ],
        load=[*_clients(judgement, facts, span, load), *_load(facts, span)],
        gaps=gaps,
    )


def _clients(
    judgement: Judgement, facts: MetricFacts, span: Span, load: Latencies | None
) -> list[MovedRow]:
    """Returns the clients' latency before, during and after the span."""
    if load is None:
        return []
    assert facts.spans is not None
    offset_ns, drawn = judgement.ingested.wall_offset_ns, judgement.timeline

    def told(part: Stretch | None, fraction: float) -> str:
        if part is None:
            return "–"
        first = drawn.slice_of(part.start_ms * 1_000_000 - offset_ns)
        last = drawn.slice_of(part.end_ms * 1_000_000 - offset_ns) + 1
        return svg.duration(load.percentile_ns(fraction, first, last))

    return [
        MovedRow(
            metric=f"{name} that clients saw",
            of="operations of the load",
            before=told(facts.spans.quiet, fraction),
            during=told(span.during, fraction),
            after=told(span.after, fraction),
            at_s="–",
            score="–",
        )
        for name, fraction in QUANTILES.items()
    ]


def _load(facts: MetricFacts, span: Span) -> list[MovedRow]:
    """Returns the load of each node that a span is about, in the order of its declaration."""
    found = of_nodes(facts, span)
    nodes = list(dict.fromkeys(one.target for one in found))
    words: dict[tuple[str, str], str] = {
        (one.metric, one.measure): one.words for one in facts.server_metrics
    }
    order = list(words)
    found.sort(key=lambda one: (nodes.index(one.target), order.index((one.metric, one.measure))))
    return [_row(facts, one, words[one.metric, one.measure]) for one in found]


def _chart(facts: MetricFacts, span: Span, one: Moved) -> str:
    assert one.curve is not None, "the strongest have their curves"
    return svg.curve_chart(
        one.curve, span.during, facts.start_ms, lambda value: in_unit(value, one.unit)
    )


def _row(facts: MetricFacts, one: Moved, words: str = "") -> MovedRow:
    labels = [
        f"{name}={value}"
        for name, value in sorted(one.labels.items())
        if name not in _HIDDEN_LABELS
    ]
    measure = f" ({one.measure})" if one.measure != "level" else ""
    return MovedRow(
        metric=words or f"{one.metric}{measure}",
        of=", ".join([one.target, *labels] if one.target else labels),
        before=in_unit(one.before, one.unit),
        during=in_unit(one.during, one.unit),
        after=in_unit(one.after, one.unit),
        at_s=_s(facts, one.at_ms),
        score="–" if one.score is None else f"{one.score:.0f}",
    )


def _s(facts: MetricFacts, at_ms: int) -> str:
    return f"{(at_ms - facts.start_ms) / 1000:.1f} s"


def in_unit(value: float | None, unit: str) -> str:
    """Returns a value as people read it, with its unit."""
    if value is None or math.isnan(value):
        return "–"
    name, per, _ = unit.partition(" per second")
    if name == "seconds" and not per:
        return svg.duration(value * 1e9)
    if name == "seconds":
        return f"{value:.3g} s/s"
    number = f"{value:.4g}"
    for scale, letter in _SCALES:
        if abs(value) >= scale and (name == "bytes" or abs(value) >= 1e5):
            number = f"{value / scale:.3g} {letter}"
            break
    tail = {"bytes": "B" if number[-1].isalpha() else " B", "times": "", "": ""}.get(
        name, f" {name}"
    )
    return f"{number}{tail}{'/s' if per else ''}"
