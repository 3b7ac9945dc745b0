"""The applied cells of a running replica: in memory alone, or in front of the disk.

A durable replica's commands change its `Overlay` first; a flush takes what changed and has it
stored. A volatile replica's `MemoryCells` are all there is. Of either a `View` shows the state at
one applied index, for a snapshot or a dump.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import TypeVar

from zonequake_store.state.encoding import (
    APPLIED,
    CELL,
    CLIENT,
    TRANSACTION,
    EncodedPair,
    encode_session,
    encode_state,
)
from zonequake_store.state.partition import AppliedState, Cell, StateMachine, encode_cell
from zonequake_store.storage.data_store import DataStore, DataView, Flush

# The cost of a cell in the overlay beyond its value, for the flush limit.
_CELL_OVERHEAD_BYTES = 200

Value = TypeVar("Value")


class Overlay:
    """A durable replica's cells: what is not on disk yet in front of what is.

    Two layers, because a flush runs in another thread while commands go on:
    `_fresh` (since the flush began) before `_leaving` (in the flush) before the disk.
    """

    def __init__(self, store: DataStore, number: int) -> None:
        self._store = store
        self.number = number
        self._fresh: dict[str, Cell] = {}
        self._leaving: dict[str, Cell] = {}
        self.dirty_bytes = 0

    def get(self, key: str) -> Cell | None:
        """Returns the cell of `key`, or None."""
        cell = self._fresh.get(key)
        if cell is None:
            cell = self._leaving.get(key)
            if cell is None:
                cell = self._store.cell(self.number, key)
        return cell

    def put(self, key: str, cell: Cell) -> None:
        """Replace the cell of `key`."""
        self._fresh[key] = cell
        self.dirty_bytes += _CELL_OVERHEAD_BYTES + len(cell.filler)

    def begin_flush(self, partition: StateMachine) -> Flush:
        """Take what changed; `end_flush` must follow before the next one."""
        self._leaving, self._fresh = self._fresh, {}
        self.dirty_bytes = 0
        clients = partition.clients
        changed, ended = partition.transactions.take_changes()
        flush = Flush(
            number=self.number,
            state=partition.state,
            cells=self._leaving,
            # Encoded by the thread that stores them: hundreds of clients with hundreds of results
            # each would stall the loop.
            sessions={name: clients.sessions[name].copied() for name in clients.changed},
            evicted=frozenset(clients.evicted),
            transactions=changed,
            ended=ended,
        )
        clients.changed.clear()
        clients.evicted.clear()
        return flush

    def end_flush(self) -> None:
        """Ends a flush: the cells that it took are on disk."""
        self._leaving = {}


class MemoryCells:
    """A volatile replica's cells; gone with the process."""

    def __init__(self, cells: dict[str, Cell] | None = None) -> None:
        self._cells: dict[str, Cell] = {} if cells is None else cells

    def get(self, key: str) -> Cell | None:
        """Returns the cell of `key`, or None."""
        return self._cells.get(key)

    def put(self, key: str, cell: Cell) -> None:
        """Replace the cell of `key`."""
        self._cells[key] = cell

    def view(self, partition: StateMachine) -> MemoryView:
        """Returns a snapshot as of now."""
        sessions = [
            (CLIENT + name.encode(), encode_session(session))
            for name, session in partition.clients.sessions.items()
        ]
        transactions = partition.transactions.records()
        return MemoryView(dict(self._cells), sorted(sessions), transactions, partition.state)


class MemoryView:
    """A volatile replica's state as it was when the view was taken.

    `clients` and `transactions` are encoded already. Cells are encoded when they are read, which
    may be in a thread: only their dict ever changes.
    """

    def __init__(
        self,
        cells: dict[str, Cell],
        clients: list[EncodedPair],
        transactions: list[EncodedPair],
        state: AppliedState,
    ) -> None:
        self.state = state
        self._cells = cells
        self._before = [(APPLIED, encode_state(state)), *clients]
        self._order: list[tuple[bytes, str]] | None = None
        self._behind = [(TRANSACTION + name, raw) for name, raw in transactions]

    def pairs(self, after: bytes = b"") -> Iterator[EncodedPair]:
        """Yields all pairs after the key `after`, in key order."""
        if self._order is None:
            self._order = sorted((CELL + key.encode(), key) for key in self._cells)
        yield from _behind(self._before, after)
        for raw, key in _behind(self._order, after):
            yield raw, encode_cell(self._cells[key])
        yield from _behind(self._behind, after)

    def close(self) -> None:
        """Does nothing: there is no resource to release."""


def _behind(pairs: list[tuple[bytes, Value]], after: bytes) -> list[tuple[bytes, Value]]:
    return pairs[bisect_right(pairs, after, key=itemgetter(0)) :]


View = DataView | MemoryView
"""A replica's state at one applied index; its opener must close it."""
