"""An upper bound on the age of a follower's state: no lease, and no clock but the follower's own.

    follower                            leader
      answer, stamp s ────────────────▶ has s; its commit index is c
                                        begins round n  ── heartbeats ─▶ all peers
                                        a quorum confirmed round ≥ n   ◀─
      claim (s, c)  ◀── heartbeat ───── echoes (s, c)
      applied ≥ c: everything that was acknowledged before my own time s is in my state

Why it holds: a quorum that followed this leader after round n began had elected no other before, so
nothing beyond c had been acknowledged when the round began (that is the read index, thesis §6.4,
and so c counts only once an entry of the leader's own term is committed). s was sent before that.
So a write acknowledged before the follower's time s stands at or below c. Delay, loss, doubling and
reordering only make a claim older; another leader's claim is as true as this one's.

The bound is counted on the follower's clock alone: the answer to a read may be as old as now - s.
A clock that stops while the process does (a count of ticks) would not do: a paused replica would
come back believing that no time had passed. So the host gives the time with each tick, and `stamp`
is that of the last one, which is before the message leaves: earlier, never later.

Stamps travel only while reads ask how fresh a state is, and for a while after: the heartbeats of an
idle group stay the same from one to the next, which the transport makes use of. The first question
gets "unknown"; some heartbeats later the age is known.

A stamp travels with a random number added that is drawn at each start, and counts only between the
start and now. Otherwise the echo of a stamp from before a reboot, after which the clock began at 0
again, would make any state look fresh.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from zonequake_store.raft.progress import ReplicationProgress

# A claim comes with each heartbeat. A follower that applies slowly needs the oldest, one in step
# the newest; what comes when this many wait for it is dropped.
_WAITING_CLAIMS = 16

_WANTED_MS = 10_000
"""How long after the last question the answer is kept up to date: polls come more often than that.
"""


class Freshness:
    """The claims of one replica's life. Times are of the host's monotonic clock."""

    __slots__ = (
        "_claims",
        "_hidden",
        "_newest_ms",
        "_since_ms",
        "_start_ms",
        "_wanted_until_ms",
        "now_ms",
    )

    def __init__(self, random: Callable[[int], int]) -> None:
        self._hidden = 1 + random(1 << 62)
        self._start_ms: int | None = None
        self.now_ms = 0
        """At the last tick."""
        self._claims: deque[tuple[int, int]] = deque()
        """(time, commit index) that wait to be applied; both ascend."""
        self._newest_ms = -1
        self._since_ms: int | None = None
        self._wanted_until_ms = -1

    def tick(self, now_ms: int) -> None:
        """Sets the time to `now_ms`."""
        if self._start_ms is None:
            self._start_ms = now_ms
        self.now_ms = now_ms

    @property
    def is_wanted(self) -> bool:
        """Returns whether freshness was asked for recently."""
        return self.now_ms <= self._wanted_until_ms

    def stamp(self) -> int:
        """Returns the stamp to send along: the time of the last tick, hidden; 0 if no read waits
        for it.
        """
        if self._start_ms is None or not self.is_wanted:
            return 0
        return self._hidden + self.now_ms

    def echoed(self, stamp: int, commit: int) -> None:
        """Records that a leader says that everything acknowledged before `stamp` was sent is at or
        below `commit`.
        """
        at_ms = stamp - self._hidden
        if self._start_ms is not None and self._start_ms <= at_ms <= self.now_ms:
            self.claim(at_ms, commit)

    def claim(self, at_ms: int, commit: int) -> None:
        """Records the same as `echoed`, for a time of this replica's own clock."""
        if at_ms > self._newest_ms and len(self._claims) < _WAITING_CLAIMS:
            self._newest_ms = at_ms
            self._claims.append((at_ms, commit))

    def since_ms(self, applied: int) -> int | None:
        """Returns the time before which everything acknowledged is in the state at `applied`; None:
        unknown.

        Asking keeps the claims coming for a while.
        """
        self._wanted_until_ms = self.now_ms + _WANTED_MS
        while self._claims and self._claims[0][1] <= applied:
            self._since_ms = self._claims.popleft()[0]
        return self._since_ms

    def forget(self) -> None:
        """Records that a new lineage began, of which nothing is known yet."""
        self._claims.clear()
        self._since_ms = None


class EchoRounds:
    """The leader's part: one round at a time, begun with a heartbeat, for all peers' stamps."""

    __slots__ = ("_at_ms", "_commit", "_round", "due", "running")

    def __init__(self) -> None:
        self.due = False
        """A stamp came that was not echoed yet."""
        self.running = False
        self._round = 0
        self._commit = 0
        self._at_ms = 0

    def begin(
        self, round_number: int, *, commit: int, now_ms: int, peers: Iterable[ReplicationProgress]
    ) -> None:
        """Records that the stamps that are here now are earlier than the round."""
        self.running, self.due = True, False
        self._round, self._commit, self._at_ms = round_number, commit, now_ms
        for peer in peers:
            peer.offered_stamp, peer.stamp = peer.stamp, 0

    def confirmed(
        self, round_number: int, own: Freshness, peers: Iterable[ReplicationProgress]
    ) -> None:
        """Records that a quorum followed this leader after `round_number` began; the leader may
        claim too.
        """
        if not self.running or round_number < self._round:
            return
        self.running = False
        own.claim(self._at_ms, self._commit)
        for peer in peers:
            if peer.offered_stamp:
                peer.echo_stamp, peer.echo_commit = peer.offered_stamp, self._commit
                peer.offered_stamp = 0
