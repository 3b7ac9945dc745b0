"""An operation as another tool wrote it down, and what was left out on the way. Pure data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

OK, FAIL, INFO = "ok", "fail", "info"
"""Outcomes, as a history line names them."""


class Function(StrEnum):
    """What an operation does, as a history line names it."""

    READ = "read"
    WRITE = "write"
    CAS = "cas"
    APPEND = "append"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignOperation:
    """One operation on one key. Its values are those of the file: scalars, and lists for reads.

    `outcome` is None, and `fin_ns` the same as `inv_ns`, where nothing tells how it ended. `number`
    names it in its process, `step` its place in a transaction. `index` is its place in the order
    that the store claims, if it claims one.
    """

    f: Function
    process: int | str
    number: int
    step: int = 0
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignEvent:
    """What a nemesis did, at a time of the history's clock."""

    time_ns: int
    data: dict[str, str]


@dataclass(slots=True, kw_only=True)
class Notes:
    """What a reader says beside the operations: events, and how many of what it left out."""

    left_out: Counter[str] = field(default_factory=Counter)
    said: Counter[str] = field(default_factory=Counter)
    events: list[ForeignEvent] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What a person allowed.

    `split`: judge the operations of a transaction one by one. `leave_out`: leave out keys with
    operations that can't be judged. `initial`: what each register holds before anything is written.
    """

    split: bool = False
    leave_out: bool = False
    initial: object = None


HINT_SPLIT = (
    "give --split-transactions to judge each operation by itself, though not that they are atomic"
)
HINT_LEAVE_OUT = "give --leave-out-keys to judge the other keys alone"
