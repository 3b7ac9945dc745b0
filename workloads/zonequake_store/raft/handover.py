"""The end of a leadership: it hands over to a peer (thesis §3.10) or leaves with its set
(§4.2.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonequake_store.raft.messages import Message, MessageKind, Peer
from zonequake_store.raft.progress import ReplicationProgress

if TYPE_CHECKING:
    from zonequake_store.raft.leader import Leader


class Handover:
    """The handover of one leadership; each way takes an election time-out at most."""

    __slots__ = ("_departing_ticks", "_leader", "_transfer_ticks", "_transfer_to")

    def __init__(self, leader: Leader) -> None:
        self._leader = leader
        self._transfer_to: Peer | None = None
        self._transfer_ticks = 0
        self._departing_ticks: int | None = None

    @property
    def is_under_way(self) -> bool:
        return self._transfer_to is not None or self.is_departing

    @property
    def is_transfer(self) -> bool:
        """Returns whether a peer was chosen to lead instead."""
        return self._transfer_to is not None

    @property
    def is_departing(self) -> bool:
        """Returns whether this leader, which is in no set any more, only finishes what it
        accepted.
        """
        return self._departing_ticks is not None

    @property
    def successor(self) -> Peer | None:
        """The peer to ask from now on; None: nothing is under way."""
        if self._transfer_to is None and self.is_departing:
            return max(self._leader.new_half, key=lambda each: each.match).peer
        return self._transfer_to

    def tick(self) -> bool:
        """Returns whether the leadership goes on."""
        replica = self._leader.replica
        limit = replica.settings.election_ticks
        if self._transfer_to is not None:
            self._transfer_ticks += 1
            if self._transfer_ticks >= limit:
                self._transfer_to = None
            else:
                self._finish_transfer()  # the first request may be lost
        if self._departing_ticks is not None:
            self._departing_ticks += 1
            if self._departing_ticks >= limit:
                self._leave()
                return False
        if replica.refusing and self._transfer_to is None:
            self.transfer(None)
        return True

    def transfer(self, to: Peer | None) -> bool:
        """Hand over to `to` or the best follower; see Raft.transfer_leadership."""
        candidates = [each for each in self._leader.new_half if not each.ended]
        if to is not None:
            candidates = [each for each in candidates if each.peer == to]
        if not candidates:
            return False
        best = max(candidates, key=lambda each: (each.active, each.match, each.peer))
        if self._transfer_to != best.peer:
            self._transfer_to = best.peer
            self._transfer_ticks = 0
            self._leader.append_soon()
            self._finish_transfer()
        return True

    def node_ended(self) -> None:
        """Records that some peer's process has ended; another one leads if it was to."""
        progress = self._leader.progress.get(self._transfer_to) if self._transfer_to else None
        if progress is not None and progress.ended:
            self._transfer_to = None
            self.transfer(None)

    def advanced(self, progress: ReplicationProgress) -> None:
        """Records that this peer has stored more."""
        if progress.peer == self._transfer_to:
            self._finish_transfer()

    def _finish_transfer(self) -> None:
        """TIMEOUT_NOW, once the successor has everything."""
        assert self._transfer_to is not None, "only called in a transfer"
        progress = self._leader.progress.get(self._transfer_to)
        if progress is None:
            self._transfer_to = None
        elif progress.match == self._leader.replica.log.last_index:
            self._send_timeout_now(progress.peer)

    def _send_timeout_now(self, peer: Peer) -> None:
        replica = self._leader.replica
        replica.out.messages.append(
            Message(
                kind=MessageKind.TIMEOUT_NOW,
                to=peer,
                sender=replica.me,
                term=replica.term,
                token=replica.log.token,
            )
        )

    def depart(self) -> None:
        """Lets another replica lead at once, as the committed configuration doesn't name this one.

        Called whenever the commit index rises. What clients have proposed is committed first, so
        that they are answered and a successor with the whole log exists; nothing new is taken.
        """
        leader = self._leader
        log = leader.replica.log
        if self._departing_ticks is None:
            self._departing_ticks = 0
            leader.append_soon()
        if log.commit < log.last_index:
            return
        leader.send_heartbeats(leader.progress.values())  # with the commit index
        complete = [each for each in leader.new_half if each.match == log.last_index]
        best = max(complete, key=lambda each: (not each.ended, each.active, each.peer))
        self._send_timeout_now(best.peer)
        self._leave()

    def _leave(self) -> None:
        replica = self._leader.replica
        replica.become_follower(
            replica.term, None, "the leader is no member of the new configuration"
        )
