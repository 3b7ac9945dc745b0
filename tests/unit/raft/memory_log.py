"""A stored log in memory, as a core of the tests has it."""

from __future__ import annotations

from zonequake_store.raft.api import Ready
from zonequake_store.raft.messages import (
    Configuration,
    Entry,
    EntryKind,
    HardState,
    SnapshotMeta,
    decode_configuration,
)


class MemoryLogStore:
    """A `LogReader` and the writes that a Ready asks for."""

    def __init__(self) -> None:
        self.hard_state = HardState()
        self._snapshot: SnapshotMeta | None = None
        self._entries: list[Entry] = []

    @property
    def first_index(self) -> int:
        return self._snapshot.index + 1 if self._snapshot else 1

    @property
    def last_index(self) -> int:
        return self.first_index - 1 + len(self._entries)

    @property
    def snapshot(self) -> SnapshotMeta | None:
        return self._snapshot

    def term(self, index: int) -> int:
        position = index - self.first_index
        if position >= 0:
            return self._entries[position].term
        return self._snapshot.term if self._snapshot else 0

    def entries(self, lo: int, hi: int, max_bytes: int) -> list[Entry]:
        found = self._entries[lo - self.first_index : hi - self.first_index]
        size = 0
        for count, entry in enumerate(found):
            size += len(entry.data)
            if size > max_bytes and count:
                return found[:count]
        return found

    def bytes_behind(self, index: int) -> int:
        return sum(len(entry.data) for entry in self._entries if entry.index > index)

    def configurations(self) -> list[tuple[int, Configuration]]:
        first = self._snapshot
        return ([(first.configuration_index, first.configuration)] if first else []) + [
            (entry.index, decode_configuration(entry))
            for entry in self._entries
            if entry.kind is EntryKind.CONFIGURATION
        ]

    def store(self, ready: Ready) -> None:
        """Do what `ready` asks to be stored, all at once."""
        if ready.snapshot is not None:
            self._snapshot, self._entries = ready.snapshot, []
        if ready.entries:
            del self._entries[ready.entries[0].index - self.first_index :]
            self._entries.extend(ready.entries)
        if ready.hard_state is not None:
            self.hard_state = ready.hard_state

    def compact(self, meta: SnapshotMeta) -> None:
        """Drop the entries up to `meta.index`, which are applied."""
        del self._entries[: meta.index + 1 - self.first_index]
        self._snapshot = meta
