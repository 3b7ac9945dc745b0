"""One replica's log as the Raft core reads it (`raft.api.LogReader`), durable or volatile.

The view follows the disk: it changes when a write is stored (`stored`), not when it is asked for,
so that the core never reads what a crash could still take back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

from zonequake_store.raft.errors import LogCompacted
from zonequake_store.raft.messages import (
    Configuration,
    Entry,
    EntryKind,
    SnapshotMeta,
    decode_configuration,
)
from zonequake_store.storage.log_recovery import RecoveredLog
from zonequake_store.storage.log_store import LogStore
from zonequake_store.storage.log_writes import AppendEntries

# The amount that a compacted log keeps: a follower that was away for less catches up from the log
# (historical), one that was away for longer gets a snapshot (full).
RETAINED_ENTRIES = 20_000
RETAINED_BYTES = 64 << 20
# The same while the map is nearly full: a follower that was away gets a snapshot sooner, and this
# node goes on.
PRESSED_ENTRIES = 500
PRESSED_BYTES = 1 << 20
# Compact in steps, not one entry at a time.
_STEP_ENTRIES = 2_000
_STEP_BYTES = 8 << 20


class _Extent(ABC):
    """The first and last index of a log, its configurations, and the size of its records."""

    def __init__(self, recovered: RecoveredLog | None) -> None:
        self.snapshot: SnapshotMeta | None = recovered.snapshot if recovered else None
        self.last_index = recovered.last_index if recovered else 0
        self.last_term = recovered.last_term if recovered else 0
        self._configurations = list(recovered.configurations) if recovered else []
        self._records = deque(recovered.records if recovered else ())
        self._bytes = sum(size_bytes for _, size_bytes in self._records)

    @property
    def first_index(self) -> int:
        return self.snapshot.index + 1 if self.snapshot else 1

    def configurations(self) -> list[tuple[int, Configuration]]:
        start = self.snapshot
        first = [(start.configuration_index, start.configuration)] if start else []
        return first + self._configurations

    @abstractmethod
    def entries(self, lo: int, hi: int, max_bytes: int) -> list[Entry]:
        """Entries lo..hi - 1, at least one. Raises LogCompacted below the log's start."""

    def term(self, index: int) -> int:
        """Term of entry `index`. Raises LogCompacted below the log's start."""
        if index == self.last_index:
            return self.last_term
        if self.snapshot and index == self.snapshot.index:
            return self.snapshot.term
        if index == 0:
            return 0
        return self.entries(index, index + 1, 1)[0].term

    def bytes_behind(self, index: int) -> int:
        size_bytes = 0
        for last, record_bytes in reversed(self._records):
            if last <= index:
                break
            size_bytes += record_bytes
        return size_bytes

    def appended(self, entries: tuple[Entry, ...]) -> None:
        first = entries[0].index
        if first <= self.last_index:
            self._configurations = [known for known in self._configurations if known[0] < first]
            while self._records and self._records[-1][0] >= first:
                self._bytes -= self._records.pop()[1]
        size_bytes = 0
        for entry in entries:
            size_bytes += len(entry.data)
            if entry.kind is EntryKind.CONFIGURATION:
                self._configurations.append((entry.index, decode_configuration(entry)))
        self.last_index, self.last_term = entries[-1].index, entries[-1].term
        self._records.append((self.last_index, size_bytes))
        self._bytes += size_bytes

    def compaction_index(self, highest: int, *, pressed: bool = False) -> int | None:
        retained_entries, retained_bytes = RETAINED_ENTRIES, RETAINED_BYTES
        step_entries, step_bytes = _STEP_ENTRIES, _STEP_BYTES
        if pressed:
            retained_entries, retained_bytes = PRESSED_ENTRIES, PRESSED_BYTES
            step_entries, step_bytes = PRESSED_ENTRIES, PRESSED_BYTES
        entries = self.last_index - self.first_index + 1
        too_many = entries > retained_entries + step_entries
        too_big = self._bytes > retained_bytes + step_bytes
        if not too_many and not too_big:
            return None
        index = self.last_index - retained_entries
        remaining_bytes = self._bytes
        for last, size_bytes in self._records:
            if remaining_bytes <= retained_bytes:
                break
            remaining_bytes -= size_bytes
            index = max(index, last)
        index = min(index, highest)
        return index if index >= self.first_index else None

    def compacted(self, meta: SnapshotMeta) -> None:
        self.snapshot = meta
        self._configurations = [known for known in self._configurations if known[0] > meta.index]
        while self._records and self._records[0][0] <= meta.index:
            self._bytes -= self._records.popleft()[1]

    def installed(self, meta: SnapshotMeta) -> None:
        self.snapshot = meta
        self.last_index, self.last_term = meta.index, meta.term
        self._configurations = []
        self._records.clear()
        self._bytes = 0


class DurableLog(_Extent):
    """A log in LMDB."""

    def __init__(self, store: LogStore, number: int, recovered: RecoveredLog | None) -> None:
        super().__init__(recovered)
        self._store = store
        self.number = number

    def entries(self, lo: int, hi: int, max_bytes: int) -> list[Entry]:
        """Entries lo..hi - 1, at least one. Raises LogCompacted below the log's start."""
        if lo < self.first_index:
            raise LogCompacted(f"entry {lo} was asked for; the log begins at {self.first_index}")
        return list(self._store.entries(self.number, lo, hi, max_bytes))

    def append(self, entries: tuple[Entry, ...]) -> AppendEntries:
        """Returns the write that stores these entries; `stored` follows it."""
        return AppendEntries(self.number, entries, truncates=entries[0].index <= self.last_index)

    def stored(self, entries: tuple[Entry, ...]) -> None:
        """Records that these entries are stored now."""
        self.appended(entries)


class MemoryLog(_Extent):
    """A volatile log: gone with the process."""

    def __init__(self) -> None:
        super().__init__(None)
        self._entries: list[Entry] = []

    def entries(self, lo: int, hi: int, max_bytes: int) -> list[Entry]:
        """Entries lo..hi - 1, at least one. Raises LogCompacted below the log's start."""
        first = self.first_index
        if lo < first:
            raise LogCompacted(f"entry {lo} was asked for; the log begins at {first}")
        found: list[Entry] = []
        size_bytes = 0
        for entry in self._entries[lo - first : hi - first]:
            size_bytes += len(entry.data)
            if found and size_bytes > max_bytes:
                break
            found.append(entry)
        return found

    def stored(self, entries: tuple[Entry, ...]) -> None:
        """Records that these entries are stored now."""
        del self._entries[entries[0].index - self.first_index :]
        self._entries += entries
        self.appended(entries)

    def compacted(self, meta: SnapshotMeta) -> None:
        """Records that the log was forgotten up to `meta.index`."""
        del self._entries[: meta.index - self.first_index + 1]
        super().compacted(meta)

    def installed(self, meta: SnapshotMeta) -> None:
        """Records that a snapshot took the place of the whole log."""
        self._entries.clear()
        super().installed(meta)
