"""The applied state of all replicas of a node, in one LMDB environment.

    number pair's key      a pair's value (`state.encoding`)
    0      group           Staging: which number holds how much of a snapshot on its way in

Applied commands change a replica's cells in memory first (`cells`); about once a second, what
changed goes to disk in **one** transaction with the applied index, the update counter, the client
table and the transactions. After a crash the state is therefore exactly that after some entry, and
the log, which is never compacted beyond that entry, brings the rest. Commits are synced: a power
loss costs a second of replay, not the environment. (An unsynced environment would save nothing at
one commit a second.)

Every value is sealed with a CRC-32 (`checksums`); what is read is checked first, and a reader that
finds damage breaks the replica (StateCorrupt).

A snapshot is a read transaction: it sees the state of one applied index while writes go on.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import lmdb
import msgspec

from zonequake_store.catch_up.messages import Staging
from zonequake_store.errors import StateCorrupt
from zonequake_store.state.client_table import ClientSession, ClientTable
from zonequake_store.state.encoding import (
    APPLIED,
    CELL,
    CLIENT,
    TRANSACTION,
    EncodedPair,
    decode_session,
    decode_state,
    encode_session,
    encode_state,
)
from zonequake_store.state.partition import AppliedState, Cell, decode_cell, encode_cell
from zonequake_store.state.transactions import TransactionTable
from zonequake_store.storage.checksums import content, seal, seal_damage
from zonequake_store.storage.lmdb_files import (
    UNREADABLE,
    live_bytes,
    open_environment,
    used_bytes,
    writing,
)

_NUMBER = struct.Struct(">Q")
# No state has the number 0.
_STAGINGS = _NUMBER.pack(0)
_ERASE_KEYS_PER_COMMIT = 5_000
# Pairs that a flush stores at a time: this takes a few hundredths of a millisecond, for sessions
# some tenths.
_PAIRS_AT_ONCE = 16

_encoder = msgspec.msgpack.Encoder()
_staging_decoder: msgspec.msgpack.Decoder[Staging] = msgspec.msgpack.Decoder(Staging)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """The changes of one replica since its last flush."""

    number: int
    state: AppliedState
    cells: dict[str, Cell]
    sessions: dict[str, ClientSession]
    evicted: frozenset[str]
    transactions: Sequence[EncodedPair] = ()
    ended: Sequence[bytes] = ()

    def pairs(self) -> Iterator[EncodedPair]:
        """Yields the pairs to store; encodes them one by one."""
        prefix = _NUMBER.pack(self.number)
        for key, cell in self.cells.items():
            yield prefix + CELL + key.encode(), encode_cell(cell)
        for name, session in self.sessions.items():
            yield prefix + CLIENT + name.encode(), encode_session(session)
        for part, raw in self.transactions:
            yield prefix + TRANSACTION + part, raw
        yield prefix + APPLIED, encode_state(self.state)

    def gone(self) -> Iterator[bytes]:
        """Yields the keys whose values are to be deleted."""
        prefix = _NUMBER.pack(self.number)
        for name in self.evicted:
            yield prefix + CLIENT + name.encode()
        for part in self.ended:
            yield prefix + TRANSACTION + part


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
        """Reads a replica's stored cell. Raises StateCorrupt."""
        try:
            with self._environment.begin() as txn:
                value = _get(txn, _NUMBER.pack(number) + CELL + key.encode())
        except UNREADABLE as error:
            raise _unreadable(error) from error
        return None if value is None else decode_cell(value)

    def state(self, number: int) -> AppliedState:
        """Returns how far the stored cells are. Raises StateCorrupt."""
        try:
            with self._environment.begin() as txn:
                value = _get(txn, _NUMBER.pack(number) + APPLIED)
        except UNREADABLE as error:
            raise _unreadable(error) from error
        return decode_state(value)

    def clients(self, number: int) -> ClientTable:
        """Reads the stored client table. Raises StateCorrupt."""
        prefix = _NUMBER.pack(number) + CLIENT
        sessions: list[tuple[str, ClientSession]] = []
        with self._environment.begin() as txn:
            for key, value in _range(txn, prefix):
                sessions.append((key[9:].decode(), decode_session(value)))
        return ClientTable(sessions)

    def transactions(self, number: int) -> TransactionTable:
        """Reads the stored transactions. Raises StateCorrupt."""
        prefix = _NUMBER.pack(number) + TRANSACTION
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

    def stage(self, group: str, staging: Staging, pairs: Iterable[EncodedPair]) -> None:
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
        """Returns the stagings, by group. Raises StateCorrupt."""
        with self._environment.begin() as txn:
            return {
                key[8:].decode(): _staging_decoder.decode(value)
                for key, value in _range(txn, _STAGINGS)
            }

    def _put(
        self, pairs: Iterable[EncodedPair], gone: Iterable[bytes], pause: Callable[[], object]
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
        """Checks the next `limit` values of a replica after a key (b"": from its first on).

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
        """Opens the state at one applied index; hold it only while needed, it keeps old pages."""
        return DataView(self._environment, number)


class DataView:
    """A replica's state in one read transaction."""

    def __init__(self, environment: lmdb.Environment, number: int) -> None:
        self._txn = environment.begin()
        self._prefix = _NUMBER.pack(number)
        try:
            value = _get(self._txn, self._prefix + APPLIED)
        except StateCorrupt:
            self._txn.abort()
            raise
        self.state = decode_state(value)

    def pairs(self, after: bytes = b"") -> Iterator[EncodedPair]:
        """Yields all pairs after the key `after`, in key order. Raises StateCorrupt."""
        for key, value in _range(self._txn, self._prefix, after):
            yield key[8:], value

    def close(self) -> None:
        """End the transaction."""
        self._txn.abort()


def _touch(txn: lmdb.Transaction) -> None:
    """Write again what comes first: a replica's applied state, which is small."""
    with txn.cursor() as cursor:
        if cursor.first():
            txn.put(bytes(cursor.key()), bytes(cursor.value()))


def _range(txn: lmdb.Transaction, prefix: bytes, after: bytes = b"") -> Iterator[EncodedPair]:
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
