"""An operation as another tool recorded it, and what the import left out. Pure data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

OK, FAIL, INFO = "ok", "fail", "info"
"""Outcomes, as a history line names them."""


class Function(StrEnum):
    """The kind of an operation, as a history line names it."""

    READ = "read"
    WRITE = "write"
    CAS = "cas"
    APPEND = "append"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignOperation:
    """One operation on one key. Its values are those of the file: scalars, and lists for reads.

    `outcome` is None, and `fin_ns` the same as `inv_ns`, if the file doesn't say how it ended.
    `number` names it in its process, `step` is its place in a transaction, and `together` of how
    many operations, which are yielded in a row; 1 if it is judged by itself. `index` is its place
    in the order that the store claims, if it claims one. `key_began_ns`: when the first operation
    on its key began, if another one than the first that is yielded.
    """

    f: Function
    process: int | str
    number: int
    step: int = 0
    together: int = 1
    file: str
    line: int
    key: str
    value: object = None
    expected: object = None
    outcome: str | None
    inv_ns: int
    fin_ns: int
    error: str | None = None
    index: int | None = None
    key_began_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignEvent:
    """An action of a nemesis, at a time of the history's clock."""

    time_ns: int
    data: dict[str, str]


@dataclass(slots=True, kw_only=True)
class Notes:
    """A reader's notes besides the operations: events, and how many of each kind it left out."""

    left_out: Counter[str] = field(default_factory=Counter)
    said: Counter[str] = field(default_factory=Counter)
    events: list[ForeignEvent] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The choices of the person who imports.

    `split`: judge the operations of a transaction one by one. `leave_out`: leave out keys with
    operations that can't be judged. `initial`: the value of each register before the first write.
    `began_ns`: the time of day, unix ns, at which the file's times are 0; 0: they are unix time, or
    say no time of day.
    """

    split: bool = False
    leave_out: bool = False
    initial: object = None
    began_ns: int = 0


HINT_SPLIT = (
    "give --split-transactions to judge each operation by itself, though not that they are atomic"
)
HINT_LEAVE_OUT = "give --leave-out-keys to judge the other keys alone"
