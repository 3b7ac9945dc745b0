"""Entries of a Jepsen history → operations. Pure.

It reads the workloads `register` (read, write, cas; independent keys as `[k v]`, or none) and
`append` (transactions of `[:append k v]`, `[:r k [..]]`, and `[:w k v]`). Each invoke says whether
its value is a tuple, and its completion is read in the same way, so nothing is guessed for a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from zonequake_analysis.errors import ImportRefused
from zonequake_analysis.importing.edn import EdnEntry, Keyword, text_of, text_of_key
from zonequake_analysis.importing.operations import (
    FAIL,
    HINT_SPLIT,
    INFO,
    OK,
    Choices,
    ForeignEvent,
    ForeignOperation,
    Function,
    Notes,
)
from zonequake_analysis.inputs.transactions.line_rules import MOST_STEPS

_FUNCTIONS = {
    ":read": Function.READ,
    ":get": Function.READ,
    ":write": Function.WRITE,
    ":put": Function.WRITE,
    ":cas": Function.CAS,
    ":append": Function.APPEND,
}
_STEPS = {":r": Function.READ, ":w": Function.WRITE, ":append": Function.APPEND}
_OUTCOMES = {":ok": OK, ":fail": FAIL, ":info": INFO}
_ONE_KEY = "the-only-key"
_LONGEST_ERROR = 200


class _MicroOperation(NamedTuple):
    f: Function
    key: str
    value: object


@dataclass(frozen=True, slots=True)
class _Asked:
    f: Function
    key: str
    value: object = None
    expected: object = None


@dataclass(frozen=True, slots=True)
class _Begun:
    """An invoke that has no completion yet. `form`: how to read its completion's value."""

    number: int
    line: int
    time_ns: int
    asked: Sequence[_Asked]
    form: str  # plain, tuple or transaction
    name: object
    together: int = 1


def operations(
    entries: Iterable[EdnEntry], *, file: str, choices: Choices, notes: Notes
) -> Iterator[ForeignOperation]:
    """Yields each operation when it completes, and those without a completion at the end.

    Raises ImportRefused for an operation that can't be judged.
    """
    begun: dict[int | str, _Begun] = {}
    key_began_ns: dict[str, int] = {}
    timed: bool | None = None
    for number, entry in enumerate(entries):
        reader = _Reader(file, entry, choices)
        fields = reader.fields
        timed = reader.has_time() if timed is None else timed
        now = reader.time_ns() if timed else reader.place_as_time(number)
        process = fields.get(":process")
        if isinstance(process, Keyword):
            notes.said["entries of the nemesis became events"] += 1
            notes.events.append(_event(fields, now))
            continue
        if type(process) is not int:
            reader.refuse(":process", f"found {text_of(process)}, expected an integer or :nemesis")
        kind, open_one = fields.get(":type"), begun.get(process)
        if kind == ":invoke":
            if open_one is not None:
                reader.refuse(
                    ":process",
                    f"process {process} begins an operation while its own of line "
                    f"{open_one.line} is open; a process has one at a time",
                )
            form, asked = reader.asked()
            together = 1 if choices.split else len(asked)
            name = fields.get(":f")
            begun[process] = _Begun(number, entry.line, now, asked, form, name, together)
            for each in asked:
                key_began_ns[each.key] = min(now, key_began_ns.get(each.key, now))
            continue
        if not isinstance(kind, str) or kind not in _OUTCOMES:
            reader.refuse(":type", f"found {text_of(kind)}, expected :invoke, :ok, :fail or :info")
        if open_one is None:
            reader.refuse(":type", f"{kind} of process {process}, which has no open invoke")
        if fields.get(":f", open_one.name) != open_one.name:
            reader.refuse(
                ":f",
                f"found {text_of(fields.get(':f'))}, expected {text_of(open_one.name)} as the "
                f"invoke of line {open_one.line} says",
            )
        if now < open_one.time_ns:
            reader.refuse(
                ":time", f"found {now}, before the invoke of line {open_one.line}; clocks went back"
            )
        del begun[process]
        outcome = _OUTCOMES[kind]
        error = fields.get(":error")
        told = None if error is None else text_of(error)[:_LONGEST_ERROR]
        read = reader.answers(open_one) if outcome == OK else [None] * len(open_one.asked)
        yield from _told(file, process, open_one, outcome, now, read, told, key_began_ns)
    for process, open_one in begun.items():
        notes.said["operations have no completion and count as unknown"] += 1
        unread = [None] * len(open_one.asked)
        now = open_one.time_ns
        yield from _told(file, process, open_one, None, now, unread, None, key_began_ns)


def _told(
    file: str,
    process: int | str,
    begun: _Begun,
    outcome: str | None,
    now: int,
    read: Sequence[object],
    error: str | None,
    key_began_ns: Mapping[str, int],
) -> Iterator[ForeignOperation]:
    for step, (asked, found) in enumerate(zip(begun.asked, read, strict=True)):
        yield ForeignOperation(
            f=asked.f,
            process=process,
            number=begun.number,
            step=step,
            together=begun.together,
            file=file,
            line=begun.line,
            key=asked.key,
            value=found if asked.f is Function.READ else asked.value,
            expected=asked.expected,
            outcome=outcome,
            inv_ns=begun.time_ns,
            fin_ns=now,
            error=error,
            key_began_ns=key_began_ns[asked.key],
        )


def _event(fields: Mapping[object, object], now: int) -> ForeignEvent:
    told = {str(name).lstrip(":"): text_of(value) for name, value in fields.items()}
    return ForeignEvent(time_ns=now, data={k: v for k, v in told.items() if k != "time"})


class _Reader:
    """The reader of one entry; its errors name the entry's line."""

    __slots__ = ("_choices", "_file", "_line", "fields")

    def __init__(self, file: str, entry: EdnEntry, choices: Choices) -> None:
        self._file, self._line, self._choices = file, entry.line, choices
        if not isinstance(entry.value, dict):
            self.refuse(
                "",
                f"found {text_of(entry.value)[:60]}, expected an operation such as "
                "{:type :invoke, :process 0, :f :read, :value nil, :time 1}",
            )
        self.fields: Mapping[object, object] = entry.value

    def refuse(self, field: str, what: str) -> NoReturn:
        raise ImportRefused(self._file, self._line, field, what)

    def has_time(self) -> bool:
        return self.fields.get(":time") is not None

    def time_ns(self) -> int:
        time = self.fields.get(":time")
        if type(time) is not int or not 0 <= time < 2**63:
            self.refuse(":time", f"found {text_of(time)}, expected nanoseconds as in line 1")
        return time

    def place_as_time(self, number: int) -> int:
        if self.has_time():
            self.refuse(":time", "found a time, but earlier entries have none; give all or none")
        return number

    def asked(self) -> tuple[str, Sequence[_Asked]]:
        """Returns the form of an invoke's value, and the operations that it asks for."""
        name, value = self.fields.get(":f"), self.fields.get(":value")
        if name in (None, ":txn", ":append") and (steps := _transaction(value)) is not None:
            return "transaction", self._steps(steps)
        if name in (None, ":txn"):
            self.refuse(
                ":value",
                f"found {text_of(value)[:60]}, expected a transaction such as "
                "[[:append 1 2] [:r 1 nil]]",
            )
        f = _FUNCTIONS.get(str(name)) if isinstance(name, Keyword) else None
        if f is None:
            self.refuse(":f", f"found {text_of(name)}, expected one of {' '.join(_FUNCTIONS)} :txn")
        form, key, value = self._keyed(f, value)
        if f is Function.READ:
            return form, (_Asked(f, key),)  # Knossos fills in the value that will be read
        if f is not Function.CAS:
            return form, (_Asked(f, key, self._written(value)),)
        if not isinstance(value, list) or len(value) != 2:
            self.refuse(":value", f"found {text_of(value)[:60]}, expected [old new]")
        old = value[0]
        if isinstance(old, list | dict):
            self.refuse(":value", f"found {text_of(old)[:60]}, expected a scalar to be replaced")
        return form, (_Asked(f, key, self._written(value[1]), old),)

    def _keyed(self, f: Function, value: object) -> tuple[str, str, object]:
        """Returns the form, the key, and the value without the key."""
        if ":key" in self.fields:
            return "plain", text_of_key(self.fields[":key"]), value
        if isinstance(value, list) and len(value) == 2:
            key, rest = value
            if f is not Function.CAS or isinstance(rest, list):
                return "tuple", text_of_key(key), rest
        return "plain", _ONE_KEY, value

    def _written(self, value: object) -> object:
        if value is None:
            self.refuse(
                ":value",
                "found nil as what is written, which can't be told from a key that was never "
                "written; write another value for it",
            )
        if isinstance(value, list | dict):
            self.refuse(":value", f"found {text_of(value)[:60]}, expected a scalar to be written")
        return value

    def _steps(self, steps: Sequence[_MicroOperation]) -> Sequence[_Asked]:
        asked = [
            _Asked(f, key, None if f is Function.READ else self._written(value))
            for f, key, value in steps
        ]
        if len(asked) > 1 and not self._choices.split and (why := _why_not_together(asked)):
            self.refuse(":value", f"{why}; {HINT_SPLIT}")
        return asked

    def answers(self, begun: _Begun) -> Sequence[object]:
        """Returns what each operation of an acknowledged entry read; None for those that write."""
        value = self.fields.get(":value")
        if begun.form == "transaction":
            steps = _transaction(value) or ()
            if [step[:2] for step in steps] != [(each.f, each.key) for each in begun.asked]:
                self.refuse(
                    ":value",
                    f"found {text_of(value)[:60]}, expected the operations of the invoke of line "
                    f"{begun.line}",
                )
            return [step.value for step in steps]
        (asked,) = begun.asked
        if asked.f is not Function.READ:
            return (None,)
        if begun.form == "plain":
            return (value,)
        if not isinstance(value, list) or len(value) != 2 or text_of_key(value[0]) != asked.key:
            self.refuse(
                ":value", f"found {text_of(value)[:60]}, expected [{asked.key} what-was-read]"
            )
        return (value[1],)


def _why_not_together(asked: Sequence[_Asked]) -> str:
    """Returns why operations can't be steps of one line (docs/history.md); empty if they can."""
    if len(asked) > MOST_STEPS:
        return f"a transaction of {len(asked)} operations, expected at most {MOST_STEPS}"
    if any(each.f is Function.WRITE for each in asked):
        return "a transaction that writes a register, and transactions are judged over lists alone"
    (key, times), *_ = Counter(each.key for each in asked).most_common(1)
    if times > 1:
        return (
            f"key {key} is in {'two' if times == 2 else times} steps of a transaction, and is "
            "judged in one: what a transaction sees of its own appends isn't known here"
        )
    return ""


def _transaction(value: object) -> Sequence[_MicroOperation] | None:
    """Returns the operations of a transaction's value, None for any other value."""
    if not isinstance(value, list):
        return None
    found: list[_MicroOperation] = []
    for step in value:
        if not isinstance(step, list) or len(step) != 3 or not isinstance(step[0], Keyword):
            return None
        f = _STEPS.get(step[0])
        if f is None or isinstance(step[1], list | dict):
            return None
        found.append(_MicroOperation(f, text_of_key(step[1]), step[2]))
    return found
