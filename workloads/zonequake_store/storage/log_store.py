"""The logs of all groups of a node, in one LMDB environment.

One synced commit carries what every group of the node has to store in a loop turn (group commit).
Three databases:

    meta    b"incarnation", b"next"            of the storage; the next free number
            b"group/" name                     GroupRecord
    state   number                             HardState
            number b"s"                        SnapshotMeta: where the log begins
    log     number first-index                 record

Every value is under a CRC-32: that of a record is its own (`log_records`), the others are sealed
(`checksums`). What damage costs is decided by `log_recovery`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import lmdb
import msgspec

from zonequake_store.errors import LogCorrupt, StoreCorrupt
from zonequake_store.raft.messages import Entry, HardState, SnapshotMeta
from zonequake_store.storage.checksums import content, seal, seal_damage
from zonequake_store.storage.lmdb_files import (
    UNREADABLE,
    live_bytes,
    open_environment,
    used_bytes,
    writing,
)
from zonequake_store.storage.log_records import count_in, decode_record, encode_record, pieces
from zonequake_store.storage.log_recovery import RecoveredLog, recovered_log
from zonequake_store.storage.log_writes import (
    AppendEntries,
    Compact,
    Erase,
    GroupRecord,
    Install,
    LogWrite,
    PutHardState,
    PutRecord,
)

# Exceptions of reading a damaged environment.
_CORRUPT = (*UNREADABLE, LogCorrupt, msgspec.DecodeError, UnicodeDecodeError, struct.error)

_OF_RECORD = (PutRecord, Install)
_Database = Any
"""The type that `open_db` returns; the package has no name for it."""

_NUMBER = struct.Struct(">Q")
_KEY = struct.Struct(">QQ")
_encoder = msgspec.msgpack.Encoder()
_hard_state_decoder: msgspec.msgpack.Decoder[HardState] = msgspec.msgpack.Decoder(HardState)
_record_decoder: msgspec.msgpack.Decoder[GroupRecord] = msgspec.msgpack.Decoder(GroupRecord)
_snapshot_decoder: msgspec.msgpack.Decoder[SnapshotMeta] = msgspec.msgpack.Decoder(SnapshotMeta)


class LogStore:
    """The environment. `write` is for one thread alone; reads may come from another.

    `sync=False` is for zones whose setting is `fsync: false`: a power loss may cost the whole
    environment, which is why they have one of their own.

    Raises StoreCorrupt if the environment cannot be read, StorageError if it cannot be opened.
    """

    def __init__(self, path: Path, *, map_bytes: int, sync: bool) -> None:
        self._path = path
        self._sync = sync
        self._erased: set[int] = set()
        """Numbers; what was asked for one before, and waited for room, is not stored any more."""
        self._environment = open_environment(path, map_bytes=map_bytes, sync=sync, databases=3)
        try:
            self._meta: _Database = self._environment.open_db(b"meta")
            self._state: _Database = self._environment.open_db(b"state")
            self._log: _Database = self._environment.open_db(b"log")
            self.records()
            self.next_number()
        except _CORRUPT as error:
            self._environment.close()
            raise StoreCorrupt(f"the environment {path} is damaged ({error})") from error

    def close(self) -> None:
        """Close the environment; no other call may follow."""
        self._environment.close()

    @property
    def used_bytes(self) -> int:
        """Bytes of the map that have ever been used."""
        return used_bytes(self._environment)

    def identity(self, fresh: str) -> str:
        """Returns the storage incarnation; `fresh` becomes it if there is none."""
        with self._environment.begin(db=self._meta, write=True) as txn:
            stored = _get(txn, b"incarnation", self._meta)
            if stored is None:
                _put(txn, b"incarnation", fresh.encode(), self._meta)
                return fresh
            return stored.decode()

    def records(self) -> dict[str, GroupRecord]:
        """All replicas on disk."""
        found: dict[str, GroupRecord] = {}
        with self._environment.begin(db=self._meta) as txn, txn.cursor() as cursor:
            if cursor.set_range(b"group/"):
                for key, value in cursor:
                    if not key.startswith(b"group/"):
                        break
                    found[key[6:].decode()] = _record_decoder.decode(_unsealed(key, value))
        return found

    def next_number(self) -> int:
        """Returns the lowest number above every one that a replica ever had here."""
        with self._environment.begin(db=self._meta) as txn:
            stored = _get(txn, b"next", self._meta)
            return 1 if stored is None else int(_NUMBER.unpack(stored)[0])

    @property
    def live_bytes(self) -> int:
        """Bytes of the map that hold something now."""
        return live_bytes(self._environment, [self._meta, self._state, self._log])

    def write(self, writes: Sequence[LogWrite]) -> dict[int, str]:
        """Store all of it in one commit, in the order given.

        Returns the logs (by number) that turned out to be damaged, with the reason; what was to be
        written there is not, the rest is. Raises StorageFull, StorageFailed; nothing is stored
        then, or what is stored is unknown.
        """
        damaged: dict[int, str] = {}
        with writing(
            self._environment, self._path, variable="ZQ_LOG_MAP_BYTES", touch=self._touch
        ) as txn:
            for write in writes:
                number = _number_of(write)
                if number in damaged or number in self._erased:
                    continue
                try:
                    self._write(txn, write)
                except LogCorrupt as error:
                    damaged[number] = str(error)
        self._erased.update(write.number for write in writes if isinstance(write, Erase))
        return damaged

    def _touch(self, txn: lmdb.Transaction) -> None:
        _put(txn, b"touched", b"", self._meta)

    def _write(self, txn: lmdb.Transaction, write: LogWrite) -> None:
        match write:
            case AppendEntries(number, entries, truncates):
                if truncates:
                    self._truncate(txn, number, entries[0].index)
                for piece in pieces(entries):
                    txn.put(_KEY.pack(number, piece[0].index), encode_record(piece), db=self._log)
            case PutHardState(number, hard_state):
                _put(txn, _NUMBER.pack(number), _encoder.encode(hard_state), self._state)
            case Compact(number, meta):
                _put(txn, _NUMBER.pack(number) + b"s", _encoder.encode(meta), self._state)
                self._forget_until(txn, number, meta.index)
            case PutRecord(group, record):
                self._put_record(txn, group, record)
            case Install(group, record, meta):
                self._put_record(txn, group, record)
                self._erase_log(txn, record.number)
                _put(txn, _NUMBER.pack(record.number) + b"s", _encoder.encode(meta), self._state)
            case Erase(group, number):
                txn.delete(b"group/" + group.encode(), db=self._meta)
                txn.delete(_NUMBER.pack(number), db=self._state)
                txn.delete(_NUMBER.pack(number) + b"s", db=self._state)
                self._erase_log(txn, number)

    def _put_record(self, txn: lmdb.Transaction, group: str, record: GroupRecord) -> None:
        _put(txn, b"group/" + group.encode(), _encoder.encode(record), self._meta)
        stored = _get(txn, b"next", self._meta)
        next_number = 1 if stored is None else _NUMBER.unpack(stored)[0]
        highest = max(record.number, record.data_number)
        if highest >= next_number:
            _put(txn, b"next", _NUMBER.pack(highest + 1), self._meta)

    def _truncate(self, txn: lmdb.Transaction, number: int, index: int) -> None:
        """Delete entries from `index` on; the record that holds the one before it is cut down."""
        with txn.cursor(db=self._log) as cursor:
            positioned = cursor.set_range(_KEY.pack(number, index))
            while positioned and cursor.key()[:8] == _NUMBER.pack(number):
                positioned = cursor.delete()
            before = cursor.last() if not positioned else cursor.prev()
            if not before or cursor.key()[:8] != _NUMBER.pack(number):
                return
            entries = decode_record(bytes(cursor.value()))
            if entries[-1].index >= index:
                kept = tuple(entry for entry in entries if entry.index < index)
                txn.put(bytes(cursor.key()), encode_record(kept), db=self._log)

    def _forget_until(self, txn: lmdb.Transaction, number: int, index: int) -> None:
        prefix = _NUMBER.pack(number)
        with txn.cursor(db=self._log) as cursor:
            positioned = cursor.set_range(prefix)
            while positioned and cursor.key()[:8] == prefix:
                first = _KEY.unpack(cursor.key())[1]
                count = count_in(bytes(cursor.value()))
                if first + count - 1 > index:
                    return
                positioned = cursor.delete()

    def _erase_log(self, txn: lmdb.Transaction, number: int) -> None:
        prefix = _NUMBER.pack(number)
        with txn.cursor(db=self._log) as cursor:
            positioned = cursor.set_range(prefix)
            while positioned and cursor.key()[:8] == prefix:
                positioned = cursor.delete()

    def entries(self, number: int, low: int, high: int, max_bytes: int) -> tuple[Entry, ...]:
        """Entries `low` ≤ index < `high`, at least one, then as many as `max_bytes` allows.

        Raises LogCorrupt.
        """
        found: list[Entry] = []
        size_bytes = 0
        try:
            for entry in self._scan(number, low):
                if entry.index >= high or (found and size_bytes + len(entry.data) > max_bytes):
                    break
                size_bytes += len(entry.data)
                found.append(entry)
        except UNREADABLE as error:
            raise LogCorrupt(f"the log went bad while the node ran: {error}") from error
        if not found or found[0].index != low:
            raise LogCorrupt(f"entry {low} is gone from the log while the node ran")
        return tuple(found)

    def _scan(self, number: int, low: int) -> Iterator[Entry]:
        prefix = _NUMBER.pack(number)
        with self._environment.begin(db=self._log) as txn, txn.cursor() as cursor:
            positioned = cursor.set_range(_KEY.pack(number, low))
            if not positioned:
                positioned = cursor.last()
            elif cursor.key() != _KEY.pack(number, low):
                positioned = cursor.prev()
            while positioned and cursor.key()[:8] <= prefix:
                if cursor.key()[:8] == prefix:
                    for entry in decode_record(bytes(cursor.value())):
                        if entry.index >= low:
                            yield entry
                positioned = cursor.next()

    def recover(self, number: int) -> RecoveredLog:
        """Read a replica's log and check it.

        Raises LogCorrupt if a record cannot be read or is missing; without syncs a last one that
        cannot be read is cut off instead.
        """
        try:
            return self._recover(number)
        except _CORRUPT as error:
            raise LogCorrupt(f"what is stored of the log cannot be read: {error}") from error

    def _recover(self, number: int) -> RecoveredLog:
        prefix = _NUMBER.pack(number)
        with self._environment.begin() as txn:
            stored = _get(txn, prefix, self._state)
            hard_state = HardState() if stored is None else _hard_state_decoder.decode(stored)
            stored = _get(txn, prefix + b"s", self._state)
            snapshot = None if stored is None else _snapshot_decoder.decode(stored)
            found = recovered_log(
                self._records(txn, number),
                hard_state=hard_state,
                snapshot=snapshot,
                synced=self._sync,
            )
        if found.cut_index is not None:
            with self._environment.begin(write=True, db=self._log) as txn:
                txn.delete(_KEY.pack(number, found.cut_index))
        return found

    def _records(self, txn: lmdb.Transaction, number: int) -> Iterator[tuple[int, bytes]]:
        prefix = _NUMBER.pack(number)
        with txn.cursor(db=self._log) as cursor:
            positioned = cursor.set_range(prefix)
            while positioned and cursor.key()[:8] == prefix:
                yield _KEY.unpack(cursor.key())[1], bytes(cursor.value())
                positioned = cursor.next()

    def drop_tail(self, number: int, count: int, *, keep_until: int) -> None:
        """Lose the last `count` entries, as a disk that lies would: planted fault only.

        Entries up to `keep_until` stay: they are applied on disk.
        """
        recovered = self.recover(number)
        last = max(recovered.last_index - count, keep_until)
        if last >= recovered.last_index:
            return
        with self._environment.begin(write=True) as txn:
            self._truncate(txn, number, last + 1)
            state = recovered.hard_state
            kept = HardState(state.term, state.vote, min(state.commit, last))
            _put(txn, _NUMBER.pack(number), _encoder.encode(kept), self._state)


def _number_of(write: LogWrite) -> int:
    return write.record.number if isinstance(write, _OF_RECORD) else write.number


def _put(txn: lmdb.Transaction, key: bytes, value: bytes, database: _Database) -> None:
    txn.put(key, seal(key, value), db=database)


def _get(txn: lmdb.Transaction, key: bytes, database: _Database) -> bytes | None:
    stored = txn.get(key, db=database)
    return None if stored is None else _unsealed(key, bytes(stored))


def _unsealed(key: bytes, stored: bytes) -> bytes:
    reason = seal_damage(key, stored)
    if reason:
        raise LogCorrupt(f"what is stored under {key!r}: {reason}")
    return content(stored)
