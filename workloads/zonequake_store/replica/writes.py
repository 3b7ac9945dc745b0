"""Writes of one replica's clients, from their request to their answer.

    offer ─► offered ─take_offered─► proposed ─► pending[index] ─applied─► the entry's outcome

A pending proposal ends in one of three ways: its entry is applied (the outcome), another entry is
applied at its index (certainly lost: `not_leader`), or leadership goes first (`unknown`: it may
still be committed by the next leader).
"""

from __future__ import annotations

from dataclasses import dataclass

from zonequake_protocol.client import Append, Cas, Reply, ReplyStatus, Write
from zonequake_store.replica.reads import SendReply


@dataclass(slots=True)
class OfferedWrite:
    """One write and its client. Not frozen, as `ProposedWrite`: that costs three times as much."""

    id: int
    operation: Write | Append | Cas
    answer: SendReply


@dataclass(slots=True)
class ProposedWrite:
    """One write that stands in the core's log, and its client."""

    id: int
    answer: SendReply
    term: int


@dataclass(slots=True)
class AnsweredWrites:
    """Counts the writes, appends and cas that were answered `ok`, also a cas that found another
    value.

    `first`: by the entry that had the effect; `repeated`: by one of the same id that came again.
    """

    first: int = 0
    repeated: int = 0

    def count(self, reply: Reply, *, first: bool) -> None:
        """Counts the reply to a write."""
        if reply.status is ReplyStatus.OK:
            self.first += first
            self.repeated += not first


class WaitingWrites:
    """The writes that wait for an answer. A caller that takes writes out must propose or answer
    them.
    """

    def __init__(self) -> None:
        self._offered: list[OfferedWrite] = []
        self.pending: dict[int, ProposedWrite] = {}
        """Proposed writes by the index of their entry; applying the entry pops and answers its
        write.
        """

    def __len__(self) -> int:
        return len(self.pending) + len(self._offered)

    @property
    def are_offered(self) -> bool:
        """Returns whether writes wait for `take_offered`."""
        return bool(self._offered)

    def offer(self, offered: OfferedWrite) -> None:
        """Queues a client's write."""
        self._offered.append(offered)

    def take_offered(self) -> list[OfferedWrite]:
        """Removes and returns the writes offered since the last call."""
        offered, self._offered = self._offered, []
        return offered

    def proposed(self, offered: OfferedWrite, term: int, index: int) -> None:
        """Records that the write stands in the log."""
        self.pending[index] = ProposedWrite(offered.id, offered.answer, term)

    def give_up(self, reason: str) -> None:
        """Answers every client whose write is pending that its outcome is unknown."""
        pending, self.pending = self.pending, {}
        for proposal in pending.values():
            proposal.answer(Reply(proposal.id, ReplyStatus.UNKNOWN, error=reason))

    def end_all(self, status: ReplyStatus, reason: str) -> None:
        """Answer all that wait here; `status` is for those that were never proposed."""
        self.give_up(reason)
        for offered in self.take_offered():
            offered.answer(Reply(offered.id, status, error=reason))
