"""The applied state of all replicas of a node, in one LMDB environment.

    number b"a"            AppliedState
    number b"c" client     Session
    number b"k" key        Cell
    number b"t" name       Prepared, Decision or Horizon
    0      group           Staging: which number holds how much of a snapshot on its way in

Applied commands change a replica's cells in memory first (`Overlay`); about once a second, what
changed goes to disk in **one** transaction with the applied index, the update counter, the client
table and the transactions. After a
crash the state is therefore exactly that after some entry, and the log, which is never compacted
beyond that entry, brings the rest. Commits are synced: a power loss costs a second of replay, not
the environment. (An unsynced environment would save nothing at one commit a second.)

Every value is sealed with a CRC-32 (`checksums`); what is read is checked first, and a reader
who finds damage breaks the replica (StateCorrupt).

A snapshot is a read transaction: it sees the state of one applied index while writes go on.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

import lmdb
import msgspec

from zonequake_store.catchup.messages import Staging
from zonequake_store.checksums import content, seal, seal_damage
from zonequake_store.client_table import ClientTable, Session
from zonequake_store.errors import StateCorrupt
from zonequake_store.lmdb_files import (
    UNREADABLE,
    live_bytes,
    open_environment,
    used_bytes,
    writing,
)
from zonequake_store.partition import AppliedState, Cell, Partition, decode_cell, encode_cell
from zonequake_store.transactions import TransactionTable

_NUMBER = struct.Struct(">Q")
_APPLIED, _CLIENT, _CELL, _TRANSACTION = b"a", b"c", b"k", b"t"
# No state has the number 0.
_STAGINGS = _NUMBER.pack(0)
_ERASE_KEYS_PER_COMMIT = 5_000
# Of a flush: storing them takes a few hundredths of a millisecond, sessions some tenths.
_PAIRS_AT_ONCE = 16

# What a cell costs in the overlay beyond its value, for the flush limit.
_CELL_OVERHEAD_BYTES = 200

_encoder = msgspec.msgpack.Encoder()
_state_decoder: msgspec.msgpack.Decoder[AppliedState] = msgspec.msgpack.Decoder(AppliedState)
_staging_decoder: msgspec.msgpack.Decoder[Staging] = msgspec.msgpack.Decoder(Staging)
_session_decoder: msgspec.msgpack.Decoder[Session] = msgspec.msgpack.Decoder(Session)

Value = TypeVar("Value")
Pair = tuple[bytes, bytes]
"""A key without its number, and its value: what a snapshot consists of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """What one replica changed since its last flush."""

    number: int
    state: AppliedState
    cells: dict[str, Cell]
    sessions: dict[str, Session]
    evicted: frozenset[str]
    transactions: Sequence[Pair] = ()
    ended: Sequence[bytes] = ()

    def pairs(self) -> Iterator[Pair]:
        """What is to be stored; encoded one by one."""
        prefix = _NUMBER.pack(self.number)
        for key, cell in self.cells.items():
            yield prefix + _CELL + key.encode(), encode_cell(cell)
        for name, session in self.sessions.items():
            yield prefix + _CLIENT + name.encode(), _encoder.encode(session)
        for part, raw in self.transactions:
            yield prefix + _TRANSACTION + part, raw
        yield prefix + _APPLIED, _encoder.encode(self.state)

    def gone(self) -> Iterator[bytes]:
        """Keys whose values are to be deleted."""
        prefix = _NUMBER.pack(self.number)
        for name in self.evicted:
            yield prefix + _CLIENT + name.encode()
        for part in self.ended:
            yield prefix + _TRANSACTION + part


class DataStore:
    """The environment. Writes are for one thread alone; reads may come from others."""

    def __init__(self, path: Path, *, map_bytes: int) -> None:
        self._path = path
        self._environment = open_environment(path, map_bytes=map_bytes, sync=True, databases=0)

    def close(self) -> None:
        """Close the environment; no other call may follow."""
        self._environment.close()

    @property
    def used_bytes(self) -> int:
        """Bytes of the map that have ever been used."""
        return used_bytes(self._environment)

    @property
    def live_bytes(self) -> int:
        """Bytes of the map that hold something now."""
        return live_bytes(self._environment, [])

    def cell(self, number: int, key: str) -> Cell | None:
        """A replica's stored cell. Raises StateCorrupt."""
        try:
            with self._environment.begin() as txn:
                value = _get(txn, _NUMBER.pack(number) + _CELL + key.encode())
        except UNREADABLE as error:
            raise _unreadable(error) from error
        return None if value is None else decode_cell(value)

    def state(self, number: int) -> AppliedState:
        """How far the stored cells are. Raises StateCorrupt."""
        try:
            with self._environment.begin() as txn:
                value = _get(txn, _NUMBER.pack(number) + _APPLIED)
        except UNREADABLE as error:
            raise _unreadable(error) from error
        return AppliedState() if value is None else _state_decoder.decode(value)

    def clients(self, number: int) -> ClientTable:
        """The stored client table. Raises StateCorrupt."""
        prefix = _NUMBER.pack(number) + _CLIENT
        sessions: list[tuple[str, Session]] = []
        with self._environment.begin() as txn:
            for key, value in _range(txn, prefix):
                sessions.append((key[9:].decode(), _session_decoder.decode(value)))
        return ClientTable(sessions)

    def transactions(self, number: int) -> TransactionTable:
        """The stored transactions. Raises StateCorrupt."""
        prefix = _NUMBER.pack(number) + _TRANSACTION
        with self._environment.begin() as txn:
            return TransactionTable((key[9:], value) for key, value in _range(txn, prefix))

    def flush(
        self, flushes: Iterable[Flush], *, pause: Callable[[], object] = lambda: None
    ) -> None:
        """Store what replicas changed, all in one commit. Raises StorageFull, StorageFailed.

        `pause` is called every few values: a thread that stores thousands in one go keeps the
        loop's thread from the interpreter for tens of milliseconds.
        """
        flushes = list(flushes)
        pairs = (pair for flush in flushes for pair in flush.pairs())
        self._put(pairs, (key for flush in flushes for key in flush.gone()), pause)

    def stage(self, group: str, staging: Staging, pairs: Iterable[Pair]) -> None:
        """Store pairs of a snapshot under a number that no replica uses yet, and how far it is."""
        prefix = _NUMBER.pack(staging.number)
        staged = [(prefix + key, value) for key, value in pairs]
        staged.append((_STAGINGS + group.encode(), _encoder.encode(staging)))
        self._put(staged, [], lambda: None)

    def unstage(self, group: str, number: int) -> None:
        """Forget how far a group's snapshot is, if it is the one of `number`; its pairs stay."""
        staging = self.stagings().get(group)
        if staging is not None and staging.number == number:
            self._put([], [_STAGINGS + group.encode()], lambda: None)

    def stagings(self) -> dict[str, Staging]:
        """What is staged, by group. Raises StateCorrupt."""
        with self._environment.begin() as txn:
            return {
                key[8:].decode(): _staging_decoder.decode(value)
                for key, value in _range(txn, _STAGINGS)
            }

    def _put(
        self, pairs: Iterable[Pair], gone: Iterable[bytes], pause: Callable[[], object]
    ) -> None:
        left = iter(pairs)
        with self._writing() as txn:
            with txn.cursor() as cursor:
                while some := list(islice(left, _PAIRS_AT_ONCE)):
                    cursor.putmulti([(key, seal(key, value)) for key, value in some])
                    pause()
            for key in gone:
                txn.delete(key)

    def _writing(self) -> AbstractContextManager[lmdb.Transaction]:
        return writing(self._environment, self._path, variable="ZQ_DATA_MAP_BYTES", touch=_touch)

    def erase(self, number: int) -> None:
        """Delete all that is stored under a number, in several commits.

        Raises StorageFull, StorageFailed.
        """
        prefix = _NUMBER.pack(number)
        while True:
            with self._writing() as txn, txn.cursor() as cursor:
                positioned = cursor.set_range(prefix)
                for _ in range(_ERASE_KEYS_PER_COMMIT):
                    if not positioned or cursor.key()[:8] != prefix:
                        return
                    positioned = cursor.delete()

    def numbers(self) -> set[int]:
        """Every number under which a state, or a part of one, is stored."""
        found: set[int] = set()
        with self._environment.begin() as txn, txn.cursor() as cursor:
            positioned = cursor.set_range(_NUMBER.pack(1))
            while positioned:
                number = _NUMBER.unpack_from(cursor.key())[0]
                found.add(number)
                positioned = cursor.set_range(_NUMBER.pack(number + 1))
        return found

    def check(self, number: int, after: bytes, limit: int) -> bytes | None:
        """Check the next `limit` values of a replica behind a key (b"": from its first on).

        Returns the last key checked, or None at the end. Raises StateCorrupt.
        """
        prefix = _NUMBER.pack(number)
        checked = 0
        with self._environment.begin() as txn:
            for key, _ in _range(txn, prefix, after):
                checked += 1
                if checked >= limit:
                    return key[8:]
        return None

    def view(self, number: int) -> DataView:
        """The state at one applied index; hold it no longer than needed, it keeps old pages."""
        return DataView(self._environment, number)


class DataView:
    """A replica's state in one read transaction."""

    def __init__(self, environment: lmdb.Environment, number: int) -> None:
        self._txn = environment.begin()
        self._prefix = _NUMBER.pack(number)
        try:
            value = _get(self._txn, self._prefix + _APPLIED)
        except StateCorrupt:
            self._txn.abort()
            raise
        self.state = AppliedState() if value is None else _state_decoder.decode(value)

    def pairs(self, after: bytes = b"") -> Iterator[Pair]:
        """All of it behind the key `after`, in key order. Raises StateCorrupt."""
        for key, value in _range(self._txn, self._prefix, after):
            yield key[8:], value

    def close(self) -> None:
        """End the transaction."""
        self._txn.abort()


class MemoryView:
    """A volatile replica's state as it was when the view was taken.

    `clients` and `transactions` are encoded already. Cells are encoded when they are read, which
    may be in a thread: only their dict ever changes.
    """

    def __init__(
        self,
        cells: dict[str, Cell],
        clients: list[Pair],
        transactions: list[Pair],
        state: AppliedState,
    ) -> None:
        self.state = state
        self._cells = cells
        self._before = [(_APPLIED, _encoder.encode(state)), *clients]
        self._order: list[tuple[bytes, str]] | None = None
        self._behind = [(_TRANSACTION + name, raw) for name, raw in transactions]

    def pairs(self, after: bytes = b"") -> Iterator[Pair]:
        """All of it behind the key `after`, in key order."""
        if self._order is None:
            self._order = sorted((_CELL + key.encode(), key) for key in self._cells)
        yield from _behind(self._before, after)
        for raw, key in _behind(self._order, after):
            yield raw, encode_cell(self._cells[key])
        yield from _behind(self._behind, after)

    def close(self) -> None:
        """Nothing is held."""


def _behind(pairs: list[tuple[bytes, Value]], after: bytes) -> list[tuple[bytes, Value]]:
    return pairs[bisect_right(pairs, after, key=itemgetter(0)) :]


View = DataView | MemoryView


def cells_of(pairs: Iterable[Pair]) -> Iterator[tuple[str, bytes]]:
    """Keys and encoded cells among a snapshot's pairs, in their order."""
    for key, value in pairs:
        if key[:1] == _CELL:
            yield key[1:].decode(), value


def _touch(txn: lmdb.Transaction) -> None:
    """Write again what comes first: a replica's applied state, which is small."""
    with txn.cursor() as cursor:
        if cursor.first():
            txn.put(bytes(cursor.key()), bytes(cursor.value()))


def _range(txn: lmdb.Transaction, prefix: bytes, after: bytes = b"") -> Iterator[Pair]:
    try:
        with txn.cursor() as cursor:
            if cursor.set_range(prefix + after):
                if after and cursor.key() == prefix + after and not cursor.next():
                    return
                for key, sealed in cursor:
                    name = bytes(key)
                    if not name.startswith(prefix):
                        return
                    yield name, _unsealed(name, bytes(sealed))
    except UNREADABLE as error:
        raise _unreadable(error) from error


def _get(txn: lmdb.Transaction, key: bytes) -> bytes | None:
    sealed = txn.get(key)
    return None if sealed is None else _unsealed(key, bytes(sealed))


def _unsealed(key: bytes, sealed: bytes) -> bytes:
    reason = seal_damage(key, sealed)
    if reason:
        raise StateCorrupt(f"the stored state is damaged under {key[8:]!r}: {reason}")
    return content(sealed)


def _unreadable(error: Exception) -> StateCorrupt:
    return StateCorrupt(f"the stored state cannot be read: {error}")


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
        """The cell of `key`, or None."""
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

    def begin_flush(self, partition: Partition) -> Flush:
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
        """What was taken is on disk."""
        self._leaving = {}


class MemoryCells:
    """A volatile replica's cells; gone with the process."""

    def __init__(self, cells: dict[str, Cell] | None = None) -> None:
        self._cells: dict[str, Cell] = {} if cells is None else cells

    def get(self, key: str) -> Cell | None:
        """The cell of `key`, or None."""
        return self._cells.get(key)

    def put(self, key: str, cell: Cell) -> None:
        """Replace the cell of `key`."""
        self._cells[key] = cell

    def view(self, partition: Partition) -> MemoryView:
        """A snapshot, as of now."""
        sessions = [
            (_CLIENT + name.encode(), _encoder.encode(session))
            for name, session in partition.clients.sessions.items()
        ]
        transactions = partition.transactions.records()
        return MemoryView(dict(self._cells), sorted(sessions), transactions, partition.state)


def state_in(pairs: Iterable[Pair]) -> AppliedState:
    """Of which entry a snapshot's state is."""
    found = (_state_decoder.decode(value) for key, value in pairs if key == _APPLIED)
    return next(found, AppliedState())


def from_pairs(
    pairs: Iterable[Pair],
) -> tuple[dict[str, Cell], ClientTable, TransactionTable, AppliedState]:
    """A volatile replica's state out of a snapshot."""
    cells: dict[str, Cell] = {}
    sessions: list[tuple[str, Session]] = []
    transactions: list[Pair] = []
    state = AppliedState()
    for key, value in pairs:
        kind, name = key[:1], key[1:]
        if kind == _CELL:
            cells[name.decode()] = decode_cell(value)
        elif kind == _CLIENT:
            sessions.append((name.decode(), _session_decoder.decode(value)))
        elif kind == _TRANSACTION:
            transactions.append((name, value))
        else:
            state = _state_decoder.decode(value)
    return cells, ClientTable(sessions), TransactionTable(transactions), state
