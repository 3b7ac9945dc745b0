"""Nothing that rests on storage leaves before it is stored (research §7, invariant 10)."""

from __future__ import annotations

from zonequake_chaos.simulation.checks.ledger import Ledger
from zonequake_chaos.simulation.violation import Violation
from zonequake_store.raft.messages import Kind, Message

_ASKS_ONLY = frozenset({Kind.PRE_VOTE, Kind.PRE_VOTE_REPLY})
"""They speak of a term that would come, or of none."""


class StorageRules:
    """Messages say only what a crash of their sender would leave true."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def sent(self, message: Message) -> None:
        """A message leaves."""
        kind = message.kind
        if kind in _ASKS_ONLY:
            return
        stored = self._ledger.stored[message.sender]
        if message.term > stored.term:
            raise Violation(
                "a term is stored before it is spoken of",
                kind=kind.name,
                peer=message.sender,
                term=message.term,
                stored=stored.term,
            )
        if message.reject:
            return
        if kind is Kind.VOTE_REPLY and stored.term == message.term and stored.vote != message.to:
            raise Violation(
                "a vote is stored before it is given",
                peer=message.sender,
                term=message.term,
                candidate=message.to,
                stored=stored.vote,
            )
        if kind in (Kind.APPEND_REPLY, Kind.HEARTBEAT_REPLY) and message.index > stored.last_index:
            raise Violation(
                "an entry is stored before it is acknowledged",
                kind=kind.name,
                peer=message.sender,
                index=message.index,
                stored=stored.last_index,
            )
