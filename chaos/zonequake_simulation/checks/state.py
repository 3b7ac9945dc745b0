"""Rules for applied state (docs/simulation.md, "Rules"; design §4, Update counters)."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from zonequake_simulation.checks.ledger import Ledger
from zonequake_simulation.checks.model import Model
from zonequake_simulation.checks.transactions import TransactionRules
from zonequake_simulation.checks.users import UserRules
from zonequake_simulation.violation import Violation, require
from zonequake_store.raft.messages import Entry
from zonequake_store.replica.replica import Replica

if TYPE_CHECKING:
    from zonequake_simulation.checks.life import Life


class StateRules:
    """All replicas apply the same entries, and report their position correctly."""

    def __init__(
        self, group: str, ledger: Ledger, transactions: TransactionRules, users: UserRules
    ) -> None:
        self._group = group
        self._ledger = ledger
        self._transactions = transactions
        self._users = users
        self._counters: dict[tuple[int, int], tuple[object, ...]] = {}
        """(index, term) → counters of the first replica that applied it."""

    def handed_out(self, life: Life, entries: tuple[Entry, ...]) -> None:
        """Checks entries that are about to be applied: the next ones, and the same as
        everywhere."""
        digest, digests = life.digest, self._ledger.digests
        lineage = self._ledger.lineage(life.core.term)
        is_first = lineage is self._ledger.lineages[0]
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
            for news in lineage.model.apply(entry):
                if is_first:
                    self._transactions.happened(self._group, news)
        life.digest = digest

    def holds(self, replica: Replica) -> None:
        """Checks a state that a replica recovered or installed: it must equal that of a plain model
        of its log, with the counters that all others had there."""
        partition = replica.partition
        # A lineage may have committed entries that its survivor had of an older one: any with the
        # entry.
        model = next(
            (
                each.model
                for each in self._ledger.lineages.values()
                if each.has(partition.index, partition.term) and each.model.index >= partition.index
            ),
            self._ledger.lineage(partition.term).model,
        )
        for key in model.keys:
            cell = partition.read(key)
            held = None if cell is None else cell.value
            expected = model.value_at(key, partition.index)
            require(
                held == expected,
                "a state equals the result of the log up to it",
                peer=replica.me,
                key=key,
                index=partition.index,
                held=held,
                expected=expected,
            )
        for client, sequence, done in model.done_by(partition.index):
            session = partition.clients.sessions.get(client)
            known = session.results.get(sequence) if session is not None else None
            require(
                known is not None and (known.index, known.term) == (done.index, done.term),
                "a state knows the requests of the log up to it",
                peer=replica.me,
                request=(client, sequence),
                known=known,
                expected=done,
            )
        self._holds_transactions(replica, model)
        if partition.index:
            self.applied(replica, 0)

    def _holds_transactions(self, replica: Replica, model: Model) -> None:
        index, table = replica.partition.index, replica.partition.transactions
        kept = (set(table.prepared), set(table.decisions))
        expected = (model.prepared_at(index), model.decided_at(index))
        require(
            kept == expected,
            "a state holds the transactions that have not ended",
            peer=replica.me,
            index=index,
            prepared_and_decided=kept,
            expected=expected,
        )

    def applied(self, replica: Replica, count: int) -> None:
        """Checks applied entries: their writes, marks and counters are correct, and the same as
        everywhere."""
        state = replica.partition.state
        index = state.index
        require(
            state.last_configuration_index <= index,
            "only an applied entry is marked as applied",
            peer=replica.me,
            state=state,
        )
        self._users.applied(replica)
        lineages = [
            lineage for lineage in self._ledger.lineages.values() if lineage.has(index, state.term)
        ]
        require(
            bool(lineages),
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
        model = next((each.model for each in lineages if each.model.index >= index), None)
        if model is None:
            return
        require(
            model.counters[index] == counted,
            "the counters are those of a plain model",
            peer=replica.me,
            index=index,
            counters=counted,
            model=model.counters[index],
        )
        for key in model.written_by(index - count + 1, index):
            cell = replica.partition.read(key)
            require(
                (None if cell is None else cell.value) == model.value_at(key, index),
                "a key holds what the entries wrote",
                peer=replica.me,
                index=index,
                key=key,
                cell=cell,
                model=model.value_at(key, index),
            )
