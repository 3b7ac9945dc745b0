"""The progress of a catching-up peer, and the rate at which it may be fed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from zonequake_store.raft.messages import Entry

ENTRY_OVERHEAD_BYTES = 32
"""The cost of an entry beside its data, so that empty entries are not free."""


class SizedLog(Protocol):
    """A log that knows about how many bytes of data follow an entry."""

    @property
    def last_index(self) -> int: ...

    def bytes_behind(self, index: int) -> int: ...


class PeerCatchUp:
    """One peer of one attempt. `target`: the leader's last index when it began."""

    __slots__ = (
        "_best",
        "_sent_to",
        "_start",
        "by_snapshot",
        "bytes_done",
        "bytes_sent",
        "bytes_total",
        "silent_ticks",
        "target",
    )

    def __init__(self, target: int) -> None:
        self.target = target
        self.silent_ticks = 0
        self.bytes_sent = 0
        """Entries in APPENDs, with their overhead, and pieces of snapshots."""
        self.bytes_done = self.bytes_total = 0
        """Bytes of the transfer that runs: the log's from where the peer began, or the snapshot's.
        Bytes sent again count once.
        """
        self.by_snapshot = False
        """The last supply was a piece of a snapshot."""
        self._start: int | None = None
        self._sent_to: int | None = None
        """The last entry that left, since the peer is supplied from the log."""
        self._best = 0.0

    def historical(self, previous: int, entries: Sequence[Entry], log: SizedLog) -> int:
        """Counts entries after `previous` that leave; the first call shows where the peer began.
        Returns the bytes that they count.
        """
        if self._start is None:
            self._start = previous
        if not entries:
            return 0
        sent_to = self._sent_to
        if sent_to is None:
            sent_to = previous
            self.by_snapshot = False
            self.bytes_done = 0
            overhead_bytes = (log.last_index - previous) * ENTRY_OVERHEAD_BYTES
            self.bytes_total = log.bytes_behind(previous) + overhead_bytes
        size_bytes = 0
        for entry in entries:
            entry_bytes = len(entry.data) + ENTRY_OVERHEAD_BYTES
            size_bytes += entry_bytes
            if entry.index > sent_to:
                self.bytes_done += entry_bytes
        self.bytes_total = max(self.bytes_total, self.bytes_done)
        self._sent_to = max(sent_to, entries[-1].index)
        self.bytes_sent += size_bytes
        return size_bytes

    def full(self, index: int, piece_bytes: int, sent_bytes: int, total_bytes: int) -> None:
        """Records that a piece left: `sent_bytes` of the snapshot at `index` are at the peer or on
        the way.
        """
        if self._start is None:
            self._start = 0
        self.by_snapshot = True
        self._sent_to = None
        self.bytes_sent += piece_bytes
        self.bytes_done, self.bytes_total = sent_bytes, total_bytes
        self._raise(min(index, self.target) * sent_bytes / max(total_bytes, 1))

    def fraction(self, match: int) -> float:
        """0..1, by entries; never falls; 1 only when the peer has stored up to the target."""
        if match >= self.target:
            self._best = 1.0
        elif self._start is not None:
            self._raise(match)
        return self._best

    def _raise(self, reached: float) -> None:
        start = min(self._start or 0, self.target - 1)
        share = (reached - start) / max(self.target - start, 1)
        self._best = max(self._best, min(share, 0.999))


class CatchUpLimit:
    """A token bucket that each tick refills; it may fall below zero by one message, so that an
    entry larger than a tick's share passes too."""

    __slots__ = ("_available_bytes", "_bytes_per_second", "_tick_s", "spent_bytes")

    def __init__(self, *, bytes_per_second: int, tick_s: float) -> None:
        self._tick_s = tick_s
        self.spent_bytes = 0
        """All bytes that ever left for catching-up peers, at any rate."""
        self.set_rate(bytes_per_second)

    def set_rate(self, bytes_per_second: int) -> None:
        """0: unlimited."""
        self._bytes_per_second = bytes_per_second
        self._available_bytes = bytes_per_second * self._tick_s

    @property
    def bytes_per_second(self) -> int:
        return self._bytes_per_second

    @property
    def may_send(self) -> bool:
        return not self._bytes_per_second or self._available_bytes > 0

    def sendable_bytes(self, at_most: int) -> int:
        if not self._bytes_per_second:
            return at_most
        return max(1, min(at_most, int(self._available_bytes)))

    def spend(self, size_bytes: int) -> None:
        self._available_bytes -= size_bytes
        self.spent_bytes += size_bytes

    def tick(self) -> None:
        share = self._bytes_per_second * self._tick_s
        self._available_bytes = min(self._available_bytes + share, share)
