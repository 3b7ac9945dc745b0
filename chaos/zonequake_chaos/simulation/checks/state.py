"""What replicas apply (research §7, invariants 9, 31 and those of counters)."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from zonequake_chaos.simulation.checks.ledger import Ledger
from zonequake_chaos.simulation.violation import Violation, require
from zonequake_store.raft.messages import Entry
from zonequake_store.replica import Replica

if TYPE_CHECKING:
    from zonequake_chaos.simulation.checks.life import Life


class StateRules:
    """All replicas apply the same, and say truly how far they are."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def handed_out(self, life: Life, entries: tuple[Entry, ...]) -> None:
        """Entries are about to be applied: the next ones, and the same as everywhere."""
        digest, digests = life.digest, self._ledger.digests
        for entry in entries:
            mixed = (digest * 31 + entry.term * 8191 + entry.index) & 0xFFFFFFFF
            digest = zlib.crc32(entry.data, mixed)
            known = digests.setdefault(entry.index, digest)
            if known != digest:
                raise Violation("replicas apply the same", peer=life.peer, index=entry.index)
        life.digest = digest

    def applied(self, replica: Replica) -> None:
        """A replica has applied entries: its marks lie within what it has applied."""
        state = replica.partition.state
        require(
            state.last_user_index <= state.index and state.last_configuration_index <= state.index,
            "what is marked as applied is applied",
            peer=replica.me,
            state=state,
        )
        require(
            self._ledger.chosen.get(state.index) == state.term,
            "only what is committed is applied",
            peer=replica.me,
            index=state.index,
            term=state.term,
        )
