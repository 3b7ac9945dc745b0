"""Lines → operations: codes for names, ids, positions, and the facts of a range of lines.

Works on whole Arrow columns; pure.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import IntEnum

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql.pandas.types import to_arrow_schema

from zonequake_analysis.inputs.defects.names import Twice
from zonequake_analysis.inputs.defects.of_history import Defects, defects_together, origin_of
from zonequake_analysis.inputs.defects.of_lines import defects_of
from zonequake_analysis.inputs.ids import name_ids
from zonequake_analysis.inputs.shapes import (
    CORRUPT,
    INDEX_BITS,
    LINEAGE_BITS,
    NEVER_NS,
    OPS,
    TERM_BITS,
    TORN,
    Function,
    OutcomeCode,
    RoleCode,
)
from zonequake_analysis.limits import MOST_NS

_OPS = [field for field in to_arrow_schema(OPS) if field.name != "copy"]
EVENTS = pa.schema(
    [
        *_OPS,
        pa.field("origin", pa.int64()),
        pa.field("invoke", pa.bool_()),
        pa.field("paired", pa.bool_()),
    ]
)
"""Operations before pairing: the origin of each line (`of_history.origin_of`), whether it is an
invoke, and whether it is a completion whose invoke was dropped."""


_CUT = "the file ends within a line, expected a whole one, as another piece of the history follows"


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of some lines of a history. Times in ns, None if there is none.

    `first_clock`, `last_clock`: an empty name if a line names no clock.

    `unused_files`: how many column files were not used; `unused`: the first one, and why.
    """

    lines: int = 0
    torn: int = 0
    faults: Defects = Defects()
    first_clock: str | None = None
    last_clock: str | None = None
    wall_offset: int | None = None
    start: int | None = None
    end: int | None = None
    unused_files: int = 0
    unused: str | None = None


def together(facts: Sequence[Facts]) -> Facts:
    """Merges the facts of several parts of the lines into one."""
    return Facts(
        lines=sum(f.lines for f in facts),
        torn=sum(f.torn for f in facts),
        faults=defects_together([f.faults for f in facts]),
        first_clock=min((f.first_clock for f in facts if f.first_clock is not None), default=None),
        last_clock=max((f.last_clock for f in facts if f.last_clock is not None), default=None),
        wall_offset=max((f.wall_offset for f in facts if f.wall_offset is not None), default=None),
        start=min((f.start for f in facts if f.start is not None), default=None),
        end=max((f.end for f in facts if f.end is not None), default=None),
        unused_files=sum(f.unused_files for f in facts),
        unused=min((f.unused for f in facts if f.unused is not None), default=None),
    )


def typed(
    lines: pa.RecordBatch,
    *,
    writer: str,
    clock_offset_ns: int,
    twice: Twice | None = None,
    followed: Collection[int] = (),
) -> tuple[pa.Table, Facts]:
    """Returns the events (shape `EVENTS`) in `lines` (shape `schema.LINES`), and facts of all
    lines.

    `writer` wrote their file: the vantage of its probes. `clock_offset_ns` widens intervals.
    `twice`: names that several operations or partitions carry. `followed`: numbers of files that
    end with a line, as pieces of a history that goes on in another file. A line with a fault is no
    event.
    """
    lines = _cut(lines, followed)
    get = lines.column
    invoke = pc.fill_null(pc.equal(get("type"), "invoke"), False)
    outcome = pc.if_else(invoke, _int8(OutcomeCode.INFO), _codes(get("type"), OutcomeCode))
    f, role = _codes(get("f"), Function), _codes(get("role"), RoleCode)
    inv = pc.subtract(get("inv"), clock_offset_ns)
    fin = pc.if_else(
        pc.fill_null(pc.equal(outcome, _int8(OutcomeCode.INFO)), False),
        pa.scalar(NEVER_NS, pa.int64()),
        pc.add(get("time"), clock_offset_ns),
    )
    sched = pc.coalesce(get("sched"), get("inv"))
    position = _positions(lines)
    origin = origin_of(get("file").to_numpy().astype(np.int64), get("at").to_numpy())
    partition_id = name_ids(get("zone"), pc.cast(get("partition"), pa.string()))
    key_id = name_ids(get("zone"), get("key"))
    usable, faults = defects_of(
        lines,
        placed=_valid(position),
        twice=twice,
        origin=origin,
        partition_id=partition_id,
        key_id=key_id,
    )
    columns: dict[str, pa.Array] = {
        name: get(name)
        for name in (
            *("zone", "partition", "key", "process", "op", "value", "expected", "found"),
            *("node", "term", "index", "step", "paired"),
        )
    } | {
        "list": _without_empty(get("list")),
        "role": role,
        "f": f,
        "outcome": outcome,
        "applied": pc.fill_null(get("applied"), False),
        "sched": sched,
        "inv": inv,
        "fin": fin,
        "position": position,
        "bounded": pc.fill_null(pc.equal(get("read"), "bounded"), False),
        "vantage": pc.if_else(
            pc.fill_null(pc.equal(role, _int8(RoleCode.PROBE)), False),
            pa.scalar(writer, pa.string()),
            pa.scalar(None, pa.string()),
        ),
        "invoke": invoke,
        "partition_id": partition_id,
        "key_id": key_id,
        "origin": origin,
    }
    table = pa.table([columns[field.name] for field in EVENTS], schema=EVENTS)
    if not usable.all():
        table = table.filter(pa.array(usable))
    clocks = _clocks(get("clock"), usable)
    fin = table.column("fin")
    ended = pc.filter(fin, pc.less(fin, NEVER_NS))
    last = (pc.max(table.column("inv")).as_py(), pc.max(ended).as_py())
    return table, Facts(
        lines=len(lines) - _later_steps(get("step")) + int(_true(get("paired")).sum()),
        torn=int(_true(pc.equal(get(CORRUPT), TORN)).sum()),
        faults=faults,
        first_clock=clocks[0],
        last_clock=clocks[1],
        wall_offset=_wall_offset(lines, usable),
        start=pc.min(table.column("sched")).as_py(),
        end=max((t for t in last if t is not None), default=None),
    )


def _cut(lines: pa.RecordBatch, followed: Collection[int]) -> pa.RecordBatch:
    """Returns the same lines, with words for torn ones that no crash left."""
    corrupt = lines.column(CORRUPT)
    torn = pc.fill_null(pc.equal(corrupt, TORN), False)
    if not (followed and pc.any(torn).as_py()):
        return lines
    inside = pc.is_in(lines.column("file"), pa.array(sorted(followed), pa.int32()))
    return lines.set_column(
        lines.schema.get_field_index(CORRUPT),
        lines.schema.field(CORRUPT),
        pc.if_else(pc.and_(torn, inside), pa.scalar(_CUT), corrupt),
    )


def _without_empty(lists: pa.Array) -> pa.Array:
    """Returns the lists with null for one without elements: nothing was there, and a register that
    shows one is absent, too.
    """
    empty = pc.fill_null(pc.equal(pc.list_value_length(lists), 0), False)
    if not pc.any(empty).as_py():
        return lists
    return pc.if_else(empty, pa.scalar(None, lists.type), lists)


def _later_steps(step: pa.Array) -> int:
    """Returns the number of rows that are no lines of their own."""
    return int(_true(pc.greater(step, 0)).sum())


def _clocks(names: pa.Array, usable: NDArray[np.bool_]) -> tuple[str | None, str | None]:
    """Returns the first and the last name of a clock; empty for lines that name none."""
    if names.null_count:
        names = pc.fill_null(names.filter(pa.array(usable)), "")
    found = pc.min_max(names)
    return found["min"].as_py(), found["max"].as_py()


def _wall_offset(lines: pa.RecordBatch, usable: NDArray[np.bool_]) -> int | None:
    """Returns the wall clock minus the monotonic one, from lines where both are sane; else None."""
    wall = lines.column("wall")
    sane = pc.and_(pc.less(wall, MOST_NS), pc.greater(wall, -MOST_NS))
    wall = pc.if_else(sane, wall, pa.scalar(None, pa.int64()))
    apart = pc.filter(pc.subtract(wall, lines.column("time")), pa.array(usable))
    widest: int | None = pc.max(apart).as_py()
    return widest


def _positions(lines: pa.RecordBatch) -> pa.Array:
    """Returns (lineage, term, index) of answers as ordered integers; null if absent or too wide."""
    parts = [
        (lines.column(name), bits)
        for name, bits in (("lineage", LINEAGE_BITS), ("term", TERM_BITS), ("index", INDEX_BITS))
    ]
    there = _true(pc.equal(lines.column("type"), "ok"))
    packed = np.zeros(len(lines), np.int64)
    for column, bits in parts:
        number = pc.fill_null(column, 1 << bits).to_numpy()
        there &= (number >= 0) & (number < 1 << bits)
        packed = (packed << bits) | np.where(there, number, 0)
    return pa.array(packed, mask=~there)


def _codes(names: pa.Array, known: type[IntEnum]) -> pa.Array:
    """Returns the small integer for a name, null for an unknown name."""
    rows = pc.index_in(names, pa.array([name.name.lower() for name in known]))
    codes = pa.array([name.value for name in known], pa.int8())
    return codes.take(rows)


def _int8(name: IntEnum) -> pa.Scalar:
    return pa.scalar(name.value, pa.int8())


def _valid(column: pa.Array) -> NDArray[np.bool_]:
    result: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return result


def _true(column: pa.Array) -> NDArray[np.bool_]:
    result: NDArray[np.bool_] = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return result
