"""Transactions as a partition's applied state: prepared parts, locks, decisions. Pure values.

A transaction touches keys of one or several partitions. The partition of its first key is the
coordinator's: its log holds the decision. All of what follows are log entries:

    coordinator's partition      Prepare ─► Decide ───────────────────► Forget
    each other partition         Prepare ────────► Commit (or Rollback)

- **Prepare** locks the part's keys, judges its steps, and reserves counters for what it writes.
- **Decide** is the commit, written only when every part is prepared; it commits the coordinator's
  own part at once. There is no entry for an abort: a transaction without a decision can commit only
  by a Decide of the very leader that began it, in that leader's term (`TransactionId.term`). So as
  soon as an entry of a later term is applied in the coordinator's partition, or the leader itself
  has given the transaction up, what has no decision is aborted forever.
- **Refuse** is written instead of Decide when a cas found another value: the request keeps
  that answer. A transaction that ends otherwise may be tried again, and leaves no entry.
- **Commit** and **Rollback** end a part: the counters are applied, or closed as a gap.
- **Forget** removes a decision when every part's Commit is applied; only then no participant
  asks again.

**Late prepares.** A Prepare that was delayed or doubled may come when its part has ended. It must
not be prepared again: a second Commit would apply it twice. So each partition remembers what has
ended, per coordinator, until that says that nothing below a number is still being prepared: each
Prepare carries that number (`floor`). Below the floor, and in older terms, no Prepare is taken.

    Prepare 5 (floor 5) · Rollback 5 · Prepare 5 ──► LATE    (5 is among the ended)
    Prepare 8 (floor 7) · Prepare 5 (floor 5)    ──► LATE    (5 < 7; the ended below 7 are dropped)
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from zonequake_protocol.client import RequestId

MAX_PREPARED = 1024
"""Prepared parts in one partition. A further one is refused: they hold locks and memory."""

_PREPARED, _DECISION, _HORIZON = b"p", b"d", b"h"
_NUMBERS = struct.Struct(">QQ")

ReadValue = int | str | tuple[int, ...] | None


class TransactionId(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Names a transaction: the `number`-th that the leader of `term` in the coordinator's group
    began. (A term belongs to one lineage.) A retry of a client's request is another transaction;
    its `request_id` makes it once."""

    group: str
    term: int
    number: int

    def __str__(self) -> str:
        return f"{self.group}/{self.term}/{self.number}"


class StepKind(enum.IntEnum):
    """The effect of a transaction's step on its key."""

    READ = 0
    WRITE = 1
    CAS = 2
    APPEND = 3


class TransactionStep(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One step. A cas that finds something else than `expected` aborts the transaction."""

    kind: StepKind
    key: str
    value: int | str | None = None
    expected: int | str | None = None
    filler: bytes = b""


class ParticipantGroup(msgspec.Struct, frozen=True, array_like=True):
    """A group that takes part, and the nodes of its replicas as last reported."""

    group: str
    nodes: tuple[str, ...]


class PrepareCommand(msgspec.Struct, frozen=True, array_like=True, tag="p"):
    """Prepare this partition's part. `nodes`: of the coordinator's group; `floor`: see above."""

    transaction: TransactionId
    floor: int
    nodes: tuple[str, ...]
    steps: tuple[TransactionStep, ...]


class DecideCommand(msgspec.Struct, frozen=True, array_like=True, tag="d"):
    """The commit, in the coordinator's partition. `others`: all groups but this one.

    `results`: the answer to the client, in the order of its steps.
    """

    transaction: TransactionId
    request_id: RequestId
    others: tuple[ParticipantGroup, ...]
    results: tuple[ReadValue, ...]


class RefuseCommand(msgspec.Struct, frozen=True, array_like=True, tag="r"):
    """The transaction is given up because a cas found `found`, in the coordinator's partition.

    It is an entry, though it changes no key: an earlier attempt of the same request may be decided,
    and its own write be what the cas found. The client's final answer is therefore in the log.
    """

    transaction: TransactionId
    request_id: RequestId
    found: ReadValue


class CommitCommand(msgspec.Struct, frozen=True, array_like=True, tag="m"):
    """Apply a prepared part."""

    transaction: TransactionId


class RollbackCommand(msgspec.Struct, frozen=True, array_like=True, tag="b"):
    """Give a part up, prepared or not; a Prepare that comes after it is late."""

    transaction: TransactionId


class ForgetCommand(msgspec.Struct, frozen=True, array_like=True, tag="f"):
    """The removal of decisions whose parts are all committed: no participant will ask again."""

    transactions: tuple[TransactionId, ...]


TransactionCommand = (
    PrepareCommand | DecideCommand | RefuseCommand | CommitCommand | RollbackCommand | ForgetCommand
)


class Prepared(msgspec.Struct, frozen=True, array_like=True):
    """A part that waits for its decision; `start` and `delta` are its reserved counters."""

    transaction: TransactionId
    nodes: tuple[str, ...]
    steps: tuple[TransactionStep, ...]
    start: int
    delta: int
    index: int


class Decision(msgspec.Struct, frozen=True, array_like=True):
    """A commit that some other partition may not have applied yet."""

    transaction: TransactionId
    others: tuple[ParticipantGroup, ...]


class Horizon(msgspec.Struct, frozen=True, array_like=True):
    """The transactions of one coordinator that can still be prepared here: those of at least this
    term, in this term from `floor` on, but not those that `ended`.
    """

    group: str
    term: int = 0
    floor: int = 0
    ended: frozenset[int] = frozenset()


class Lock(NamedTuple):
    """The holder of a key's lock, and whether it will write the key."""

    holder: TransactionId
    writes: bool


_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode_prepared = msgspec.msgpack.Decoder(Prepared).decode
_decode_decision = msgspec.msgpack.Decoder(Decision).decode
_decode_horizon = msgspec.msgpack.Decoder(Horizon).decode


class TransactionTable:
    """A partition's transactions, read back from their stored records.

    `changed` and `gone` are the records to store and to delete since the last `take_changes`.
    """

    def __init__(self, records: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self.prepared: dict[TransactionId, Prepared] = {}
        self.decisions: dict[TransactionId, Decision] = {}
        self.locks: dict[str, Lock] = {}
        self._horizons: dict[str, Horizon] = {}
        self._changed: set[bytes] = set()
        for key, value in records:
            kind = key[:1]
            if kind == _PREPARED:
                part = _decode_prepared(value)
                self.prepared[part.transaction] = part
                self._lock(part)
            elif kind == _DECISION:
                decision = _decode_decision(value)
                self.decisions[decision.transaction] = decision
            else:
                horizon = _decode_horizon(value)
                self._horizons[horizon.group] = horizon

    # ── what holds ───────────────────────────────────────────────────────────────────────────

    def holder(self, keys: Iterable[str], other_than: TransactionId) -> Lock | None:
        """Returns a lock of another transaction on one of these keys."""
        for key in keys:
            lock = self.locks.get(key)
            if lock is not None and lock.holder != other_than:
                return lock
        return None

    def is_late(self, transaction: TransactionId) -> bool:
        """Returns whether this part has ended here, or its coordinator no longer prepares it."""
        horizon = self._horizons.get(transaction.group)
        if horizon is None:
            return False
        if transaction.term != horizon.term:
            return transaction.term < horizon.term
        return transaction.number < horizon.floor or transaction.number in horizon.ended

    def has_ended(self, transaction: TransactionId) -> bool:
        """Returns whether this part is known to be committed or rolled back; False: perhaps."""
        horizon = self._horizons.get(transaction.group)
        return (
            horizon is not None
            and horizon.term == transaction.term
            and transaction.number in horizon.ended
        )

    # ── what changes ─────────────────────────────────────────────────────────────────────────

    def raise_floor(self, transaction: TransactionId, floor: int) -> None:
        """Records that the coordinator prepares nothing below `floor`, and nothing of an earlier
        term.
        """
        self._reach(transaction, floor, None)

    def prepare(self, part: Prepared) -> None:
        """Records that a part waits for its decision from now on, and holds its keys."""
        self.prepared[part.transaction] = part
        self._lock(part)
        self._changed.add(_PREPARED + _name(part.transaction))

    def end(self, transaction: TransactionId) -> Prepared | None:
        """Ends a part that is committed or rolled back: its locks go. Returns it if it was
        prepared.
        """
        self._reach(transaction, 0, transaction.number)
        part = self.prepared.pop(transaction, None)
        if part is not None:
            for step in part.steps:
                self.locks.pop(step.key, None)
            self._changed.add(_PREPARED + _name(transaction))
        return part

    def decide(self, decision: Decision) -> None:
        """Remember a commit until `forget`."""
        self.decisions[decision.transaction] = decision
        self._changed.add(_DECISION + _name(decision.transaction))

    def forget(self, transaction: TransactionId) -> None:
        """Removes this decision: no participant asks for it any more."""
        if self.decisions.pop(transaction, None) is not None:
            self._changed.add(_DECISION + _name(transaction))

    def _lock(self, part: Prepared) -> None:
        written = keys_written(part.steps)
        for step in part.steps:
            self.locks[step.key] = Lock(part.transaction, step.key in written)

    def _reach(self, transaction: TransactionId, floor: int, ended: int | None) -> None:
        group = transaction.group
        old = self._horizons.get(group) or Horizon(group)
        if transaction.term < old.term:
            return  # all of it is late already
        if transaction.term > old.term:
            old = Horizon(group, transaction.term)
        floor = max(floor, old.floor)
        numbers = old.ended if ended is None else old.ended | {ended}
        new = Horizon(
            group,
            transaction.term,
            floor,
            frozenset(number for number in numbers if number >= floor),
        )
        if new != self._horizons.get(group):
            self._horizons[group] = new
            self._changed.add(_HORIZON + group.encode())

    # ── storing ──────────────────────────────────────────────────────────────────────────────

    def records(self) -> list[tuple[bytes, bytes]]:
        """All of it, in key order."""
        found = [_PREPARED + _name(transaction) for transaction in self.prepared]
        found += [_DECISION + _name(transaction) for transaction in self.decisions]
        found += [_HORIZON + group.encode() for group in self._horizons]
        return self._encoded(set(found))[0]

    def take_changes(self) -> tuple[list[tuple[bytes, bytes]], list[bytes]]:
        """Records to store and to delete since this was asked last."""
        changed, self._changed = self._changed, set()
        return self._encoded(changed)

    def _encoded(self, keys: set[bytes]) -> tuple[list[tuple[bytes, bytes]], list[bytes]]:
        if not keys:
            return [], []
        known: dict[bytes, Prepared | Decision | Horizon] = {}
        known |= {_PREPARED + _name(t): part for t, part in self.prepared.items()}
        known |= {_DECISION + _name(t): decision for t, decision in self.decisions.items()}
        known |= {_HORIZON + group.encode(): each for group, each in self._horizons.items()}
        stored = [(key, _encode(known[key])) for key in sorted(keys) if key in known]
        return stored, sorted(keys - known.keys())


def keys_written(steps: Iterable[TransactionStep]) -> set[str]:
    """Returns the keys that these steps write: each takes one number of the update counter."""
    return {step.key for step in steps if step.kind is not StepKind.READ}


def _name(transaction: TransactionId) -> bytes:
    numbers = _NUMBERS.pack(transaction.term, transaction.number)
    return transaction.group.encode() + b"\0" + numbers
