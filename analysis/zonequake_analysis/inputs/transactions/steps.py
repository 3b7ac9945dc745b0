"""A line of a transaction → a row for each of its steps, as if it were an operation.

A step has the transaction's times, process and place, and its name with the step's number:

    {"schema":2,"f":"transaction","op":"3-7","steps":[{"f":"append","key":"a","value":9},
     {"f":"read","key":"b","value":[4]}],…}
        →  append of 9 to a, op 3-7/1of2, step 0
           read of b: [4],   op 3-7/2of2, step 1

So every check of single operations judges steps, and `op` says which belong together. Steps are
numbered with the appends first: step 0 is the one write that a place in the order is compared by.
Pure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zonequake_analysis.inputs.even_lines import text_of
from zonequake_analysis.inputs.shapes import CORRUPT
from zonequake_analysis.inputs.transactions.line_rules import MOST_STEPS, SCHEMA_VERSION
from zonequake_analysis.text.strange_bytes import strange_bytes

MARK = b'"transaction"'
"""Every line of a transaction has these bytes, and hardly another one."""

_Int = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Short = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class _Kind(msgspec.Struct):
    f: Any = None


class _StepJson(msgspec.Struct):
    f: str
    key: str
    value: _Int | list[_Int] | msgspec.UnsetType | None = msgspec.UNSET


class _Line(msgspec.Struct):
    schema: _Int | None = None
    type: str | None = None
    process: _Int | None = None
    op: str | None = None
    role: str | None = None
    zone: str | None = None
    partition: _Short | None = None
    key: Any = None
    value: Any = None
    expected: Any = None
    applied: Any = None
    found: Any = None
    sched: _Int | None = None
    inv: _Int | None = None
    time: _Int | None = None
    wall: _Int | None = None
    clock: str | None = None
    node: str | None = None
    lineage: _Int | None = None
    term: _Int | None = None
    index: _Int | None = None
    read: Any = None
    steps: list[_StepJson] | None = None


_kind = msgspec.json.Decoder(_Kind).decode
_line = msgspec.json.Decoder(_Line).decode

Row = dict[str, object]

_NULL = ("key", "value", "expected", "applied", "found", "read")
"""The fields of a single operation, which no line of a transaction has."""

_COMMON = tuple(
    field for field in _Line.__struct_fields__ if field not in ("schema", "op", "steps", *_NULL)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRows:
    """The rows of the transactions among some lines, the line of each, and which lines they are."""

    rows: list[Row]
    of_line: NDArray[np.int64]
    taken: NDArray[np.bool_]


def transactions_in(lines: pa.Array, *, torn: bool) -> StepRows:
    """Returns the steps of all transactions; `torn`: the last line has no end in the file."""
    rows: list[Row] = []
    of_line: list[int] = []
    taken = np.zeros(len(lines), bool)
    marked = pc.match_substring(lines, MARK.decode()).to_numpy(zero_copy_only=False)
    for number in np.flatnonzero(marked).tolist():
        found = step_rows(text_of(lines.slice(number, 1)))
        last = torn and number == len(lines) - 1
        if found is not None and not (last and CORRUPT in found[0]):
            rows += found
            of_line += [number] * len(found)
            taken[number] = True
    return StepRows(rows=rows, of_line=np.array(of_line, np.int64), taken=taken)


def step_rows(line: bytes) -> list[Row] | None:
    """Returns the rows of a transaction's line, by the names of `LINES`; None if it is none.

    A line that can't be judged is one row that says why.
    """
    try:
        if _kind(line).f != "transaction":
            return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    try:
        found = _line(line)
        why = _twice_in(line) or _why_not(found)
    except RecursionError:
        return [{CORRUPT: "JSON that nests too deep"}]
    except (msgspec.DecodeError, ValueError) as error:
        strange = strange_bytes(line)
        return [{CORRUPT: str(error) if strange is None else strange[1]}]
    if why:
        return [{CORRUPT: why}]
    common: Row = {field: getattr(found, field) for field in _COMMON}
    steps = list(enumerate(found.steps or []))
    steps.sort(key=lambda numbered: numbered[1].f)  # an append before a read
    return [
        common
        | {
            "schema": 1,
            "f": step.f,
            "key": step.key,
            "op": None if found.op is None else f"{found.op}/{number + 1}of{len(steps)}",
            "step": rank,
            "value": None if isinstance(step.value, list) else step.value,
            "list": step.value if isinstance(step.value, list) else None,
            "read": "linearizable" if step.f == "read" else None,
        }
        for rank, (number, step) in enumerate(steps)
    ]


def _twice_in(line: bytes) -> str:
    """Returns which field stands twice, in the line or in a step; empty if none does."""
    paths: list[str] = []

    def note(pairs: list[tuple[str, object]]) -> None:
        names = [name for name, _ in pairs]
        where = "" if "steps" in names else "steps[]."
        paths.extend(where + name for name in dict.fromkeys(names) if names.count(name) > 1)

    json.loads(line, object_pairs_hook=note, parse_int=str)  # however many digits
    return f"it stands twice - at `$.{paths[0]}`" if paths else ""


def _why_not(found: _Line) -> str:
    """Returns why the line's steps can't be judged, in words; empty if they can."""
    if found.schema != SCHEMA_VERSION:
        said = "it is missing" if found.schema is None else f"found {found.schema}"
        return f"{said}, expected {SCHEMA_VERSION}, of transactions - at `$.schema`"
    for name in _NULL:
        value = getattr(found, name)
        if value is not None:
            said = msgspec.json.encode(value).decode()[:60]
            return f"found {said}, expected null, as the steps have it - at `$.{name}`"
    if not found.steps or len(found.steps) > MOST_STEPS:
        count = len(found.steps or [])
        return f"found {count} steps, expected 1 to {MOST_STEPS} - at `$.steps`"
    seen: set[str] = set()
    for number, step in enumerate(found.steps):
        if step.f not in ("append", "read"):
            return f"found {step.f}, expected append or read - at `$.steps[{number}].f`"
        if step.value is msgspec.UNSET:
            if found.type == "ok" or step.f == "append":
                return f"it is missing - at `$.steps[{number}].value`"
            step.value = None
        if step.f == "append" and not isinstance(step.value, int):
            said = "a list" if isinstance(step.value, list) else "null"
            return f"found {said}, expected an integer to append - at `$.steps[{number}].value`"
        if step.f == "read" and isinstance(step.value, int):
            return f"found {step.value}, expected a list or null - at `$.steps[{number}].value`"
        if step.key in seen:
            return (
                f"found {step.key} again, expected each key in one step - at "
                f"`$.steps[{number}].key`"
            )
        seen.add(step.key)
    return ""
