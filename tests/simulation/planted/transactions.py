"""Faults in transactions over several partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.simulation.planted.registry import Planted
from zonequake_protocol.client import Reply
from zonequake_store.network.transaction_messages import AskOutcome, Finish, Letter, Prepare
from zonequake_store.state import encoding
from zonequake_store.state.commands import CommandOutcome
from zonequake_store.state.encoding import EncodedPair
from zonequake_store.state.partition import StateMachine
from zonequake_store.state.transactions import (
    CommitCommand,
    DecideCommand,
    Decision,
    Prepared,
    TransactionId,
    TransactionTable,
)
from zonequake_store.storage.data_store import DataStore, DataView
from zonequake_store.transactions.coordinator import Begin, Coordinator, _Active
from zonequake_store.transactions.participant import ASK_TICKS, Participant


def told_before_it_is_replicated(patch: pytest.MonkeyPatch) -> None:
    decide = Coordinator._decide

    def hasty(coordinator: Coordinator, transaction: TransactionId, active: _Active) -> None:
        decide(coordinator, transaction, active)
        for vote in active.votes.values():
            if vote.member.group != coordinator.group:
                letter = Letter(vote.member.group, Finish(transaction, True), vote.member.nodes)
                coordinator._output.letters.append(letter)

    patch.setattr(Coordinator, "_decide", hasty)


def votes_before_it_is_prepared(patch: pytest.MonkeyPatch) -> None:
    prepare = Participant.prepare

    def hasty(participant: Participant, message: Prepare, sender: str) -> None:
        prepare(participant, message, sender)
        partition = participant.partition
        if message.transaction in participant._parts:
            foreseen = partition.judge(partition.term, partition.index, message.steps)
            participant._vote(message.transaction, foreseen, sender)

    patch.setattr(Participant, "prepare", hasty)


def commits_without_an_answer(patch: pytest.MonkeyPatch) -> None:
    def commit(participant: Participant, transaction: TransactionId, *, again: bool) -> None:
        participant._output.proposals.append(CommitCommand(transaction))

    patch.setattr(Participant, "_ask", commit)


def aborts_without_an_answer(patch: pytest.MonkeyPatch) -> None:
    tick = Participant.tick

    def impatient(participant: Participant) -> None:
        tick(participant)
        for transaction, age in list(participant._ages.items()):
            if age % ASK_TICKS == ASK_TICKS - 1:
                participant.finish(Finish(transaction, False), "nobody")

    patch.setattr(Participant, "tick", impatient)


def answers_for_earlier_terms_at_once(patch: pytest.MonkeyPatch) -> None:
    def ask(coordinator: Coordinator, question: AskOutcome) -> None:
        transaction, member = question.transaction, question.member
        if transaction not in coordinator._active:
            commit = transaction in coordinator.partition.transactions.decisions
            finish = Finish(transaction, commit)
            coordinator._output.letters.append(Letter(member.group, finish, member.nodes))

    patch.setattr(Coordinator, "ask", ask)


def decision_not_kept(patch: pytest.MonkeyPatch) -> None:
    def forget(table: TransactionTable, decision: Decision) -> None:
        """As if all had committed already."""

    patch.setattr(TransactionTable, "decide", forget)


def carried_out_again(patch: pytest.MonkeyPatch) -> None:
    conclude = StateMachine._conclude

    def forgetful(
        partition: StateMachine, term: int, index: int, command: DecideCommand
    ) -> CommandOutcome:
        partition.deduplicate = False
        try:
            return conclude(partition, term, index, command)
        finally:
            partition.deduplicate = True

    patch.setattr(StateMachine, "_conclude", forgetful)
    begin = Coordinator.begin

    def begin_again(
        coordinator: Coordinator, id_: int, asked: Begin, answer: Callable[[Reply], None]
    ) -> None:
        coordinator.partition.deduplicate = False
        try:
            begin(coordinator, id_, asked, answer)
        finally:
            coordinator.partition.deduplicate = True

    patch.setattr(Coordinator, "begin", begin_again)


def prepared_lost_at_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DataStore, "transactions", lambda store, number: TransactionTable())


def prepared_lost_in_a_snapshot(patch: pytest.MonkeyPatch) -> None:
    pairs = DataView.pairs

    def without(view: DataView, after: bytes = b"") -> Iterator[EncodedPair]:
        return (pair for pair in pairs(view, after) if pair[0][:1] != encoding.TRANSACTION)

    patch.setattr(DataView, "pairs", without)


def keys_not_locked(patch: pytest.MonkeyPatch) -> None:
    def leave_open(table: TransactionTable, part: Prepared) -> None:
        """Its keys stay free until it is decided."""

    patch.setattr(TransactionTable, "_lock", leave_open)


def late_prepares_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionTable, "is_late", lambda table, transaction: False)


def range_left_open(patch: pytest.MonkeyPatch) -> None:
    def roll_back(partition: StateMachine, transaction: TransactionId) -> None:
        partition.transactions.end(transaction)

    patch.setattr(StateMachine, "_roll_back", roll_back)


def reads_do_not_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StateMachine, "is_written", lambda partition, key: False)


def _planted(name: str, what: str, apply: Callable[[pytest.MonkeyPatch], None]) -> Planted:
    return Planted(name=name, area="transactions", scenario="transactions", what=what, apply=apply)


PLANTED = [
    _planted(
        "decision-told-before-replicated",
        "the coordinator tells the others to commit when it proposes the decision",
        told_before_it_is_replicated,
    ),
    _planted(
        "vote-before-prepare-is-replicated",
        "a participant votes when it proposes its Prepare entry",
        votes_before_it_is_prepared,
    ),
    _planted(
        "commit-on-time-out",
        "a participant that hears nothing commits its prepared part",
        commits_without_an_answer,
    ),
    _planted(
        "abort-on-time-out",
        "a participant that hears nothing rolls its prepared part back",
        aborts_without_an_answer,
    ),
    _planted(
        "abort-before-own-term-applied",
        "a new coordinator answers abort before it has applied an entry of its own term",
        answers_for_earlier_terms_at_once,
    ),
    _planted(
        "decision-not-kept",
        "a decision is carried out and not remembered for those who ask",
        decision_not_kept,
    ),
    _planted(
        "transaction-carried-out-again",
        "a repeated request of a transaction is carried out again",
        carried_out_again,
    ),
    _planted(
        "prepared-lost-at-start",
        "a node starts without the prepared transactions that its disk holds",
        prepared_lost_at_start,
    ),
    _planted(
        "prepared-lost-in-snapshot",
        "a snapshot carries cells but no prepared transactions",
        prepared_lost_in_a_snapshot,
    ),
    _planted(
        "locks-released-before-decision",
        "the keys of a prepared transaction are free for others",
        keys_not_locked,
    ),
    _planted(
        "late-prepare-taken",
        "a Prepare that comes after the end of its part is taken once more",
        late_prepares_taken,
    ),
    _planted(
        "rollback-leaves-range-open",
        "a rollback does not close the numbers that were reserved",
        range_left_open,
    ),
    _planted(
        "read-of-key-half-done",
        "a read does not wait for the prepared transaction that writes its key",
        reads_do_not_wait,
    ),
]
