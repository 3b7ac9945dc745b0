"""One operation on one key, and how it ended. Pure values and the rule that classes outcomes."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from zonequake_protocol.client import Value

TRANSACTION = "transaction"
"""The history's `f` of a transaction."""


class Function(StrEnum):
    """The function of an operation; the history's `f`."""

    READ = "read"
    WRITE = "write"
    CAS = "cas"
    APPEND = "append"


class Operation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`value`: what is written, None for a read. `expected`: what a cas must find, None: absent.

    `bounded`: a read from any replica's state, at most `max_staleness_ms` old (0: however old).
    """

    f: Function
    key: str
    value: int | str | None = None
    expected: int | str | None = None
    filler: bytes = b""
    bounded: bool = False
    max_staleness_ms: int = 0

    @property
    def steps(self) -> tuple[Operation, ...]:
        """The operation itself."""
        return (self,)


class TransactionOperation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Steps that are carried out together, in their order, or not at all; none is `bounded`.

    The partition of the first step's key decides.
    """

    steps: tuple[Operation, ...]

    @property
    def key(self) -> str:
        """The key that routes the transaction: its first step's."""
        return self.steps[0].key

    @property
    def f(self) -> str:
        """The history's `f`."""
        return TRANSACTION


class OnceId(msgspec.Struct, frozen=True, gc=False):
    """Names an operation across its attempts, so that the target applies it once.

    A client has one operation outstanding, and `sequence` grows with each.
    """

    client: str
    sequence: int


class Limits(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`deadline_ns` (monotonic) ends the operation, `attempt_ns` (a duration) each attempt.

    Without `retry` there is one attempt at most.
    """

    deadline_ns: int
    attempt_ns: int
    retry: bool


class Type(StrEnum):
    """The type of an event in the history; design §5.

    `fail`: every attempt certainly never happened. `info`: may take effect once, at any later
    time, or never.
    """

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The outcome of an operation; `value`, `applied` and the place in the order only if `ok`.

    `results`: of a transaction that was carried out, what each step read. One whose cas found
    another value, which is `value`, is `ok` and not `applied`: nothing of it is done.
    """

    type: Type
    attempts: int
    value: Value = None
    applied: bool | None = None
    node: str | None = None
    lineage: int | None = None
    term: int | None = None
    index: int | None = None
    results: list[Value] | None = None
    error: str | None = None


class AttemptOutcomes:
    """The attempts of one operation so far, and what they allow to say of it.

    One attempt that may have happened makes the whole operation `info`, whatever came after it:

        write x → time-out (still on its way) → retried: not_leader → given up.
        The first attempt may yet be applied; `fail` would let a checker call x a phantom.
    """

    def __init__(self) -> None:
        self.sent = 0
        self._uncertain: str | None = None
        self._last = "not attempted"

    @property
    def never_happened(self) -> bool:
        """Returns whether no attempt so far can have happened."""
        return self._uncertain is None

    def refused(self, why: str) -> None:
        """Records that the last attempt certainly never happened."""
        self._last = why

    def unsure(self, why: str) -> None:
        """Records that the last attempt may have happened, or may yet."""
        self._last = self._uncertain = why

    def conclude(self) -> Outcome:
        """Returns the outcome if no further attempt is made."""
        if self.never_happened:
            return Outcome(type=Type.FAIL, attempts=self.sent, error=self._last)
        error = self._uncertain
        if self._last != error:
            error = f"{error}; then {self._last}"
        return Outcome(type=Type.INFO, attempts=self.sent, error=error)
