"""Passes histories of simulated clients to the real checkers, many seeds in one table.

The lines go the way that a run's history goes: text, lines, types, layout, columns, screens. Keys
that a screen does not clear are decided exactly: by search, and by the order that the store
claimed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from zonequake_analysis.checks.screens import black_box, claimed, loss, sessions, sets
from zonequake_analysis.checks.screens.columns import Columns, columns
from zonequake_analysis.checks.search.claimed_order_search import follows_claim
from zonequake_analysis.checks.search.reference import ReferenceStep, is_linearizable
from zonequake_analysis.inputs.integer_columns import typed
from zonequake_analysis.inputs.layout import laid_out
from zonequake_analysis.inputs.lines import byte_ranges, kept_lines
from zonequake_analysis.inputs.shapes import NEVER_NS, Function, OutcomeCode
from zonequake_load.pod.history import HistoryEvent
from zonequake_simulation.violation import Violation

_encode = msgspec.json.Encoder().encode


def judged(histories: Mapping[str, Sequence[HistoryEvent]], folder: Path) -> dict[str, Violation]:
    """Returns the violation that each history shows, by its name; the others show none.

    Uses `folder` for a temporary file.
    """
    file = folder / "history.jsonl"
    with file.open("wb") as stream:
        for number, (name, events) in enumerate(histories.items()):
            for event in events:
                # Names of operations pair their lines, so they must differ between histories.
                named = msgspec.structs.replace(event, zone=name, op=f"{number}.{event.op}")
                stream.write(_encode(named) + b"\n")
    tables = [
        typed(lines, writer="simulation", clock_offset_ns=0)[0]
        for part in byte_ranges([file])
        for lines in kept_lines(part)
    ]
    file.unlink()
    if not tables:
        return {}
    ops = laid_out(pa.concat_tables(tables)).ops
    if not ops.num_rows:
        return {}
    return _found(ops, columns(ops))


def _found(ops: pa.Table, c: Columns) -> dict[str, Violation]:
    found: dict[str, Violation] = {}
    screens = {
        "sets": sets.suspects(c),
        "loss": loss.suspects(c),
        "claimed order": claimed.suspects(c).either,
        "registers": black_box.registers(c),
        "lists": black_box.lists(c),
    }
    suspects = np.flatnonzero(np.logical_or.reduce(list(screens.values())))
    for key in suspects.tolist():
        rows = ops.filter(pa.array(c.key == key)).to_pylist()
        raised_by = [name for name, flags in screens.items() if flags[key]]
        rule = _exact(rows)
        if rule is not None:
            found.setdefault(
                rows[0]["zone"],
                Violation(rule, key=rows[0]["key"], screens=raised_by, operations=_told(rows)),
            )
    for rule, flags in (
        ("a process never goes back", sessions.suspects(c)),
        ("one entry acknowledges one write", claimed.shared_entries(c)),
    ):
        for partition in np.flatnonzero(flags).tolist():
            rows = ops.filter(pa.array(c.partition == partition)).slice(0, 1).to_pylist()
            found.setdefault(rows[0]["zone"], Violation(rule, partition=rows[0]["partition"]))
    return found


def _exact(rows: list[dict[str, Any]]) -> str | None:
    """Returns the rule that the operations on one key certainly break. A write that certainly
    failed was never made: an answer that shows its value has no order."""
    judged_rows = [
        row
        for row in rows
        if not row["bounded"]
        and row["outcome"] != OutcomeCode.FAIL.value
        and not (row["f"] == Function.READ.value and row["outcome"] != OutcomeCode.OK.value)
    ]
    steps = [_step(row) for row in judged_rows]
    if not is_linearizable(steps):
        return "histories are linearizable"
    if not follows_claim(steps, [row["position"] for row in judged_rows]):
        return "the order that the store claims explains its answers"
    return None


def _step(row: dict[str, Any]) -> ReferenceStep:
    shown = row["list"]
    answered = row["outcome"] == OutcomeCode.OK.value
    return ReferenceStep(
        f=Function(row["f"]),
        inv_ns=row["inv"],
        fin_ns=row["fin"] if answered else NEVER_NS,
        value=tuple(shown) if shown is not None else row["value"],
        expected=row["expected"],
        found=row["found"],
        refused=row["f"] == Function.CAS.value and answered and not row["applied"],
    )


def _told(rows: list[dict[str, Any]]) -> list[str]:
    """Returns the operations as text, for a report."""
    found = []
    for row in rows:
        end = "?" if row["fin"] == NEVER_NS else f"{row['fin'] / 1e6:.1f}"
        shown = row["value"] if row["list"] is None else row["list"]
        found.append(
            f"{row['inv'] / 1e6:.1f}..{end} ms {Function(row['f']).name.lower()} {row['op']} "
            f"{shown} {OutcomeCode(row['outcome']).name.lower()} term {row['term']} "
            f"index {row['index']}"
        )
    return found
