"""report.html: one self-contained page, verdict first; it loads nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import jinja2

from zonequake_analysis.importing.values import original_values
from zonequake_analysis.judgement.judge import Judgement, Shown
from zonequake_analysis.measures.rebalances import STAGES
from zonequake_analysis.measures.timeline import Timeline, all_of
from zonequake_analysis.report import svg
from zonequake_analysis.report.aliases import aliases
from zonequake_analysis.report.moved_metrics import span_cards
from zonequake_analysis.report.summary import RESET_COLUMNS, headline, numbers, reset_rows
from zonequake_analysis.report.witness_text import severity_of
from zonequake_analysis.storage.place import Place
from zonequake_analysis.untrusted_text import visible
from zonequake_analysis.verdict import EXIT_CODES, MARKS, Check

MOST_WINDOWS = 200

_EXPLAINED = {
    "lost": "An acknowledged write that the last read of its key no longer shows.",
    "stale": "A read that misses a write which was acknowledged, or seen, before it began.",
    "flicker": "A read that misses what nobody had acknowledged, and reads before and after show.",
    "session": "A process that was answered from an earlier place than before.",
    "phantom": "A value was read that nobody wrote.",
    "aborted": "A value was read although its write certainly failed.",
    "duplicate": "An element stands twice in a list: one request was applied twice.",
    "applied-twice": "A value was read before the place at which its write was acknowledged: the "
    "request was applied at two places.",
    "two-places": "A member shows a value before the place at which another acknowledged it: it "
    "was applied twice, or the members differ; no dumps say which.",
    "diverged": "A member lacks a write that was acknowledged at its place or before and that "
    "another member holds, or has it at another place: their states differ.",
    "wrong-refusal": "A cas was refused although it found what it expected.",
    "order": "An operation starts after one of a higher claimed place has finished.",
    "value": "The value read is not what the claimed order leaves there.",
    "list": "The list read is not what the claimed order of appends leaves there.",
    "precondition": "A cas was applied on another value than it expected.",
    "entry-twice": "Two writes claim one place of the partition.",
    "cas-fork": "Two cas were applied on one and the same version.",
    "cas-order": "A version of a chain of cas was used before the one it rests on, or never rested "
    "on one.",
    "future-read": "A read ended before the write of its value began.",
    "not-prefix": "A list is no prefix of the longest one: elements changed their order.",
    "element-twice": "The longest list shows an element twice.",
}


def render_page(run: Path | Place, judgement: Judgement, *, told: Callable[[str], None]) -> str:
    """Returns the page as text; everything from the run is escaped.

    Calls `told` with a sentence if metrics can't be read.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("zonequake_analysis.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["duration"] = svg.duration
    e, drawn = judgement.evidence, judgement.timeline
    originals = original_values(run)
    axis = svg.Axis(start_ns=drawn.start_ns, end_ns=drawn.end_ns)
    windows = sorted(e.availability.windows, key=lambda w: (-w.certain_ns, -w.possible_ns))
    if e.metrics is not None and e.metrics.problem:
        told(e.metrics.problem)
    return environment.get_template("page.html.j2").render(
        j=judgement,
        e=e,
        marks=MARKS,
        exit_code=EXIT_CODES[judgement.verdict],
        headline=headline(judgement),
        numbers=numbers(judgement),
        seconds=axis.seconds,
        panels=svg.time_panels(drawn, e.faults, judgement.events),
        hover=_hover(drawn),
        stages=STAGES,
        rebalance_chart=svg.rebalance_chart(e.rebalances, e.faults, axis),
        windows=windows[:MOST_WINDOWS],
        windows_left_out=max(0, len(windows) - MOST_WINDOWS),
        resets=reset_rows(e),
        reset_columns=RESET_COLUMNS,
        violations=[
            _violation(shown, originals)
            for shown in distinct_findings(judgement.shown, judgement.checks)
        ],
        found=sorted(
            e.found.counts.items(),
            key=lambda item: (severity_of(item[0][1], judgement.checks), item[0]),
        ),
        metric_spans=span_cards(judgement),
        run_name=run.resolve().name,
    )


def _visible(value: object) -> object:
    """Returns text from the run with every character shown; other values and our markup
    unchanged.
    """
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _hover(drawn: Timeline) -> str:
    """Returns the data of the crosshair: per slice p50, p99, max in ms, ok and not ok."""
    if not drawn.latencies:
        return "{}"
    load = all_of(drawn.latencies.values())

    def rounded(values: Sequence[float]) -> list[float | None]:
        return [None if math.isnan(v) else round(v / 1e6, 2) for v in values]

    return json.dumps(
        {
            "slice": drawn.slice_ns / 1e9,
            "left": svg.LEFT / svg.WIDTH,
            "right": svg.RIGHT / svg.WIDTH,
            "p50": rounded(list(load.percentiles_ns(0.5))),
            "p99": rounded(list(load.percentiles_ns(0.99))),
            "max": rounded([float(v) for v in load.max_ns]),
            "ok": load.ok.tolist(),
            "bad": load.bad.tolist(),
        },
        separators=(",", ":"),
    )


def distinct_findings(shown: Sequence[Shown], checks: Sequence[Check]) -> list[Shown]:
    """Returns one finding for each witness, the most severe first.

    Several checks often find the same fault. `checks` are in the order of severity.
    """
    seen: set[tuple[str, ...]] = set()
    kept = []
    for one in sorted(shown, key=lambda one: severity_of(one.finding.kind, checks)):
        operations = tuple(o.op for o in one.witness.operations)
        if operations not in seen or not operations:
            seen.add(operations)
            kept.append(one)
    return kept[:20]


def _violation(shown: Shown, originals: dict[int, str]) -> dict[str, object]:
    finding, operations = shown.finding, shown.witness.operations
    names = aliases(operations)
    return {
        "finding": finding,
        "value": None if finding.value is None else originals.get(finding.value, finding.value),
        "explained": _EXPLAINED.get(finding.kind, ""),
        "proven": shown.witness.proven,
        "chart": svg.witness_chart(operations, names),
        "operations": [(o, svg.label(o, originals), svg.label(o, names)) for o in operations],
        "aliases": [(alias, originals.get(value, value)) for value, alias in names.items()],
    }
