"""Defects that a line shows by itself: missing fields and impossible values. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zonequake_analysis.inputs.defects.names import Twice, hashed
from zonequake_analysis.inputs.defects.of_history import (
    MOST_EXAMPLES,
    MOST_REFUSED,
    Defects,
    HistoryDefect,
    HistoryDefectKind,
    plain,
)
from zonequake_analysis.inputs.shapes import (
    ABSENT,
    CORRUPT,
    LACKS,
    MAY_BE_NULL,
    SCHEMA_VERSION,
    TORN,
    Function,
    OutcomeCode,
    RoleCode,
)
from zonequake_analysis.limits import MOST_NS

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

_PATH = " - at `$."
"""The decoder names the field after this text."""

_TYPES = ("invoke", *(name.name.lower() for name in OutcomeCode))
_JUDGED = (HistoryDefectKind.WIDE, HistoryDefectKind.SCHEMA, HistoryDefectKind.UNDUE)
"""Defects that refuse no key: its operations are judged all the same."""

_NEEDED = ("process", "op", "zone", "key", "partition", "inv")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """Rows that break a rule; `words` say for a row what was found and expected."""

    field: str
    rows: Bools
    words: Callable[[int], str]
    kind: HistoryDefectKind = HistoryDefectKind.FIELD


def defects_of(
    lines: pa.RecordBatch,
    *,
    placed: Bools,
    twice: Twice | None,
    origin: Ints,
    partition_id: Ints,
    key_id: Ints,
) -> tuple[Bools, Defects]:
    """Returns which lines can be judged, and the defects of the others.

    `placed`: lines whose place in the store's order is known; `twice`: names that
    several things carry.
    """
    torn = _true(pc.equal(lines.column(CORRUPT), TORN))
    usable = ~torn
    counts: dict[str, int] = {}
    examples: list[HistoryDefect] = []
    for rule in _rules(lines, placed, twice, key_id, origin):
        rows = np.flatnonzero(rule.rows & usable)
        if not len(rows):
            continue
        if rule.kind not in _JUDGED:
            usable[rows] = False
        each = _one_of_each_line(rows, origin)
        counts[rule.kind.value] = counts.get(rule.kind.value, 0) + len(each)
        for row in each[:MOST_EXAMPLES].tolist():
            field = f", field `{plain(rule.field)}`" if rule.field else ""
            examples.append(
                HistoryDefect(
                    kind=rule.kind,
                    words=f"{{}}{field}: {plain(rule.words(row))}",
                    origins=[int(origin[row])],
                    field=rule.field,
                )
            )
    named = ~usable & _valid(lines.column("key")) & _valid(lines.column("partition"))
    refused = set(zip(partition_id[named].tolist(), key_id[named].tolist(), strict=True))
    everything = len(refused) > MOST_REFUSED
    return usable, Defects(
        counts=counts,
        examples=examples,
        refused=[] if everything else sorted(refused),
        everything=everything,
        keyless=len(np.unique(origin[~usable & ~torn & ~named])),
    )


def _rules(
    lines: pa.RecordBatch, placed: Bools, twice: Twice | None, key_id: Ints, origin: Ints
) -> Iterator[_Rule]:
    get = lines.column
    yield from _unreadable(lines, origin)
    yield _Rule(
        field="schema",
        rows=~_true(pc.equal(get("schema"), SCHEMA_VERSION)),
        words=_found(lines, "schema", str(SCHEMA_VERSION)),
        kind=HistoryDefectKind.SCHEMA,
    )
    for name, known in (
        ("type", _TYPES),
        ("f", tuple(name.name.lower() for name in Function)),
        ("role", tuple(name.name.lower() for name in RoleCode)),
    ):
        unknown = ~_true(pc.is_in(get(name), pa.array(known)))
        yield _Rule(field=name, rows=unknown, words=_found(lines, name, " or ".join(known)))
    for name in _NEEDED:
        yield _Rule(field=name, rows=~_valid(get(name)), words=_missing)
    invoke = _true(pc.equal(get("type"), "invoke"))
    yield _Rule(field="time", rows=~_valid(get("time")) & ~invoke, words=_missing)
    for name in ("sched", "inv", "time"):
        number = pc.fill_null(get(name), 0).to_numpy()
        far = (number >= MOST_NS) | (number <= -MOST_NS)
        within = "nanoseconds of a clock that began less than 73 years ago"
        yield _Rule(field=name, rows=far, words=_found(lines, name, within))
    early = _true(pc.less(get("time"), get("inv")))
    yield _Rule(field="time", rows=early, words=_before_its_invoke(lines))
    late = _true(pc.greater(get("sched"), get("inv")))
    yield _Rule(field="sched", rows=late, words=_due_after_its_invoke(lines))
    yield _Rule(
        field="sched",
        rows=~_valid(get("sched")),
        words=lambda _: "it is missing, so `inv` counts, and latency may be longer",
        kind=HistoryDefectKind.UNDUE,
    )
    yield from _values(lines, invoke)
    if twice is not None:
        yield _Rule(
            field="op",
            rows=_valid(get("op")) & np.isin(hashed(get("op")), twice.ops),
            words=_found(
                lines,
                "op",
                "a name that no other operation has, and one completion, which repeats what the "
                "invoke asked for",
            ),
            kind=HistoryDefectKind.REPEATED,
        )
        yield _Rule(
            field="partition",
            rows=_valid(get("key")) & np.isin(key_id, twice.keys),
            words=lambda row: (
                f"found {get('partition')[row]} for key {get('key')[row]}, expected one partition "
                "of a key in all lines"
            ),
            kind=HistoryDefectKind.MOVED,
        )
    wide = _valid(get("index")) & ~placed & _true(pc.equal(get("type"), "ok"))
    yield _Rule(
        field="index",
        rows=wide,
        words=lambda row: (
            f"found lineage {get('lineage')[row]}, term {get('term')[row]}, "
            f"index {get('index')[row]}, expected all three, in 10, 20 and 32 bits"
        ),
        kind=HistoryDefectKind.WIDE,
    )


def _values(lines: pa.RecordBatch, invoke: Bools) -> Iterator[_Rule]:
    """Yields the rules for what an operation wrote, expected and found."""
    get = lines.column
    for name in ("value", "expected", "found"):
        reserved = _true(pc.equal(get(name), ABSENT))
        yield _Rule(field=name, rows=reserved, words=_found(lines, name, "a number above it"))
    read, cas = (_true(pc.equal(get("f"), name)) for name in ("read", "cas"))
    yield from _lacking(lines, read, cas)
    listed = _valid(get("list"))
    yield _Rule(
        field="value",
        rows=~read & ~_valid(get("value")) & ~listed,
        words=lambda _: "it is missing, expected the value to be written",
    )
    yield _Rule(
        field="value",
        rows=~read & listed,
        words=lambda _: "found a list, expected the one value to be written",
    )
    holes = np.zeros(len(lines), bool)
    if get("list").values.null_count:
        offsets = get("list").offsets.to_numpy()
        empty = np.flatnonzero(get("list").values.is_null().to_numpy(zero_copy_only=False))
        holes[np.searchsorted(offsets, empty, side="right") - 1] = True
    yield _Rule(
        field="value", rows=holes, words=lambda _: "found null in a list, expected integers"
    )
    answered = cas & _true(pc.equal(get("type"), "ok"))
    yield _Rule(field="applied", rows=answered & ~_valid(get("applied")), words=_missing)


def _lacking(lines: pa.RecordBatch, read: Bools, cas: Bools) -> Iterator[_Rule]:
    """Yields the rules for fields that say by null that the key was absent."""
    lacks = lines.column(LACKS)
    if lacks.null_count == len(lacks):
        return
    bits = pc.fill_null(lacks, 0).to_numpy()
    ok = _true(pc.equal(lines.column("type"), "ok"))
    refused = ok & ~_true(pc.fill_null(lines.column("applied"), True))
    needed = {"value": ok & read, "expected": cas, "found": cas & refused}
    for bit, name in enumerate(MAY_BE_NULL):
        lacking = (bits & (1 << bit)) != 0
        yield _Rule(field=name, rows=lacking & needed[name], words=_missing)


def _one_of_each_line(rows: Ints, origin: Ints) -> Ints:
    """Returns rows in the order of their lines, which a batch doesn't keep, of several steps of a
    transaction the first.
    """
    _, first = np.unique(origin[rows], return_index=True)
    return rows[first]


def _unreadable(lines: pa.RecordBatch, origin: Ints) -> Iterator[_Rule]:
    """Yields a rule for each line that the decoder refused, as each has a field of its own.

    The lines after the examples are counted together.
    """
    corrupt = lines.column(CORRUPT)
    unreadable = _valid(corrupt) & ~_true(pc.equal(corrupt, TORN))
    rows = _one_of_each_line(np.flatnonzero(unreadable), origin)
    groups = [rows[i : i + 1] for i in range(min(MOST_EXAMPLES, len(rows)))]
    groups.append(rows[MOST_EXAMPLES:])
    for group in groups:
        said = corrupt[int(group[0])].as_py() if len(group) else ""
        words, _, path = said.partition(_PATH)
        mask = np.zeros(len(lines), bool)
        mask[group] = True
        yield _Rule(
            field=path.rstrip("`"),
            rows=mask,
            words=_said(words),
            kind=HistoryDefectKind.UNREADABLE,
        )


def _said(words: str) -> Callable[[int], str]:
    return lambda _: words


def _missing(_: int) -> str:
    return "it is missing"


def _found(lines: pa.RecordBatch, name: str, expected: str) -> Callable[[int], str]:
    def words(row: int) -> str:
        value = lines.column(name)[row].as_py()
        said = "it is missing" if value is None else f"found {str(value)[:60]}"
        return f"{said}, expected {expected}"

    return words


def _before_its_invoke(lines: pa.RecordBatch) -> Callable[[int], str]:
    def words(row: int) -> str:
        time, inv = lines.column("time")[row], lines.column("inv")[row]
        return f"found {time}, expected no less than `inv`, {inv}"

    return words


def _due_after_its_invoke(lines: pa.RecordBatch) -> Callable[[int], str]:
    def words(row: int) -> str:
        sched, inv = lines.column("sched")[row], lines.column("inv")[row]
        return f"found {sched}, expected no more than `inv`, {inv}"

    return words


def _valid(column: pa.Array) -> Bools:
    result: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    return result


def _true(column: pa.Array) -> Bools:
    result: Bools = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return result
