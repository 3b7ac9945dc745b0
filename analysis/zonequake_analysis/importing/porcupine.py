"""Lines of Porcupine operations → operations. Pure.

The input has one JSON object a line, as Go's encoder writes a `porcupine.Operation`:

    {"ClientId":0,"Input":{…},"Call":1,"Output":{…},"Return":2}

Porcupine leaves `Input` and `Output` to each model. Two kinds are read: etcd's robustness tests'
(`Input` has a `Type`, see `etcd_requests`), and a plain one (`Input` has an `Op`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zonequake_analysis.errors import ImportRefused
from zonequake_analysis.importing import etcd_requests
from zonequake_analysis.importing.edn import text_of
from zonequake_analysis.importing.json_lines import JsonLine, JsonObject
from zonequake_analysis.importing.operations import (
    FAIL,
    HINT_LEAVE_OUT,
    HINT_SPLIT,
    INFO,
    OK,
    Choices,
    ForeignOperation,
    Function,
    Notes,
)
from zonequake_analysis.importing.steps import KeyStep, LineSteps, Unjudged

_NAMES = {
    "get": Function.READ,
    "read": Function.READ,
    "put": Function.WRITE,
    "write": Function.WRITE,
    "cas": Function.CAS,
    "append": Function.APPEND,
}
_NUMBERS = {0: Function.READ, 1: Function.WRITE, 2: Function.APPEND}
"""The `Op` of Porcupine's own model of a key-value store; its values are strings, at first ""."""
_GOOD = (None, "", "OK")


def operations(
    lines: Iterable[JsonLine], *, choices: Choices, notes: Notes
) -> Iterator[ForeignOperation]:
    """Yields the operations in the order of their calls. Raises ImportRefused.

    Holds all of them in memory: lines come in any order, and the last line may exclude the key of
    the first.
    """
    found: list[ForeignOperation] = []
    excluded: set[str] = set()
    for line in lines:
        try:
            steps = _steps(line, notes)
        except Unjudged as error:
            if not choices.leave_out:
                raise ImportRefused(
                    line.file, line.line, error.field, f"{error.what}; {HINT_LEAVE_OUT}"
                ) from error
            excluded.update(error.keys)
            continue
        if len(steps.steps) > 1 and steps.outcome == OK and not choices.split:
            line.refuse(
                "Input",
                f"a transaction of {len(steps.steps)} operations, and whether transactions are "
                f"atomic isn't judged here; {HINT_SPLIT}",
            )
        found.extend(_operations(line, steps))
    if excluded:
        notes.left_out["keys with operations that can't be judged"] = len(excluded)
        before = len(found)
        found = [operation for operation in found if operation.key not in excluded]
        notes.left_out["operations on these keys"] = before - len(found)
    found.sort(key=lambda operation: operation.inv_ns)
    yield from found


def _operations(line: JsonLine, told: LineSteps) -> Iterator[ForeignOperation]:
    client, call = line.top.integer("ClientId"), line.top.integer("Call")
    ended = told.outcome in (OK, FAIL)
    end = line.top.integer("Return") if ended and told.steps else call
    if end < call:
        line.refuse("Return", f"found {end}, before Call, {call}")
    for number, step in enumerate(told.steps):
        yield ForeignOperation(
            f=step.f,
            process=client,
            number=line.line,
            step=number,
            file=line.file,
            line=line.line,
            key=step.key,
            value=step.value,
            expected=step.expected,
            outcome=told.outcome,
            inv_ns=call,
            fin_ns=end,
            error=told.error,
            index=told.index if len(told.steps) == 1 else None,
        )


def _steps(line: JsonLine, notes: Notes) -> LineSteps:
    given = line.top.object("Input")
    if given.has("Type"):
        return etcd_requests.steps(given, line.top.object("Output"), notes)
    if given.has("Op"):
        return _plain(given, line.top)
    return given.refuse("", "found neither Type (etcd's tests) nor Op (plain operations)")


def _plain(given: JsonObject, top: JsonObject) -> LineSteps:
    """Reads an operation with an `Op`: get, put, cas or append by name, or 0, 1, 2 for the first
    three.
    """
    op = given.get("Op")
    numbered = type(op) is int
    f = _NUMBERS.get(op) if type(op) is int else _NAMES.get(op) if isinstance(op, str) else None
    if f is None:
        given.refuse("Op", f"found {text_of(op)}, expected one of {' '.join(_NAMES)}, 0, 1 or 2")
    key = given.key("Key")
    if numbered and f is Function.APPEND:
        raise Unjudged(
            "Input.Op",
            "found 2, an append to a string, which can't be judged; lists are appended to by name",
            (key,),
        )
    answer = top.object("Output") if top.get("Output") is not None else None
    error = None if answer is None else _error(answer)
    unknown = (
        answer is None
        or answer.get("Unknown") is True
        or error is not None
        or top.get("Return") is None
    )
    value: object = None
    expected: object = None
    outcome = INFO if unknown else OK
    if f is Function.READ:
        outcome = FAIL if unknown else OK
        if answer is not None and not unknown:
            value = answer.get("Value")
            value = None if numbered and value == "" else value
    else:
        value = given.written("Value", "New", "To")
        if numbered and value == "":
            given.refuse("Value", 'found "", which is what a key holds that was never written')
    if f is Function.CAS:
        expected = given.scalar("Expected", "Old", "From")
        if answer is not None and not unknown and not answer.boolean("Ok", "Applied", "Changed"):
            outcome = FAIL
    if outcome == FAIL and top.get("Return") is None:
        outcome = INFO
    return LineSteps(steps=(KeyStep(f, key, value, expected),), outcome=outcome, error=error)


def _error(answer: JsonObject) -> str | None:
    for name in ("Error", "Err"):
        found = answer.get(name)
        if found not in _GOOD:
            return text_of(found)
    return None
