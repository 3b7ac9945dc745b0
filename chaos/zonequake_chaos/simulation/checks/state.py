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
        self._counters: dict[tuple[int, int], tuple[object, ...]] = {}
        """(index, term) → counters of whoever applied it first."""

    def handed_out(self, life: Life, entries: tuple[Entry, ...]) -> None:
        """Entries are about to be applied: the next ones, and the same as everywhere."""
        digest, digests = life.digest, self._ledger.digests
        model = self._ledger.lineage(life.core.term).model
        if entries[0].index != life.handed_to + 1:
            raise Violation(
                "entries are applied one after the other",
                peer=life.peer,
                before=life.handed_to,
                next=entries[0].index,
            )
        life.handed_to = entries[-1].index
        for entry in entries:
            mixed = (digest * 31 + entry.term * 8191 + entry.index) & 0xFFFFFFFF
            digest = zlib.crc32(entry.data, mixed)
            known = digests.setdefault((entry.index, entry.term), digest)
            if known != digest:
                raise Violation("replicas apply the same", peer=life.peer, index=entry.index)
            model.apply(entry)
        life.digest = digest

    def holds(self, replica: Replica) -> None:
        """A replica begins with a state that it found, or was given: it is what a plain model of
        its log comes to, with the counters that all others had there."""
        partition = replica.partition
        model = self._ledger.lineage(partition.term).model
        for key in model.keys:
            cell = partition.read(key)
            held = None if cell is None else cell.value
            expected = model.value_at(key, partition.index)
            require(
                held == expected,
                "a state is what the log up to it comes to",
                peer=replica.me,
                key=key,
                index=partition.index,
                held=held,
                expected=expected,
            )
        if partition.index:
            self.applied(replica)

    def applied(self, replica: Replica) -> None:
        """A replica has applied entries: marks and counters are right, and as everywhere."""
        state = replica.partition.state
        index = state.index
        require(
            state.last_user_index <= index and state.last_configuration_index <= index,
            "what is marked as applied is applied",
            peer=replica.me,
            state=state,
        )
        require(
            any(lineage.has(index, state.term) for lineage in self._ledger.lineages.values()),
            "only what is committed is applied",
            peer=replica.me,
            index=index,
            term=state.term,
        )
        end = state.lwm
        for start, delta in state.ranges:
            require(
                start > end and delta > 0,
                "ranges are sorted, disjoint and above the low watermark",
                peer=replica.me,
                state=state,
            )
            end = start + delta
        require(end <= state.hwm, "the high watermark is above all", peer=replica.me, state=state)
        counted = (state.lwm, state.hwm, state.ranges)
        known = self._counters.setdefault((index, state.term), counted)
        require(
            known == counted,
            "equal indexes mean equal counters",
            peer=replica.me,
            index=index,
            a=known,
            b=counted,
        )
