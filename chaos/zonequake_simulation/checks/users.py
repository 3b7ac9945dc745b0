"""Rules for the last entry of a log that a client wrote (lastUserCmdIdx of the document
`high-availability`). A chain's unwind compares these entries, so the leader's own entries must not
count.

These rules use the clients' requests and the content of each entry, and none of the store's own
rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonequake_protocol.admin import ReplicaStatus
from zonequake_protocol.client import Read, RequestId, Transaction
from zonequake_simulation.violation import Violation
from zonequake_store.raft.api import Ready
from zonequake_store.raft.messages import Entry, EntryKind
from zonequake_store.replica.replica import Replica
from zonequake_store.replica.requests import KeyOperation
from zonequake_store.replica.status import newest_user_entry
from zonequake_store.state.commands import AppendCommand, CasCommand, SetCommand, decode_command
from zonequake_store.state.transactions import (
    CommitCommand,
    DecideCommand,
    PrepareCommand,
    RefuseCommand,
)

if TYPE_CHECKING:
    from zonequake_simulation.checks.life import Life

_NAMED = (SetCommand, CasCommand, AppendCommand, DecideCommand, RefuseCommand)
"""Commands that name the request that they carry out or refuse."""


class UserRules:
    """One group's clients and their entries."""

    def __init__(self) -> None:
        self._asked: set[RequestId] = set()
        self._newest: dict[tuple[int, int], tuple[int, int]] = {(0, 0): (0, 0)}
        """(index, term) of an entry → (term, index) of the last client's entry up to it."""

    def asked(self, operation: KeyOperation | Transaction) -> None:
        """Takes a client's request."""
        if not isinstance(operation, Read) and operation.request_id is not None:
            self._asked.add(operation.request_id)

    def appended(self, life: Life, ready: Ready) -> None:
        """Takes entries that were appended to a log."""
        before = ready.entries[0].index - 1
        newest = self._newest[before, life.core.log.term(before)]
        for entry in ready.entries:
            if self._is_clients(entry):
                newest = entry.term, entry.index
            self._newest[entry.index, entry.term] = newest

    def _is_clients(self, entry: Entry) -> bool:
        """Returns whether the entry holds a client's request or a part of one, or commits such a
        part.
        """
        if entry.kind is not EntryKind.COMMAND:
            return False
        command = decode_command(entry.data)
        if isinstance(command, _NAMED):
            return command.request_id in self._asked
        return isinstance(command, (PrepareCommand, CommitCommand))

    def applied(self, replica: Replica) -> None:
        """Judges the mark of the last user entry after a replica applied entries, or began with a
        state.
        """
        state = replica.partition.state
        marked = state.last_user_term, state.last_user_index
        expected = self._newest[state.index, state.term]
        if marked != expected:
            raise Violation(
                "the entry marked as the last user entry is the last that a client wrote",
                peer=replica.me,
                index=state.index,
                marked=marked,
                expected=expected,
            )

    def turned(self, life: Life, replica: Replica) -> None:
        """Judges the newest user entry that a replica would report after a turn, if its log has
        changed.
        """
        log = life.core.log
        end = log.last_index, log.last_term
        now = (*end, replica.partition.index)
        if now == life.told_at or end not in self._newest:
            return  # an entry without a Ready so far is judged once it has one
        if log.pending_snapshot is not None:
            return  # the log ends with it already, and the state is still the older one
        life.told_at = now
        self._tells(replica.me.node, end, newest_user_entry(replica))

    def told(self, node: str, status: ReplicaStatus) -> None:
        """Judges a status that a node reports to the operator."""
        end = status.last_index, status.last_term
        self._tells(node, end, (status.last_user_term, status.last_user_index))

    def _tells(self, node: str, end: tuple[int, int], found: tuple[int, int]) -> None:
        expected = self._newest[end]
        if found != expected:
            raise Violation(
                "the newest user entry of a log is the last that a client wrote",
                node=node,
                end=end,
                found=found,
                expected=expected,
            )
