"""More faults in transactions: in deciding, in what a part writes, and in what locks are for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.planted.registry import Planted
from zonequake_store.network.transaction_messages import Vote
from zonequake_store.state import transactions
from zonequake_store.state.commands import CommandOutcome, CommandVerdict
from zonequake_store.state.partition import StateMachine
from zonequake_store.state.transactions import (
    Decision,
    ForgetCommand,
    PrepareCommand,
    TransactionTable,
)
from zonequake_store.transactions.coordinator import Coordinator
from zonequake_store.transactions.participant import Participant


def decide_by_the_first_vote(patch: pytest.MonkeyPatch) -> None:
    vote = Coordinator.vote

    def enough(coordinator: Coordinator, given: Vote) -> None:
        active = coordinator._active.get(given.transaction)
        if active is not None and given.outcome.verdict is CommandVerdict.DONE:
            for group in active.begin.steps:
                none = (None,) * len(active.begin.steps[group])
                said = CommandOutcome(
                    CommandVerdict.DONE, given.outcome.term, given.outcome.index, results=none
                )
                member = transactions.ParticipantGroup(group, active.begin.nodes.get(group, ()))
                active.votes.setdefault(group, Vote(given.transaction, member, said, None))
        vote(coordinator, given)

    patch.setattr(Coordinator, "vote", enough)


def forget_when_told(patch: pytest.MonkeyPatch) -> None:
    tell = Coordinator._tell

    def and_forget(coordinator: Coordinator, decision: Decision) -> None:
        tell(coordinator, decision)
        coordinator._output.proposals.append(ForgetCommand((decision.transaction,)))

    patch.setattr(Coordinator, "_tell", and_forget)


def never_ask(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Participant, "_ask", lambda participant, transaction, again: None)


def write_over_a_lock(patch: pytest.MonkeyPatch) -> None:
    execute = StateMachine._execute

    def unlocked(partition: StateMachine, *given: object) -> CommandOutcome:
        locks = partition.transactions.locks
        partition.transactions.locks = {}
        try:
            return execute(partition, *given)  # type: ignore[arg-type]
        finally:
            partition.transactions.locks = locks

    patch.setattr(StateMachine, "_execute", unlocked)


def prepare_over_a_lock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionTable, "holder", lambda table, keys, other_than: None)


def apply_half_of_a_part(patch: pytest.MonkeyPatch) -> None:
    judge = StateMachine._judge

    def first_cell(partition: StateMachine, *given: object) -> object:
        outcome, cells = judge(partition, *given)  # type: ignore[arg-type]
        return outcome, dict(list(cells.items())[:1])

    patch.setattr(StateMachine, "_judge", first_cell)


def prepare_without_judging(patch: pytest.MonkeyPatch) -> None:
    prepare = StateMachine._prepare

    def done(
        partition: StateMachine, term: int, index: int, command: PrepareCommand
    ) -> CommandOutcome:
        outcome = prepare(partition, term, index, command)
        if outcome.verdict is CommandVerdict.UNEQUAL:
            return CommandOutcome(
                CommandVerdict.DONE, term, index, results=(None,) * len(command.steps)
            )
        return outcome

    patch.setattr(StateMachine, "_prepare", done)


def _planted(name: str, what: str, apply: Callable[[pytest.MonkeyPatch], None]) -> Planted:
    return Planted(name=name, area="transactions", scenario="transactions", what=what, apply=apply)


PLANTED: list[Planted] = [
    _planted(
        "decided-by-the-first-vote",
        "a coordinator decides to commit when the first part is prepared",
        decide_by_the_first_vote,
    ),
    _planted(
        "decision-forgotten-when-told",
        "a decision is forgotten when the others were told, not when they have applied it",
        forget_when_told,
    ),
    _planted(
        "participant-never-asks",
        "a participant waits for its coordinator forever",
        never_ask,
    ),
    _planted(
        "write-over-a-lock",
        "a plain write doesn't heed the locks of prepared transactions",
        write_over_a_lock,
    ),
    _planted(
        "prepare-over-a-lock",
        "a Prepare doesn't heed the locks of others",
        prepare_over_a_lock,
    ),
    _planted(
        "half-of-a-part-applied",
        "only the first key of a part is written at its commit",
        apply_half_of_a_part,
    ),
    _planted(
        "prepared-without-judging",
        "a cas that finds another value votes for the commit all the same",
        prepare_without_judging,
    ),
]
