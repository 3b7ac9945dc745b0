"""The messages of a leader to a peer that demands missing data (`zonequake_store.catch_up`).

Replication goes past such a peer: the host asks for each APPEND, says when it has left, and sends
pieces of the applied state where the log does not reach back.
"""

from __future__ import annotations

from zonequake_store.raft.catch_up import ENTRY_OVERHEAD_BYTES
from zonequake_store.raft.messages import Message, Peer
from zonequake_store.raft.progress import Flow
from zonequake_store.raft.state import RaftState


class PeerSupply:
    """The supplies of one replica, while it leads."""

    __slots__ = ("_replica",)

    def __init__(self, replica: RaftState) -> None:
        self._replica = replica

    def is_open(self, peer: Peer) -> bool:
        """Returns whether this leader waits for `peer` to demand what it lacks."""
        leadership = self._replica.leadership
        progress = leadership.progress.get(peer) if leadership is not None else None
        return progress is not None and progress.flow is Flow.SUPPLIED

    def next_append(self, to: Peer, *, index: int, log_term: int) -> Message | None:
        """Returns the APPEND with what a supplied peer lacks whose log ends with (index, log_term).

        It may begin before that if the logs differ, and is empty if nothing is missing or the rate
        limit is spent. None: the log does not reach back so far, only the state can help. Raises
        NotLeader, LogCompacted, or what the host's log raises if it cannot be read.
        """
        return self._replica.as_leader().supply(to, index, log_term)

    def append_left(self, append: Message) -> None:
        """Records that an APPEND of `next_append` has left: for the rate limit and the peer's
        progress.
        """
        reconfiguration = self._replica.as_leader().reconfiguration
        reconfiguration.supplied(append.to, append.index, append.entries)

    def piece_left(
        self, to: Peer, *, index: int, piece_bytes: int, sent_bytes: int, total_bytes: int
    ) -> None:
        """Records that a piece of the state at `index` leaves: for the rate limit and the peer's
        progress.
        """
        self._replica.as_leader().reconfiguration.supplied_piece(
            to, index, piece_bytes, sent_bytes, total_bytes
        )

    def allowance(self, to: Peer) -> int:
        """Bytes with which a supplied peer may be supplied now; 0: the rate limit is spent."""
        return self._replica.as_leader().allowance(to)

    def set_rate(self, bytes_per_second: int) -> None:
        """Limit what catching-up peers are supplied with; 0: unlimited."""
        self._replica.catch_up_limit.set_rate(bytes_per_second)

    @property
    def bytes_per_second(self) -> int:
        """The limit of what catching-up peers are supplied with; 0: unlimited."""
        return self._replica.catch_up_limit.bytes_per_second

    @property
    def sent_bytes(self) -> int:
        """All that this replica, as a leader, ever sent to catching-up peers."""
        return self._replica.catch_up_limit.spent_bytes

    @property
    def whole_log_bytes(self) -> int | None:
        """The bytes that a new peer would get from the log; None if the log's beginning is gone, so
        that it would get the state instead.
        """
        log = self._replica.log
        if log.first_index > 1:
            return None
        return log.bytes_behind(0) + log.last_index * ENTRY_OVERHEAD_BYTES
