"""report.html: one self-contained page, verdict first; it loads nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from importlib import resources
from pathlib import Path
from urllib.parse import urlencode

import jinja2

from zonequake_analysis.importing.values import original_values
from zonequake_analysis.judgement.judge import Judgement
from zonequake_analysis.measures.rebalances import STAGES
from zonequake_analysis.post_mortem.witnessed_findings import WitnessedFinding
from zonequake_analysis.report import svg, time_rows
from zonequake_analysis.report.aliases import aliases
from zonequake_analysis.report.moved_metrics import more_spans, span_cards, unknown_load
from zonequake_analysis.report.page_data import (
    MOST_PARTITIONS,
    as_json,
    kinds_by_severity,
    page_data,
    partitions_by_severity,
    timeless_rows,
)
from zonequake_analysis.report.shortened import brief
from zonequake_analysis.report.summary import RESET_COLUMNS, headline, numbers, reset_rows
from zonequake_analysis.report.time_rows import Axis
from zonequake_analysis.report.witness_text import MOST_OPERATIONS, severity_of
from zonequake_analysis.storage.location import Location
from zonequake_analysis.tables.kinds import named
from zonequake_analysis.text.first_few import first_few
from zonequake_analysis.text.untrusted_text import visible
from zonequake_analysis.verdict import EXIT_CODES, MARKS, Check

MOST_WINDOWS = 200
MOST_LISTED = 300
"""Rebalances, and resets, that the page lists."""

MOST_ROWS = 24
"""Partitions that are shown at first; a button shows the others."""

_SCRIPTS = ("d3.min.js", "time_axis.js", "findings.js")


@cache
def _template() -> jinja2.Template:
    """Returns the page's template, compiled once in a process."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("zonequake_analysis.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["duration"] = svg.duration
    environment.filters["few"] = partial(first_few, most=8, separator=", ")
    return environment.get_template("page.html.j2")


def render_page(run: Path | Location, judgement: Judgement, *, told: Callable[[str], None]) -> str:
    """Returns the page as text; everything from the run is escaped.

    Calls `told` with a sentence if metrics can't be read.
    """
    e, drawn = judgement.evidence, judgement.timeline
    originals = original_values(run)
    axis = Axis(start_ns=drawn.start_ns, end_ns=drawn.end_ns)
    partitions, not_drawn = _partitions(axis, judgement)
    windows = sorted(e.availability.windows, key=lambda w: (-w.certain_ns, -w.possible_ns))
    if e.metrics is not None and e.metrics.problem:
        told(e.metrics.problem)
    return _template().render(
        j=judgement,
        e=e,
        marks=MARKS,
        exit_code=EXIT_CODES[judgement.verdict],
        headline=headline(judgement, short=True),
        numbers=numbers(judgement),
        seconds=axis.seconds,
        rows=_rows(axis, judgement),
        partitions=partitions,
        not_drawn=not_drawn,
        most_rows=MOST_ROWS,
        first_hidden_is_clean=not any(
            one["found"] or one["failed"] for one in partitions[MOST_ROWS:]
        ),
        over_time=judgement.over_time,
        timeless=timeless_rows(judgement),
        time_link=axis.link,
        has_wall=bool(judgement.ingested.wall_offset_ns),
        day=_day(judgement),
        data=as_json(page_data(run, judgement, originals)),
        scripts=_scripts(),
        stages=STAGES,
        windows=windows[:MOST_WINDOWS],
        windows_left_out=max(0, len(windows) - MOST_WINDOWS),
        most_faults=time_rows.MOST_FAULTS,
        most_listed=MOST_LISTED,
        resets=reset_rows(e),
        reset_columns=RESET_COLUMNS,
        violations=[
            _violation(shown, originals, axis)
            for shown in distinct_findings(judgement.shown, judgement.checks)
        ],
        metric_spans=span_cards(judgement),
        more_spans=more_spans(e.metrics),
        unknown_load=unknown_load(e.metrics),
        run_name=run.resolve().name,
    )


def _day(judgement: Judgement) -> str:
    """Returns the date on which the run began, in UTC; empty if no history says it."""
    unix_s = (judgement.timeline.start_ns + judgement.ingested.wall_offset_ns) / 1e9
    try:
        return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d")
    except (ValueError, OverflowError, OSError):
        return ""


def _visible(value: object) -> object:
    """Returns text from the run with every character shown; other values and our markup
    unchanged.
    """
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _scripts() -> list[str]:
    """Returns the scripts that the page runs, in their order; d3 with its licence."""
    folder = resources.files("zonequake_analysis.report")
    scripts = [(folder / "scripts" / name).read_text("utf-8") for name in _SCRIPTS]
    licence = (folder / "scripts" / "d3.LICENSE").read_text("utf-8")
    return [f"/*\n{licence}*/", *scripts]


def _rows(axis: Axis, judgement: Judgement) -> dict[str, str]:
    """Returns the rows of the time axis, as markup; of events of another clock than the operations
    nothing is drawn.
    """
    e, drawn = judgement.evidence, judgement.timeline
    events, faults, changes = judgement.events, e.faults, e.rebalances
    if not e.one_clock:
        events, faults, changes = (), (), ()
    return {
        "behind": time_rows.behind(axis, faults, events),
        "phases": time_rows.phase_row(axis, events),
        "faults": time_rows.fault_rows(axis, faults),
        "latency": time_rows.latency_row(axis, drawn),
        "rate": time_rows.rate_row(axis, drawn),
        "leaders": time_rows.leader_row(axis, events),
        "rebalances": time_rows.rebalance_rows(axis, changes),
    }


def _partitions(axis: Axis, judgement: Judgement) -> tuple[list[dict[str, object]], str]:
    """Returns the rows of partitions, those with the most severe findings first, and a sentence on
    those that have none.
    """
    drawn, cells = judgement.timeline, judgement.over_time.cells
    kinds = kinds_by_severity(cells, judgement.checks)
    answers = {(one.zone, one.partition): one for one in drawn.partitions}
    found = {(cell.zone, cell.partition) for cell in cells}
    failed = {place for place, one in answers.items() if one.bad.any()}
    places = partitions_by_severity(drawn, cells, kinds)
    shown, others = places[:MOST_PARTITIONS], places[MOST_PARTITIONS:]
    rows: list[dict[str, object]] = [
        {
            "name": f"{place[0]}/{place[1]}",
            "strip": time_rows.strip(axis, drawn, answers[place], rows=len(shown))
            if place in answers
            else "",
            "found": place in found,
            "failed": place in failed,
        }
        for place in shown
    ]
    if not others:
        return rows, ""
    return rows, (
        f"{len(others):,} more partitions are not drawn: {len(found.intersection(others)):,} of "
        f"them with findings, {len(failed.intersection(others)):,} with failed operations. The "
        "rows of kinds have their findings, too; tables/findings and tables/ops name the "
        "partition of each."
    )


def distinct_findings(
    shown: Sequence[WitnessedFinding], checks: Sequence[Check]
) -> list[WitnessedFinding]:
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


def _violation(shown: WitnessedFinding, originals: dict[int, str], axis: Axis) -> dict[str, object]:
    finding, operations = shown.finding, shown.witness.operations[:MOST_OPERATIONS]
    about, value = finding.value, finding.value
    names = aliases(operations, about)
    check, sentence = named((finding.check, finding.kind))
    place = {
        "kind": f"{check}/{finding.kind}",
        "partition": f"{finding.zone}/{finding.partition}",
        "at": f"{axis.seconds(finding.at_ns):.6f}",
    }
    return {
        "link": f"#{urlencode(place)}",
        "finding": finding,
        "key": brief(finding.key),
        "value": None if value is None else brief(originals.get(value, str(value))),
        "explained": f"{sentence[0].upper()}{sentence[1:]}.",
        "proven": shown.witness.proven,
        "chart": svg.witness_chart(operations, names, about),
        "operations": [
            (o, svg.label(o, originals, about), svg.label(o, names, about)) for o in operations
        ],
        "left_out": len(shown.witness.operations) - len(operations),
        "aliases": [(alias, brief(originals.get(one, str(one)))) for one, alias in names.items()],
    }
