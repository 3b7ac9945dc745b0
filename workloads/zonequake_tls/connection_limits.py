"""Limits on strangers at one port: connections, and memory for incomplete or unread data.

    opened ─► silent ─ a whole frame ─► known ─► a half frame ─ the rest of it ─► known
                └ SILENT_S ─► cut                  └ FRAME_S, or too many bytes ─► cut

A port that is full gives up its oldest silent connection for a new one: thousands of silent open
connections keep no client out. If all have sent a frame, the new one is refused.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

SILENT_S = 10.0
"""A peer says hello at once, and a client connects to send."""
FRAME_S = 60.0
"""For one frame; the largest needs 280 kB/s then, which a link that is slow on purpose has."""
HALF_BYTES = 64 << 20
"""The most bytes of all half frames of a port. A frame is at most 16 MiB, and nothing legal is half
for long.
"""
UNREAD_BYTES = 128 << 20
"""The most bytes that wait for clients that don't read; one alone may have a quarter of it."""
_SWEEP_S = 1.0


class LimitedConnection(Protocol):
    """A connection."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the kernel did not take yet."""

    def abort(self) -> None:
        """Closes the connection at once; discards what waits."""


@dataclass(slots=True)
class _Half:
    began_s: float
    held_bytes: int


class ConnectionLimits:
    """The connections of the port `name`, at most `most`; those that said nothing for `silent_s`
    are cut. `cut` counts the connections that were cut, by reason.
    """

    def __init__(self, name: str, *, most: int, silent_s: float = SILENT_S) -> None:
        self.name = name
        self.most = most
        self._silent_s = silent_s
        self.cut: Counter[str] = Counter()
        self._members: set[LimitedConnection] = set()
        self._silent: dict[LimitedConnection, float] = {}
        self._halves: dict[LimitedConnection, _Half] = {}
        self._half_bytes = 0
        self._unread: dict[LimitedConnection, int] = {}
        self._unread_bytes = 0
        self._sweeping: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._members)

    def entered(self, member: LimitedConnection) -> None:
        """Records that a connection was opened; it may be cut at once."""
        if len(self._members) >= self.most:
            oldest = next(iter(self._silent), member)
            self._cut(oldest, "full")
            if oldest is member:
                return
        self._members.add(member)
        self._silent[member] = self._now_s()
        if self._sweeping is None:
            self._sweep_later()

    def left(self, member: LimitedConnection) -> None:
        """Removes a connection that is gone."""
        self._members.discard(member)
        self._silent.pop(member, None)
        self.whole(member)
        self._unread_bytes -= self._unread.pop(member, 0)

    def spoke(self, member: LimitedConnection) -> None:
        """Records that a connection has sent its first whole frame."""
        self._silent.pop(member, None)

    def holds(self, member: LimitedConnection, held_bytes: int) -> None:
        """Records that so many bytes of a half frame are here now."""
        half = self._halves.get(member)
        if half is None:
            half = self._halves[member] = _Half(self._now_s(), 0)
        self._half_bytes += held_bytes - half.held_bytes
        half.held_bytes = held_bytes
        if self._half_bytes > HALF_BYTES:
            largest = max(self._halves, key=lambda each: self._halves[each].held_bytes)
            self._cut(largest, "half-frames")

    def whole(self, member: LimitedConnection) -> None:
        """Records that the connection has no half frame any more."""
        half = self._halves.pop(member, None)
        if half is not None:
            self._half_bytes -= half.held_bytes

    def owes(self, member: LimitedConnection, unsent_bytes: int) -> None:
        """Records that so many bytes wait for the connection's other side to read."""
        self._unread_bytes += unsent_bytes - self._unread.get(member, 0)
        self._unread[member] = unsent_bytes
        if unsent_bytes > UNREAD_BYTES // 4:
            self._cut(member, "unread")
        elif self._unread_bytes > UNREAD_BYTES:
            # Others may have read meanwhile.
            self._unread = {each: each.unsent_bytes for each in self._unread}
            self._unread_bytes = sum(self._unread.values())
            if self._unread_bytes > UNREAD_BYTES:
                self._cut(max(self._unread, key=self._unread.__getitem__), "unread")

    def close(self) -> None:
        """Stops watching."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None

    def _cut(self, member: LimitedConnection, reason: str) -> None:
        self.cut[reason] += 1
        self.left(member)
        member.abort()

    def _sweep_later(self) -> None:
        self._sweeping = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        now_s = self._now_s()
        for member in [
            m for m, since_s in self._silent.items() if now_s - since_s > self._silent_s
        ]:
            self._cut(member, "silent")
        for member in [m for m, half in self._halves.items() if now_s - half.began_s > FRAME_S]:
            self._cut(member, "slow")
        self._sweeping = None
        if self._members:
            self._sweep_later()

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()
