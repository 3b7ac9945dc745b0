"""Linearizable reads by read index (thesis §6.4), batched.

    read() … read()          ┌ waiting ┐
    heartbeats with round n  └─────────┴▶ running ── a quorum confirmed round ≥ n ──▶ answered

One round runs at a time and serves all reads that were waiting when it began; those that come later
wait for the next. A lost heartbeat is made up by the regular ones: each carries the newest round.
"""

from __future__ import annotations

from zonequake_store.raft.api import ReadState
from zonequake_store.raft.state import RaftState


class ReadRounds:
    """The reads of one leadership."""

    __slots__ = ("_index", "_replica", "_round", "_running", "_waiting")

    def __init__(self, replica: RaftState) -> None:
        self._replica = replica
        self._waiting: list[int] = []
        self._running: list[int] = []
        self._index = 0
        self._round = 0

    @property
    def due(self) -> bool:
        """Returns whether a round should begin."""
        return bool(self._waiting) and not self._running

    @property
    def running(self) -> bool:
        return bool(self._running)

    def add(self) -> int:
        replica = self._replica
        replica.read_request += 1
        self._waiting.append(replica.read_request)
        return replica.read_request

    def begin(self) -> int:
        """Begin a round; returns its number. The leader has committed an entry of its term."""
        self._running, self._waiting = self._waiting, []
        self._index = self._replica.log.commit
        self._replica.read_round += 1
        self._round = self._replica.read_round
        return self._round

    def confirmed(self, round_number: int) -> None:
        """Records that a quorum followed this leader after `round_number` began."""
        if self._running and round_number >= self._round:
            self._replica.out.reads.extend(
                ReadState(request=request, index=self._index) for request in self._running
            )
            self._running = []

    def abort(self) -> None:
        self._replica.out.aborted_reads += self._running + self._waiting
        self._running, self._waiting = [], []
