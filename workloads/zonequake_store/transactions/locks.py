"""Exclusive locks on keys, with a queue of transactions that wait to prepare. Pure.

Volatile, and only for order and fairness: what makes two transactions exclude each other is the
partition's applied state, where a Prepare finds the keys of what is prepared locked. This table
lets a transaction wait for them rather than fail.

All keys of a transaction in a partition are locked at once or not at all, in the order of arrival,
so that within a partition no two transactions wait for each other. Across partitions they may:

    tx 1 holds a in partition 0, waits for b in partition 1
    tx 2 holds b in partition 1, waits for a in partition 0

That ends by time-out: a wait for a transaction with a lower id ends after WAIT_TICKS, one for a
transaction with a higher id after twice as long. So of two that wait for each other the one with
the higher id gives up, and the other goes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zonequake_store.state.transactions import TransactionId

WAIT_TICKS = 5
"""Ticks of 100 ms: longer than a transaction without trouble holds its locks."""


@dataclass(slots=True)
class _Waiting:
    keys: frozenset[str]
    ticks: int = 0


class LockTable:
    """The locks of one partition, at its leader."""

    def __init__(self) -> None:
        self._holders: dict[str, TransactionId] = {}
        self._held: dict[TransactionId, frozenset[str]] = {}
        self._waiting: dict[TransactionId, _Waiting] = {}  # in the order of arrival

    def __len__(self) -> int:
        return len(self._held) + len(self._waiting)

    @property
    def is_waited_for(self) -> bool:
        """Returns whether a transaction waits."""
        return bool(self._waiting)

    def request(self, transaction: TransactionId, keys: Iterable[str]) -> bool:
        """Lock these keys; False: it waits, until a `release` names it."""
        self._waiting[transaction] = _Waiting(frozenset(keys))
        return transaction in self._grant()

    def is_waiting(self, transaction: TransactionId) -> bool:
        """Returns whether it waits for its locks."""
        return transaction in self._waiting

    def hold(self, transaction: TransactionId, keys: Iterable[str]) -> None:
        """Locks these keys, even if others wait: the partition's state has them locked."""
        self._waiting.pop(transaction, None)
        self._held[transaction] = frozenset(keys)
        for key in self._held[transaction]:
            self._holders[key] = transaction

    def release(self, transaction: TransactionId) -> list[TransactionId]:
        """Releases the locks of a transaction that ended or gives up; returns the transactions that
        now hold them.
        """
        self._waiting.pop(transaction, None)
        for key in self._held.pop(transaction, ()):
            if self._holders.get(key) == transaction:
                del self._holders[key]
        return self._grant()

    def tick(self) -> list[tuple[TransactionId, TransactionId]]:
        """Counts a tick; returns the transactions whose wait is over, each with the one that it
        waited for.

        They must be released.
        """
        over: list[tuple[TransactionId, TransactionId]] = []
        claimed: dict[str, TransactionId] = {}
        for transaction, waiting in self._waiting.items():
            waiting.ticks += 1
            for key in sorted(waiting.keys):
                before = self._holders.get(key) or claimed.get(key)
                if before is not None:
                    patience = WAIT_TICKS if before < transaction else 2 * WAIT_TICKS
                    if waiting.ticks >= patience:
                        over.append((transaction, before))
                    break
            for key in waiting.keys:
                claimed.setdefault(key, transaction)
        return over

    def _grant(self) -> list[TransactionId]:
        """Gives free keys to waiting transactions, but not past an earlier one for the same key."""
        granted: list[TransactionId] = []
        claimed: set[str] = set()
        for transaction, waiting in self._waiting.items():
            if claimed.isdisjoint(waiting.keys) and self._holders.keys().isdisjoint(waiting.keys):
                granted.append(transaction)
                self._held[transaction] = waiting.keys
                for key in waiting.keys:
                    self._holders[key] = transaction
            else:
                claimed |= waiting.keys
        for transaction in granted:
            del self._waiting[transaction]
        return granted
