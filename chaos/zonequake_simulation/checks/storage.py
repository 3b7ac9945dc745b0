"""Rules that everything sent was stored before, and everything stored is found again (Raft paper,
figure 2: persistent state; design §4, Storage).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonequake_protocol.terms import lineage_of
from zonequake_simulation.checks.ledger import Ledger, StoredLog
from zonequake_simulation.violation import Violation, require
from zonequake_store.raft.messages import Message, MessageKind, SnapshotMeta

if TYPE_CHECKING:
    from zonequake_simulation.checks.life import Life

_ASKS_ONLY = frozenset({MessageKind.PRE_VOTE, MessageKind.PRE_VOTE_REPLY})
"""Kinds of messages about a term that would come, or about no term."""


class StorageRules:
    """A message contains only what stays true after a crash of its sender."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def recovered(self, life: Life, *, is_volatile: bool) -> None:
        """Checks that a replica recovers its term, vote and log as stored, or has a new name."""
        peer, core, log = life.peer, life.core, life.core.log
        stored = self._ledger.stored.get(peer)
        if stored is None:
            self._ledger.stored[peer] = StoredLog()
            return
        require(
            not is_volatile,
            "a replica that lost its state has a new incarnation",
            peer=peer,
            term=stored.term,
        )
        found = [log.term(index) for index in range(log.first_index, log.last_index + 1)]
        require(
            (core.term, core.vote, log.first_index, found)
            == (stored.term, stored.vote, stored.first_index, stored.terms),
            "a restarted replica finds what was stored",
            peer=peer,
            found=(core.term, core.vote, log.first_index, found),
            stored=(stored.term, stored.vote, stored.first_index, stored.terms),
        )

    def replaces(self, life: Life, snapshot: SnapshotMeta) -> None:
        """Checks a snapshot that is about to replace a log."""
        stored = self._ledger.stored[life.peer]
        held = snapshot.index <= stored.last_index and stored.holds(snapshot.index, snapshot.term)
        # A log without anything of the newest lineage may hold the entry, followed by entries of
        # another.
        last_term = stored.terms[-1] if stored.terms else stored.start_term
        require(
            not held or lineage_of(last_term) < lineage_of(life.core.term),
            "a snapshot does not replace a log that holds its last entry",
            peer=life.peer,
            snapshot=(snapshot.index, snapshot.term),
            last=stored.last_index,
        )

    def sent(self, message: Message) -> None:
        """Checks a message that is sent."""
        kind = message.kind
        if kind in _ASKS_ONLY:
            return
        stored = self._ledger.stored[message.sender]
        if message.term > stored.term:
            raise Violation(
                "a term is stored before a message names it",
                kind=kind.name,
                peer=message.sender,
                term=message.term,
                stored=stored.term,
            )
        if message.reject:
            return
        if (
            kind is MessageKind.VOTE_REPLY
            and stored.term == message.term
            and stored.vote != message.to
        ):
            raise Violation(
                "a vote is stored before it is given",
                peer=message.sender,
                term=message.term,
                candidate=message.to,
                stored=stored.vote,
            )
        if (
            kind in (MessageKind.APPEND_REPLY, MessageKind.HEARTBEAT_REPLY)
            and message.index > stored.last_index
        ):
            raise Violation(
                "an entry is stored before it is acknowledged",
                kind=kind.name,
                peer=message.sender,
                index=message.index,
                stored=stored.last_index,
            )
