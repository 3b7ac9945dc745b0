"""The data of the page's script: findings over time, operations and log lines, as JSON.

Times are whole microseconds since the run began. Every text from the run has its characters
visible; the script writes it as text, never as markup.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from zonequake_analysis.checks.search.witness import WitnessOperation
from zonequake_analysis.inputs.shapes import NEVER_NS
from zonequake_analysis.judgement.judge import Judgement
from zonequake_analysis.measures.timeline import Timeline, all_of
from zonequake_analysis.post_mortem.examples import Example
from zonequake_analysis.post_mortem.finding_cells import MOST_CELLS, FindingCell, coarse
from zonequake_analysis.post_mortem.log_excerpts import LogLine, NodeMoment, excerpts
from zonequake_analysis.report import svg
from zonequake_analysis.storage.location import Location
from zonequake_analysis.text.untrusted_text import visible
from zonequake_analysis.verdict import MARKS, Check, Verdict

MOST_DETAIL_BYTES = 900_000
"""Operations and log lines of all examples together: the whole page stays below 3 MB."""

MOST_PARTITIONS = 500
"""Partitions with a row of their own, the worst ones."""

MOST_TIMELESS = 50
_MOST_TEXT = 240

_FEWEST_OTHERS = 1000
"""Cells that partitions without a row may have together, however many the others have."""

_NOT_DRAWN, _OF_NO_PARTITION = -2, -1
"""Rows of cells that stand in no partition's row."""

Place_ = tuple[str, int | None]
Kind = tuple[str, str]
Entry = dict[str, object]


def page_data(run: Path | Location, judgement: Judgement, originals: Mapping[int, str]) -> Entry:
    """Returns everything that the script needs, of a bounded size."""
    drawn, found = judgement.timeline, judgement.over_time
    kinds = kinds_by_severity(found.cells, judgement.checks)
    places = partitions_by_severity(drawn, found.cells, kinds)[:MOST_PARTITIONS]
    number_of = {kind: number for number, kind in enumerate(kinds)}
    row_of = {place: number for number, place in enumerate(places)}
    example_of = {(*one.cell.series, one.cell.first_ns): n for n, one in enumerate(found.examples)}

    def us(at_ns: int) -> int:
        return (at_ns - drawn.start_ns) // 1000

    checks = {check.name: check for check in judgement.checks}
    texts = {(one.cell.check, one.cell.kind): one.text for one in reversed(found.examples)}
    offset_ns = judgement.ingested.wall_offset_ns
    return {
        "length": drawn.end_ns / 1e9 - drawn.start_ns / 1e9,
        "startNs": str(drawn.start_ns),
        "wallMs": (drawn.start_ns + offset_ns) / 1e6 if offset_ns else None,
        "run": _shown(run.resolve().name),
        "kinds": [
            {
                "check": check,
                "kind": _shown(kind),
                "verdict": str(checks[check].verdict) if check in checks else "unknown",
                "mark": MARKS[checks[check].verdict if check in checks else Verdict.UNKNOWN],
                "text": _shown(texts.get((check, kind), "")),
                "count": sum(c.count for c in found.cells if (c.check, c.kind) == (check, kind)),
            }
            for check, kind in kinds
        ],
        "partitions": [[_shown(zone), partition] for zone, partition in places],
        "cells": [
            [
                number_of[cell.check, cell.kind],
                _OF_NO_PARTITION
                if cell.partition is None
                else row_of.get((cell.zone, cell.partition), _NOT_DRAWN),
                us(cell.first_ns),
                us(cell.last_ns),
                cell.count,
                example_of.get((*cell.series, cell.first_ns), -1),
            ]
            for cell in _few(found.cells, row_of)
        ],
        "examples": _examples(run, judgement, originals),
        "hover": _hover(drawn),
    }


def _few(cells: Sequence[FindingCell], row_of: Mapping[Place_, int]) -> list[FindingCell]:
    """Returns the cells of partitions that are drawn, and those of the others put together by
    kind.
    """
    own, others = list[FindingCell](), list[FindingCell]()
    for cell in cells:
        if cell.partition is None or (cell.zone, cell.partition) in row_of:
            own.append(cell)
        else:
            others.append(replace(cell, zone="", partition=_NOT_DRAWN))
    return own + coarse(others, most=max(_FEWEST_OTHERS, MOST_CELLS - len(own)))


def as_json(data: object) -> str:
    """Returns JSON that may stand in a script element: nothing in it ends the element."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def kinds_by_severity(cells: Sequence[FindingCell], checks: Sequence[Check]) -> list[Kind]:
    """Returns each (check, kind) that has a cell, the most severe first; `checks` are so."""
    order = {check.name: number for number, check in enumerate(checks)}
    kinds = {(cell.check, cell.kind) for cell in cells}
    return sorted(kinds, key=lambda kind: (order.get(kind[0], len(order)), kind))


def partitions_by_severity(
    drawn: Timeline, cells: Sequence[FindingCell], kinds: Sequence[Kind]
) -> list[Place_]:
    """Returns the partitions: those with findings first, the worst kind first; then those with
    failed operations; then the others."""
    number_of = {kind: number for number, kind in enumerate(kinds)}
    worst: dict[Place_, int] = {}
    for cell in cells:
        place, number = (cell.zone, cell.partition), number_of[cell.check, cell.kind]
        if cell.partition is not None:
            worst[place] = min(number, worst.get(place, number))
    failed: dict[Place_, bool] = {
        (one.zone, one.partition): bool(one.bad.any()) for one in drawn.partitions
    }
    places = worst.keys() | failed.keys()
    return sorted(
        places,
        key=lambda place: (
            worst.get(place, len(kinds)),
            not failed.get(place, False),
            place[0],
            place[1] or 0,
        ),
    )


def _examples(
    run: Path | Location, judgement: Judgement, originals: Mapping[int, str]
) -> list[Entry]:
    """Returns the examples with operations and log lines, as long as there is room for them."""
    start_ns, offset_ns = judgement.timeline.start_ns, judgement.ingested.wall_offset_ns
    examples = judgement.over_time.examples
    moments = {n: _moment(one, offset_ns) for n, one in enumerate(examples)}
    wanted = [moment for moment in moments.values() if moment is not None]
    lines = excerpts(run, wanted) if offset_ns else {}
    told: list[Entry] = []
    room = MOST_DETAIL_BYTES
    for number, one in enumerate(examples):
        moment = moments[number]
        entry = _example(one, start_ns, originals) | {
            "logNode": None if moment is None else _shown(moment[0]),
            "log": [
                _log_line(line, start_ns, offset_ns)
                for line in (lines.get(moment, ()) if moment is not None else ())
            ],
        }
        size = len(as_json(entry).encode(errors="backslashreplace"))
        if size > room:
            entry |= {"log": [], "ops": [], "cut": True}
            size = len(as_json(entry).encode(errors="backslashreplace"))
        room -= size
        told.append(entry)
    return told


def _moment(one: Example, offset_ns: int) -> NodeMoment | None:
    """Returns the node whose log may tell more, and when: it answered, or answered last."""
    nodes = [one.node] if one.node else [o.node for o in one.around if o.op in one.named and o.node]
    if not nodes:
        return None
    return nodes[0], (one.cell.first_ns + offset_ns) // 1_000_000


def _example(one: Example, start_ns: int, originals: Mapping[int, str]) -> Entry:
    value = one.value
    return {
        "key": _shown(one.key),
        "node": _shown(one.node),
        "text": _shown(one.text),
        "value": None if value is None else _shown(originals.get(value, str(value))),
        "apart": svg.duration(one.magnitude_ns) if one.magnitude_ns else None,
        "ops": [_operation(o, one, start_ns, originals) for o in one.around],
    }


def _operation(
    o: WitnessOperation, one: Example, start_ns: int, originals: Mapping[int, str]
) -> list[object]:
    never = o.step.fin_ns == NEVER_NS or o.outcome == "info"
    return [
        (o.step.inv_ns - start_ns) // 1000,
        None if never else svg.duration(o.step.fin_ns - o.step.inv_ns),
        _shown(o.op),
        o.process,
        _shown(svg.label(o, originals, one.value)),
        o.outcome + (" (final)" if o.role == "final" else ""),
        o.term,
        o.index,
        _shown(o.node),
        int(o.op in one.named),
        _shown(o.key) if o.key != one.key else None,
    ]


def _log_line(line: LogLine, start_ns: int, offset_ns: int) -> list[object]:
    at_us = line.at_ms * 1000 - (start_ns + offset_ns) // 1000
    return [at_us, _shown(line.text), _shown(line.file)]


def timeless_rows(judgement: Judgement) -> list[Entry]:
    """Returns findings that stand at no one time, the most severe first."""
    order = {check.name: number for number, check in enumerate(judgement.checks)}
    verdicts = {check.name: check.verdict for check in judgement.checks}
    found = sorted(judgement.over_time.timeless, key=lambda one: order.get(one.check, len(order)))
    return [
        {
            "check": one.check,
            "verdict": verdicts.get(one.check, Verdict.UNKNOWN),
            "kind": one.kind,
            "place": "" if one.partition is None else f"{one.zone or ''}/{one.partition}",
            "count": one.count,
            "text": one.text,
        }
        for one in found[:MOST_TIMELESS]
    ]


def _shown(text: str | None) -> str | None:
    """Returns text of the run as a reader may see it, not too much of it."""
    if text is None:
        return None
    seen = visible(text[: 2 * _MOST_TEXT])
    return seen if len(seen) <= _MOST_TEXT else f"{seen[:_MOST_TEXT]}…"


def _hover(drawn: Timeline) -> Entry:
    """Returns the data of the crosshair: per slice p50, p99, max in ms, ok and not ok."""
    if not drawn.latencies:
        return {}
    load = all_of(drawn.latencies.values())

    def rounded(values: Sequence[float]) -> list[float | None]:
        return [None if math.isnan(v) else round(v / 1e6, 2) for v in values]

    return {
        "slice": drawn.slice_ns / 1e9,
        "p50": rounded(list(load.percentiles_ns(0.5))),
        "p99": rounded(list(load.percentiles_ns(0.99))),
        "max": rounded([float(v) for v in load.max_ns]),
        "ok": load.ok.tolist(),
        "bad": load.bad.tolist(),
    }
