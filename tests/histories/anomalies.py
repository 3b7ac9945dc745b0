"""Faults to plant into histories: each a few operations on a key of its own, and what names it.

Times begin at `at_ns`; places in the claimed order are as an honest store would state them, except
where the fault is the store's claim. Keys are in partition 0, between the entries that `synthesize`
gives out, so that a plant doesn't disturb the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.histories.synthesize import SyntheticOperation
from zonequake_analysis.inputs.shapes import Function, RoleCode

MS = 1_000_000
_FIRST_PROCESS = 5 * 10**9
_FIRST_INDEX = 2 * 10**9
_FIRST_VALUE = 4 * 10**15


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """A planted fault: operations, and the (check, kind) pairs that must be found for its key."""

    name: str
    operations: tuple[SyntheticOperation, ...]
    expected: frozenset[tuple[str, str]]


class _Key:
    """Builds the operations of one key, one after another, each 1 ms long and 1 ms apart."""

    def __init__(self, name: str, number: int, at_ns: int) -> None:
        self.name = name
        self._number = number
        self._now = at_ns
        self._index = _FIRST_INDEX + number * 1000
        self._process = _FIRST_PROCESS + number * 100
        self.operations: list[SyntheticOperation] = []

    def value(self, number: int) -> int:
        """The number-th value of this key."""
        return _FIRST_VALUE + self._number * 100 + number

    def add(
        self, f: Function, value: int | list[int] | None, at: int, **changes: object
    ) -> SyntheticOperation:
        """Adds an operation at place `at`, by a process of its own."""
        operation = SyntheticOperation(
            f=f,
            key=self.name,
            partition=0,
            process=self._process,
            inv_ns=self._now,
            fin_ns=self._now + MS,
            value=value,
            index=self._index + at,
        )
        operation = replace(operation, **changes)  # type: ignore[arg-type]
        self.operations.append(operation)
        self._now += 2 * MS
        self._process += 1
        return operation

    def write(self, number: int, at: int, **changes: object) -> SyntheticOperation:
        """A write of the number-th value."""
        return self.add(Function.WRITE, self.value(number), at, **changes)

    def append(self, number: int, at: int, **changes: object) -> SyntheticOperation:
        """An append of the number-th value."""
        return self.add(Function.APPEND, self.value(number), at, **changes)

    def read(self, number: int | None, at: int, **changes: object) -> SyntheticOperation:
        """A read that returns the number-th value, or nothing."""
        shown = None if number is None else self.value(number)
        return self.add(Function.READ, shown, at, **changes)

    def read_list(self, numbers: list[int], at: int, **changes: object) -> SyntheticOperation:
        """A read that returns these elements."""
        return self.add(Function.READ, [self.value(n) for n in numbers], at, **changes)

    def cas(self, expected: int, number: int, at: int, **changes: object) -> SyntheticOperation:
        """An applied cas from one value to another."""
        return self.add(
            Function.CAS,
            self.value(number),
            at,
            **{"expected": self.value(expected), "applied": True, **changes},
        )


def _lost(k: _Key) -> None:
    k.write(1, 1)
    k.write(2, 2)
    k.read(1, 3, term=2, role=RoleCode.FINAL)


def _lost_element(k: _Key) -> None:
    k.append(1, 1)
    k.append(2, 2)
    k.read_list([1], 3, term=2, role=RoleCode.FINAL)


def _stale(k: _Key) -> None:
    k.write(1, 1)
    k.write(2, 2)
    k.read(1, 1, node="zq-default-1")
    k.read(2, 2, role=RoleCode.FINAL)


def _stale_though_seen(k: _Key) -> None:
    k.write(1, 1)
    k.write(2, 2)
    k.read(2, 2)
    k.read(1, 1, node="zq-default-1")
    k.read(2, 2, role=RoleCode.FINAL)


def _flicker(k: _Key) -> None:
    k.write(1, 1)
    k.write(2, 2, type="info", index=None)
    k.read(2, 2)
    k.read(1, 1)
    k.read(2, 2, role=RoleCode.FINAL)


def _phantom(k: _Key) -> None:
    k.write(1, 1)
    k.read(9, 2, role=RoleCode.FINAL)


def _aborted(k: _Key) -> None:
    k.write(1, 1, type="fail", index=None)
    k.read(1, 2, role=RoleCode.FINAL)


def _duplicate_element(k: _Key) -> None:
    k.append(1, 1)
    k.append(2, 2)
    k.read_list([1, 2, 1], 3, role=RoleCode.FINAL)


def _retry_applied_twice(k: _Key) -> None:
    """An append without an answer stands twice in a list."""
    k.add(Function.APPEND, k.value(1), 0, type="info", index=None)
    k.append(2, 10)
    k.read_list([2, 1, 1], 20)


def _applied_twice(k: _Key) -> None:
    slow = k.write(1, 5)
    k.operations[-1] = replace(slow, fin_ns=slow.fin_ns + 8 * MS)
    k.read(1, 1)
    k.write(2, 2)
    k.read(1, 6, role=RoleCode.FINAL)


def _applied_twice_by_two_members(k: _Key) -> None:
    """One member shows a value before the place at which another acknowledged it."""
    slow = k.append(1, 5)
    k.operations[-1] = replace(slow, fin_ns=slow.fin_ns + 4 * MS)
    k.read_list([1], 3, node="zq-default-1")
    k.read_list([1], 6, role=RoleCode.FINAL)


def _diverged_list(k: _Key) -> None:
    """A member lacks an acknowledged append, though its answer's place lies behind it."""
    k.append(1, 1)
    k.append(2, 2)
    k.read_list([1], 3, node="zq-default-1")
    k.read_list([1, 2], 4, role=RoleCode.FINAL)


def _diverged_register(k: _Key) -> None:
    """Two members show two values at one place."""
    k.write(1, 1)
    k.write(2, 2)
    k.read(1, 3, node="zq-default-1")
    k.read(2, 3, role=RoleCode.FINAL)


def _cas_fork(k: _Key) -> None:
    k.write(1, 1)
    k.cas(1, 2, 2)
    k.cas(1, 3, 3)
    k.read(3, 4, role=RoleCode.FINAL)


def _false_claim(k: _Key) -> None:
    k.write(1, 7)
    k.write(2, 3)
    k.read(2, 8, role=RoleCode.FINAL)


def _reordered(k: _Key) -> None:
    k.append(1, 1)
    k.append(2, 2)
    k.read_list([2, 1], 3)
    k.read_list([1, 2], 4, role=RoleCode.FINAL)


def _back_in_session(k: _Key) -> None:
    first = k.write(1, 5)
    k.read(1, 2, process=first.process, sequence=1)
    k.read(1, 6, role=RoleCode.FINAL)


def _back_over_two_keys(k: _Key) -> None:
    """A process' answer lies before the one that it had got at another key."""
    other = f"{k.name}-reached-before"
    first = k.write(1, 5, key=other)
    k.write(2, 2, process=first.process, sequence=1)
    k.read(1, 6, key=other, role=RoleCode.FINAL)
    k.read(2, 7, role=RoleCode.FINAL)


def _wrong_refusal(k: _Key) -> None:
    k.write(1, 1)
    k.cas(1, 2, 2, applied=False, found=k.value(1))
    k.read(1, 3, role=RoleCode.FINAL)


def _entry_twice(k: _Key) -> None:
    k.write(1, 1)
    k.write(2, 1)
    k.read(2, 2, role=RoleCode.FINAL)


_PLANTS: dict[str, tuple[Callable[[_Key], None], frozenset[tuple[str, str]]]] = {
    "lost": (_lost, frozenset({("loss", "lost"), ("black-box", "stale")})),
    "lost-element": (_lost_element, frozenset({("loss", "lost"), ("black-box", "stale")})),
    "stale": (_stale, frozenset({("loss", "stale"), ("claimed-order", "order")})),
    "stale-though-seen": (
        _stale_though_seen,
        frozenset({("loss", "stale"), ("black-box", "stale"), ("claimed-order", "order")}),
    ),
    "flicker": (_flicker, frozenset({("loss", "flicker"), ("black-box", "stale")})),
    "phantom": (_phantom, frozenset({("sets", "phantom"), ("black-box", "phantom")})),
    "aborted": (_aborted, frozenset({("sets", "aborted"), ("black-box", "phantom")})),
    "duplicate": (
        _duplicate_element,
        frozenset({("sets", "duplicate"), ("black-box", "element-twice")}),
    ),
    "retry-applied-twice": (
        _retry_applied_twice,
        frozenset(
            {("sets", "duplicate"), ("black-box", "element-twice"), ("claimed-order", "list")}
        ),
    ),
    "applied-twice": (_applied_twice, frozenset({("sets", "applied-twice")})),
    "two-places": (_applied_twice_by_two_members, frozenset({("sets", "two-places")})),
    "diverged-list": (
        _diverged_list,
        frozenset({("diverged", "diverged"), ("loss", "stale"), ("black-box", "stale")}),
    ),
    "diverged-register": (
        _diverged_register,
        frozenset({("diverged", "diverged"), ("loss", "stale"), ("claimed-order", "value")}),
    ),
    "cas-fork": (
        _cas_fork,
        frozenset({("black-box", "cas-fork"), ("claimed-order", "precondition")}),
    ),
    "false-claim": (_false_claim, frozenset({("claimed-order", "order")})),
    "reordered": (_reordered, frozenset({("black-box", "not-prefix"), ("claimed-order", "list")})),
    "session": (_back_in_session, frozenset({("loss", "session")})),
    "session-of-two-keys": (_back_over_two_keys, frozenset({("loss", "session")})),
    "wrong-refusal": (_wrong_refusal, frozenset({("sets", "wrong-refusal")})),
    "entry-twice": (_entry_twice, frozenset({("claimed-order", "entry-twice")})),
}

NAMES = tuple(_PLANTS)
"""Every anomaly that can be planted."""


def plant(name: str, at_ns: int) -> Anomaly:
    """The anomaly `name`, beginning at `at_ns` (monotonic)."""
    build, expected = _PLANTS[name]
    key = _Key(f"planted-{name}", NAMES.index(name), at_ns)
    build(key)
    return Anomaly(name=name, operations=tuple(key.operations), expected=expected)
