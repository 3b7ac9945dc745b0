"""Operations of another tool → pairs of lines of our history (docs/history.md). Pure.

It ensures what our checks rely on: a key is a register or a list, a list gets no value appended
twice, and no process goes on after an operation without an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from zonequake_analysis.errors import ImportRefused
from zonequake_analysis.importing.edn import text_of
from zonequake_analysis.importing.operations import (
    FAIL,
    HINT_SPLIT,
    INFO,
    OK,
    Choices,
    ForeignOperation,
    Function,
    Notes,
)
from zonequake_analysis.importing.values import Values
from zonequake_analysis.inputs.transactions.line_rules import SCHEMA_VERSION

SCHEMA = 1
TRANSACTION = "transaction"
ZONE, CLOCK = "imported", "imported"
FIRST_OWN_PROCESS = 2**52
"""Numbers below it are the file's own process numbers; from here on they are ours."""

_TWICE = "registers were written one value twice: a search judges them"
_WENT_ON = "processes went on after an unknown outcome, under a number of ours"
_OF_TWO_FILES = "clients have the number of one in another file, and get a number of ours"


class StepOfLine(msgspec.Struct, frozen=True, gc=False):
    """A step of a transaction's line."""

    f: str
    key: str
    value: int | list[int] | None


class Line(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line, with the fields of the load's own writer in the same order."""

    schema: int = SCHEMA
    type: str
    f: str
    process: int
    op: str
    role: str = "load"
    zone: str = ZONE
    partition: int = 0
    key: str | None = None
    value: int | list[int] | None = None
    expected: int | None = None
    applied: bool | None = None
    found: int | None = None
    sched: int
    inv: int
    time: int
    wall: int
    clock: str = CLOCK
    node: str | None = None
    lineage: int | None = None
    term: int | None = None
    index: int | None = None
    read: str | None = None
    attempts: int | None = None
    error: str | None = None

    @property
    def parts(self) -> list[StepOfLine]:
        """The steps; of a single operation it is the only one."""
        return [StepOfLine(self.f, self.key or "", self.value)]


class LineOfSteps(Line, frozen=True, kw_only=True, gc=False):
    """The line of a transaction."""

    steps: list[StepOfLine]

    @property
    def parts(self) -> list[StepOfLine]:
        return self.steps


OperationLines = tuple[Line, Line | None]
"""An operation's invoke and its completion, None if it has none."""


class _Key:
    __slots__ = ("is_list", "line", "seen", "twice", "written")

    def __init__(self) -> None:
        self.is_list: bool | None = None
        self.line = 0
        self.written: dict[int, int] = {}
        self.twice = False
        self.seen = False


def pairs(
    operations: Iterable[ForeignOperation], *, choices: Choices, notes: Notes, values: Values
) -> Iterator[OperationLines]:
    """Yields the lines of each operation. Raises ImportRefused."""
    keys: dict[str, _Key] = {}
    processes = _Processes(notes)
    steps: list[ForeignOperation] = []
    for operation in operations:
        key = keys.setdefault(operation.key, _Key())
        _keep_kind(key, operation)
        if choices.initial is not None and not key.seen and not key.is_list:
            yield _initial(operation, processes, key, values.number_of(choices.initial))
        key.seen = True
        if operation.together > 1:
            steps.append(operation)
            if len(steps) == operation.together:
                yield _transaction(steps, processes, keys, values, notes)
                steps = []
            continue
        yield _pair(operation, processes, key, values, notes)


def _keep_kind(key: _Key, operation: ForeignOperation) -> None:
    """Raises ImportRefused if a key is used both as a register and as a list."""
    f, value = operation.f, operation.value
    if operation.together > 1:
        is_list = True
    elif f is Function.READ and not isinstance(value, list):
        if value is None or operation.outcome != OK:
            return
        is_list = False
    else:
        is_list = f is Function.APPEND or isinstance(value, list)
    if key.is_list is None:
        key.is_list, key.line = is_list, operation.line
    elif key.is_list != is_list:
        names = ("a register", "a list")
        raise ImportRefused(
            operation.file,
            operation.line,
            "",
            f"key {operation.key} is {names[is_list]} here and {names[key.is_list]} on line "
            f"{key.line}; lists are what is appended to and read as a list, registers hold a "
            "scalar",
        )


def _pair(
    operation: ForeignOperation, processes: _Processes, key: _Key, values: Values, notes: Notes
) -> OperationLines:
    f, outcome = operation.f, operation.outcome
    is_read = f is Function.READ
    number = _number(operation, values)
    if not is_read and outcome != FAIL and isinstance(number, int):
        _keep_unique(key, operation, number, notes)
    process = processes.number_of(operation)
    place = operation.index if outcome == OK else None
    invoke = Line(
        type="invoke",
        f=f.value,
        process=process,
        op=f"{process}-{operation.number}",
        key=operation.key,
        value=None if is_read else number,
        expected=None if operation.expected is None else values.number_of(operation.expected),
        sched=operation.inv_ns,
        inv=operation.inv_ns,
        time=operation.inv_ns,
        wall=operation.inv_ns,
        read="linearizable" if is_read else None,
    )
    if outcome is None:
        return invoke, None
    return invoke, msgspec.structs.replace(
        invoke,
        type=outcome,
        value=number,
        applied=True if f is Function.CAS and outcome == OK else None,
        time=operation.fin_ns,
        wall=operation.fin_ns,
        lineage=None if place is None else 0,
        term=None if place is None else 1,
        index=place,
        error=operation.error,
    )


def _transaction(
    steps: Sequence[ForeignOperation],
    processes: _Processes,
    keys: Mapping[str, _Key],
    values: Values,
    notes: Notes,
) -> OperationLines:
    """Returns the lines of operations over lists that are done together or not at all."""
    first = steps[0]
    done: list[StepOfLine] = []
    for one in steps:
        number = _number(one, values)
        if one.f is Function.READ and isinstance(number, int):
            raise ImportRefused(
                one.file,
                one.line,
                "value",
                f"found {text_of(one.value)[:60]} as what was read in a transaction, expected a "
                f"list: transactions are judged over lists alone; {HINT_SPLIT}",
            )
        if isinstance(number, int) and one.outcome != FAIL:
            _keep_unique(keys[one.key], one, number, notes)
        if one.f is Function.READ:
            number = number or None  # an empty list, as the load writes it
        done.append(StepOfLine(one.f.value, one.key, number))
    asked = [StepOfLine(s.f, s.key, None if s.f == Function.READ else s.value) for s in done]
    process = processes.number_of(first)
    invoke = LineOfSteps(
        schema=SCHEMA_VERSION,
        type="invoke",
        f=TRANSACTION,
        process=process,
        op=f"{process}-{first.number}",
        sched=first.inv_ns,
        inv=first.inv_ns,
        time=first.inv_ns,
        wall=first.inv_ns,
        steps=asked,
    )
    if first.outcome is None:
        return invoke, None
    return invoke, msgspec.structs.replace(
        invoke,
        type=first.outcome,
        time=first.fin_ns,
        wall=first.fin_ns,
        error=first.error,
        steps=done,
    )


def _number(operation: ForeignOperation, values: Values) -> int | list[int] | None:
    value = operation.value
    if value is None or (operation.f is Function.READ and operation.outcome != OK):
        return None
    if not isinstance(value, list):
        if isinstance(value, dict):
            raise _no_scalar(operation, value)
        return values.number_of(value)
    for element in value:
        if isinstance(element, list | dict):
            raise _no_scalar(operation, element)
    return [values.number_of(element) for element in value]


def _no_scalar(operation: ForeignOperation, value: object) -> ImportRefused:
    return ImportRefused(
        operation.file,
        operation.line,
        "value",
        f"found {text_of(value)[:60]}, expected a scalar, or a list of scalars that was read",
    )


def _keep_unique(key: _Key, operation: ForeignOperation, number: int, notes: Notes) -> None:
    """Counts registers to which one value was written twice; refuses such a value for lists."""
    first = key.written.get(number)
    if first is None:
        key.written[number] = operation.line
        return
    if key.is_list:
        raise ImportRefused(
            operation.file,
            operation.line,
            "value",
            f"{text_of(operation.value)} is appended to key {operation.key} a second time, first "
            f"on line {first}; lists are judged by unique elements: append another one each time",
        )
    if not key.twice:
        key.twice = True
        notes.said[_TWICE] += 1


def _initial(
    operation: ForeignOperation, processes: _Processes, key: _Key, number: int
) -> OperationLines:
    """Writes the initial value of a register, just before the first operation on it begins.

    If it were concurrent with that one, it could take the value of a lost write.
    """
    key.written[number] = 0
    process = processes.fresh()
    first_ns = operation.inv_ns if operation.key_began_ns is None else operation.key_began_ns
    invoke = Line(
        type="invoke",
        f=Function.WRITE.value,
        process=process,
        op=f"{process}-0",
        key=operation.key,
        value=number,
        sched=first_ns - 2,
        inv=first_ns - 2,
        time=first_ns - 2,
        wall=first_ns - 2,
    )
    ended = first_ns - 1
    return invoke, msgspec.structs.replace(invoke, type=OK, time=ended, wall=ended)


class _Processes:
    """The number of each process: the file's own, unless it goes on after an unknown outcome, or
    another file has a process of that number: they are two, each with an order of its own.
    """

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._numbers: dict[tuple[str, int | str, int], int] = {}
        self._retired: set[tuple[str, int | str, int]] = set()
        self._file_of: dict[int, str] = {}
        self._next = FIRST_OWN_PROCESS

    def fresh(self) -> int:
        self._next += 1
        return self._next - 1

    def number_of(self, operation: ForeignOperation) -> int:
        name = operation.process
        process = (operation.file, name, operation.step)
        number = self._numbers.get(process)
        if process in self._retired:
            self._retired.remove(process)
            self._notes.said[_WENT_ON] += 1
            number = None
        elif number is None and not operation.step and isinstance(name, int):
            number = self._own(name, operation.file)
        if number is None:
            number = self.fresh()
        self._numbers[process] = number
        if operation.outcome in (INFO, None):
            self._retired.add(process)
        return number

    def _own(self, name: int, file: str) -> int | None:
        """Returns the file's own number of a process that is new; None if it can't be used."""
        if not 0 <= name < FIRST_OWN_PROCESS:
            return None
        if self._file_of.setdefault(name, file) == file:
            return name
        self._notes.said[_OF_TWO_FILES] += 1
        return None
