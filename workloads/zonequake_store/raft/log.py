"""The replica's view of its log: what is stored, overlaid with what is not stored yet.

    stored:   first_index … … … … stable │
    in memory:            tail_first … … │ … … last_index
                          └── cache ──┘   └─ unstable ─┘

The tail in memory wins over the store: after a truncation the store still holds the old entries
until the host has stored the new ones. Configurations act when they are appended, so their history
lives here and a truncation rolls it back (design §4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zonequake_store.raft.api import LogReader
from zonequake_store.raft.errors import LogCompacted, LogCorrupted
from zonequake_store.raft.messages import (
    Configuration,
    Entry,
    EntryKind,
    Peer,
    SnapshotMeta,
    decode_configuration,
)

# Nearly every entry is a command: what is searched from the end is mostly found in the first step.
_SEARCHED_ENTRIES = 16
_SEARCHED_BYTES = 1 << 20


class RaftLog:
    """Entries, commit index and configuration history of one replica."""

    __slots__ = (
        "_cached_bytes",
        "_configurations",
        "_in_flight",
        "_snapshot_taken",
        "_stored",
        "_tail",
        "_tail_bytes",
        "_tail_first",
        "applied",
        "commit",
        "configuration",
        "configuration_index",
        "first_index",
        "handed_out",
        "last_index",
        "last_term",
        "pending_snapshot",
        "stable",
        "token",
    )

    def __init__(self, stored: LogReader, *, commit: int, applied: int, cached_bytes: int) -> None:
        """`commit`: as stored, lazily; `applied`: of the host's durable state. Raises
        LogCorrupted if the store doesn't reach back to `applied`."""
        self._stored = stored
        self._cached_bytes = cached_bytes
        self._tail: list[Entry] = []
        self._tail_first = stored.last_index + 1
        self._tail_bytes = 0
        self.first_index = stored.first_index
        self.last_index = stored.last_index
        self.last_term = stored.term(stored.last_index)
        self.stable = stored.last_index
        """Entries up to here are durable, as far as this view still contains them."""
        self._in_flight = stored.last_index
        self.pending_snapshot: SnapshotMeta | None = None
        self._snapshot_taken = False
        if not self.first_index - 1 <= applied <= self.last_index:
            raise LogCorrupted(
                f"the applied state is at {applied}, the stored log holds {self.first_index} to "
                f"{self.last_index}: they belong to different moments; restore one of them"
            )
        self.commit = max(applied, min(commit, self.last_index))
        self.applied = applied
        self.handed_out = applied
        self._configurations = list(stored.configurations())
        self.configuration: Configuration | None = None
        self.configuration_index = 0
        self.token = 0
        self._use_latest_configuration()

    # reading

    def term(self, index: int) -> int:
        """Term of entry `index`, or of the point the log starts after. Raises LogCompacted."""
        offset = index - self._tail_first
        if offset >= 0:
            return self._tail[offset].term
        if index == self.last_index:
            return self.last_term
        if index < self.first_index - 1:
            raise LogCompacted(f"entry {index} is compacted: the log starts at {self.first_index}")
        if self.pending_snapshot is not None:  # then index == first_index - 1
            return self.pending_snapshot.term
        return self._stored.term(index)

    def matches(self, index: int, term: int) -> bool:
        """Returns whether the log holds entry `index` with this term."""
        return self.first_index - 1 <= index <= self.last_index and self.term(index) == term

    def is_up_to_date(self, index: int, term: int) -> bool:
        """Returns whether a log that ends with (index, term) may win a vote here (thesis
        §3.6.1).
        """
        return term > self.last_term or (term == self.last_term and index >= self.last_index)

    def entries(self, lo: int, max_bytes: int, hi: int | None = None) -> Sequence[Entry]:
        """Entries from `lo` to before `hi` (the end): at least one, then while they fit."""
        hi = self.last_index + 1 if hi is None else hi
        if lo >= hi:
            return ()
        if lo < self.first_index:
            raise LogCompacted(f"entry {lo} is compacted: the log starts at {self.first_index}")
        start = lo - self._tail_first
        if start < 0:
            found = self._stored.entries(lo, min(hi, self._tail_first), max_bytes)
            if not found or found[0].index != lo:
                raise LogCompacted(
                    f"entry {lo} is not in the store, though the log starts at {self.first_index}: "
                    "call compact() before dropping stored entries"
                )
            return found
        entries = self._tail[start : hi - self._tail_first]
        if self._tail_bytes > max_bytes:
            size = 0
            for count, entry in enumerate(entries):
                size += len(entry.data)
                if size > max_bytes and count:
                    return entries[:count]
        return entries

    def bytes_behind(self, index: int) -> int:
        """About so many bytes of data follow entry `index` in the store."""
        return self._stored.bytes_behind(index)

    def last_not_newer(self, index: int, term: int) -> tuple[int, int]:
        """Returns the largest (index', term') with index' ≤ index and term' ≤ term: where two
        diverging logs can first agree. One round trip skips a whole term.
        """
        index = min(index, self.last_index)
        while index >= self.first_index - 1:
            here = self.term(index)
            if here <= term:
                return index, here
            index -= 1
        return self.first_index - 1, 0

    def last_command(self, counts: Callable[[bytes], bool]) -> tuple[int, int] | None:
        """Returns (term, index) of the newest command after the applied state whose data `counts`,
        searched from the end.
        """
        floor = max(self.applied, self.first_index - 1)
        end = self.last_index + 1
        while end > floor + 1:
            start = at = max(floor + 1, end - _SEARCHED_ENTRIES)
            newest: tuple[int, int] | None = None
            while at < end:
                for entry in self.entries(at, _SEARCHED_BYTES, end):
                    at = entry.index + 1
                    if entry.kind is EntryKind.COMMAND and counts(entry.data):
                        newest = entry.term, entry.index
            if newest is not None:
                return newest
            end = start
        return None

    def configuration_at(self, index: int) -> tuple[int, Configuration]:
        """Returns the configuration in force at `index`, and its own index. Raises LogCompacted."""
        for at, configuration in reversed(self._configurations):
            if at <= index:
                return at, configuration
        raise LogCompacted(f"no configuration at or below entry {index} is known")

    def changes_configuration(self, index: int) -> bool:
        """Returns whether the configuration entry `index` changes anything; a new leader's first
        one only repeats.
        """
        before = [each for at, each in self._configurations if at < index]
        return not before or before[-1] != self.configuration_at(index)[1]

    def may_contain(self, peer: Peer) -> bool:
        """Returns whether `peer` is in the newest committed configuration or in one after it."""
        for at, configuration in reversed(self._configurations):
            if peer in configuration.members:
                return True
            if at <= self.commit:
                return False
        return False

    def snapshot_meta(self, index: int) -> SnapshotMeta:
        at, configuration = self.configuration_at(index)
        return SnapshotMeta(index, self.term(index), configuration, at)

    # writing

    def append_commands(self, term: int, commands: Sequence[bytes]) -> int:
        """Appends a leader's proposals; returns the index of the first."""
        first = index = self.last_index + 1
        tail = self._tail
        size = 0
        command = EntryKind.COMMAND
        for data in commands:
            tail.append(Entry(term, index, command, data))
            size += len(data)
            index += 1
        self._tail_bytes += size
        self.last_index = index - 1
        self.last_term = term
        return first

    def append(self, entries: Sequence[Entry]) -> None:
        """Entries that follow the last one."""
        configured = False
        size = 0
        for entry in entries:
            size += len(entry.data)
            if entry.kind is EntryKind.CONFIGURATION:
                self._configurations.append((entry.index, decode_configuration(entry)))
                configured = True
        self._tail.extend(entries)
        self._tail_bytes += size
        self.last_index = entries[-1].index
        self.last_term = entries[-1].term
        if configured:
            self._use_latest_configuration()

    def merge(self, entries: Sequence[Entry]) -> None:
        """Merges a leader's entries whose predecessor is here. Only a real conflict truncates: a
        late copy of an older APPEND must not remove entries that were acknowledged after it.

        Raises LogCorrupted if a committed entry conflicts.
        """
        for position, entry in enumerate(entries):
            if entry.index > self.last_index:
                self.append(entries[position:])
                return
            if self.term(entry.index) != entry.term:
                self._truncate(entry.index)
                self.append(entries[position:])
                return

    def _truncate(self, index: int) -> None:
        if index <= self.commit:
            raise LogCorrupted(
                f"a leader's entry {index} conflicts with a committed one (commit {self.commit}): "
                "two leaders committed different entries; keep the files and compare the replicas"
            )
        if index >= self._tail_first:
            del self._tail[index - self._tail_first :]
            self._tail_bytes = sum(len(entry.data) for entry in self._tail)
        else:
            self._tail = []
            self._tail_first = index
            self._tail_bytes = 0
        self.stable = min(self.stable, index - 1)
        self._in_flight = min(self._in_flight, index - 1)
        self.last_term = self.term(index - 1)
        self.last_index = index - 1
        while self._configurations and self._configurations[-1][0] >= index:
            self._configurations.pop()
        self._use_latest_configuration()

    def commit_to(self, index: int) -> bool:
        """Raise the commit index; whether it rose."""
        if index <= self.commit:
            return False
        if index > self.last_index:
            raise LogCorrupted(
                f"entry {index} is committed and was stored here, but the log ends at "
                f"{self.last_index}: its tail was lost; replace this replica"
            )
        self.commit = index
        return True

    def overwrites_committed(self, entries: Sequence[Entry]) -> bool:
        """Returns whether merge(entries) would have to remove a committed entry."""
        for entry in entries:
            if entry.index > min(self.commit, self.last_index):
                return False
            if self.term(entry.index) != entry.term:
                return True
        return False

    def forget_commits(self) -> None:
        """Records that a new lineage began: what was committed before it, and isn't handed out to
        be applied, is committed only if that lineage's leader says so.
        """
        self.commit = self.handed_out

    def install(self, meta: SnapshotMeta) -> None:
        """Replace everything by the snapshot, once the host has stored it."""
        self.pending_snapshot = meta
        self._snapshot_taken = False
        self._tail = []
        self._tail_first = meta.index + 1
        self._tail_bytes = 0
        self.first_index = meta.index + 1
        self.last_index = self.stable = self._in_flight = meta.index
        self.last_term = meta.term
        self.commit = self.handed_out = meta.index
        self._configurations = [(meta.configuration_index, meta.configuration)]
        self._use_latest_configuration()

    def compact(self, index: int) -> None:
        """Forgets the entries up to `index`, which the store dropped."""
        if index < self.first_index:
            return
        if index > self.applied:
            raise LogCorrupted(f"entry {index} was compacted, but only {self.applied} is applied")
        self._drop_cached(index - self._tail_first + 1)
        self.first_index = index + 1
        at, _ = self.configuration_at(index)
        self._configurations = [each for each in self._configurations if each[0] >= at]

    # what the host has to store and to apply

    @property
    def has_unstored(self) -> bool:
        return self.last_index > self.stable or (
            self.pending_snapshot is not None and not self._snapshot_taken
        )

    @property
    def has_committed(self) -> bool:
        return self.handed_out < self.commit and self.handed_out < self.stable

    def take_unstored(self) -> tuple[SnapshotMeta | None, tuple[Entry, ...]]:
        """Returns the snapshot and entries to store now; `stored()` confirms them."""
        self._in_flight = self.last_index
        snapshot = None if self._snapshot_taken else self.pending_snapshot
        self._snapshot_taken = snapshot is not None
        if self.last_index == self.stable:
            return snapshot, ()
        return snapshot, tuple(self._tail[self.stable + 1 - self._tail_first :])

    def stored(self, snapshot: SnapshotMeta | None) -> None:
        """Confirms that the result of `take_unstored()` is durable. Entries truncated since are not
        counted.
        """
        self.stable = self._in_flight
        if snapshot is not None and snapshot is self.pending_snapshot:
            self.pending_snapshot = None
            self._snapshot_taken = False
            self.applied = snapshot.index  # lower, if it is of a new lineage
        if self._tail_bytes > self._cached_bytes:
            self._trim_cache()

    def take_committed(self, max_bytes: int) -> tuple[Entry, ...]:
        """Takes the next entries to apply: committed and stored."""
        if not self.has_committed:
            return ()
        hi = min(self.commit, self.stable) + 1
        entries = tuple(self.entries(self.handed_out + 1, max_bytes, hi))
        self.handed_out = entries[-1].index
        return entries

    def _trim_cache(self) -> None:
        """Drop the older stored entries, to half the limit, so that trimming is rare."""
        size = self._tail_bytes
        count = 0
        stored = self.stable + 1 - self._tail_first
        while count < stored and size > self._cached_bytes // 2:
            size -= len(self._tail[count].data)
            count += 1
        self._drop_cached(count)

    def _drop_cached(self, count: int) -> None:
        count = min(count, self.stable + 1 - self._tail_first)
        if count > 0:
            self._tail_bytes -= sum(len(entry.data) for entry in self._tail[:count])
            del self._tail[:count]
            self._tail_first += count

    def _use_latest_configuration(self) -> None:
        if self._configurations:
            self.configuration_index, self.configuration = self._configurations[-1]
            self.token = self.configuration.token
        else:
            self.configuration_index, self.configuration, self.token = 0, None, 0
