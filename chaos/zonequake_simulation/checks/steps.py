"""Rules for the effect of one message on a replica (Raft paper, figure 3; thesis §3.6.1,
§4.2.3).

Whether a replica has a live leader is computed here independently: from the leader's last message
on, for the shortest election time-out, unless the replica got proof that the leader's process has
ended.
"""

from __future__ import annotations

from typing import NamedTuple

from zonequake_protocol.terms import lineage_of
from zonequake_simulation.violation import require
from zonequake_store.raft.api import RaftRole
from zonequake_store.raft.election import TRANSFER
from zonequake_store.raft.messages import Message, MessageKind, Peer
from zonequake_store.raft.state import RaftState

_FROM_LEADERS = frozenset({MessageKind.APPEND, MessageKind.HEARTBEAT, MessageKind.SNAPSHOT})


class ReplicaBefore(NamedTuple):
    """The state of a replica before it takes a message."""

    term: int
    vote: Peer | None
    log: tuple[int, int, int]
    heeds_a_leader: bool
    answers: int
    """Number of answers that wait to be sent."""


class Steps:
    """Messages that one replica takes, in one life."""

    def __init__(self, core: RaftState) -> None:
        self._core = core
        self._ticks = 0
        self._heard_at = -core.settings.election_ticks
        """The tick at which it last heard its leader."""
        self._heard: tuple[Peer, int] | None = None
        """That leader, and its term; None: its process has ended."""

    def ticked(self, count: int) -> None:
        """Takes note of a tick of its clock."""
        self._ticks += count

    def node_ended(self, node: str) -> None:
        """Takes note of a proof that the process of this node has ended."""
        if self._heard is not None and self._heard[0].node == node:
            self._heard = None

    def before(self) -> ReplicaBefore:
        """Takes the state before a message."""
        core, log = self._core, self._core.log
        silent_ticks = self._ticks - self._heard_at
        return ReplicaBefore(
            core.term,
            core.vote,
            (log.last_index, log.last_term, log.commit),
            core.role is RaftRole.LEADER
            or (
                self._heard is not None
                and self._heard[1] == core.term
                and silent_ticks < core.settings.election_ticks
            ),
            len(core.out.after_store),
        )

    def after(self, message: Message, before: ReplicaBefore) -> None:
        """Judges the state after the message."""
        core, log = self._core, self._core.log
        kind = message.kind
        if kind in _FROM_LEADERS:
            if message.term < before.term:
                require(
                    (log.last_index, log.last_term, log.commit) == before.log,
                    "a leader of an older term is not obeyed",
                    peer=core.me,
                    message=message,
                    before=before,
                )
            elif core.leader == message.sender:
                self._heard_at = self._ticks
                self._heard = message.sender, core.term
        elif kind is MessageKind.PRE_VOTE:
            if before.heeds_a_leader and lineage_of(message.term) == lineage_of(before.term):
                require(
                    all(each.reject for each in core.out.after_store[before.answers :]),
                    "a replica that hears a leader promises no vote",
                    peer=core.me,
                    candidate=message,
                    before=before,
                )
        elif kind is MessageKind.VOTE:
            given = (message.term, message.sender)
            if given == (core.term, core.vote) != (before.term, before.vote):
                require(
                    (message.log_term, message.index) >= (log.last_term, log.last_index),
                    "a vote goes to a log that is at least as new",
                    peer=core.me,
                    candidate=message,
                    last=(log.last_index, log.last_term),
                )
            if (
                before.heeds_a_leader
                and message.context != TRANSFER
                and lineage_of(message.term) == lineage_of(before.term)
            ):
                require(
                    core.term == before.term,
                    "no candidate disturbs a replica that hears a leader",
                    peer=core.me,
                    candidate=message,
                    before=before,
                )
