"""Scripts of transactions whose coordinator's group changes its leader at a bad moment."""

from __future__ import annotations

from tests.simulation.scripts.stage import Unplayable
from zonequake_protocol.client import RequestId
from zonequake_simulation.violation import require
from zonequake_store.network.transaction_messages import AskOutcome, Finish
from zonequake_store.state.client_table import ClientTable
from zonequake_store.state.commands import Command
from zonequake_store.state.partition import AppliedState, StateMachine
from zonequake_store.state.transactions import (
    DecideCommand,
    ParticipantGroup,
    PrepareCommand,
    StepKind,
    TransactionId,
    TransactionStep,
    TransactionTable,
)
from zonequake_store.storage.cells import MemoryCells
from zonequake_store.transactions.manager import TransactionManager

GROUP, OTHER = "0_part", "1_part"


class NewLeader:
    """A replica of the coordinator's group; it leads before it has applied what was committed."""

    def __init__(self) -> None:
        self.partition = StateMachine(
            MemoryCells(),
            clients=ClientTable(),
            transactions=TransactionTable(),
            state=AppliedState(),
        )
        self.manager = TransactionManager(GROUP, "n1", self.partition, number=0, partitions=1)

    def apply(self, term: int, command: Command | None) -> None:
        """Apply the next entry; None: a leader's first."""
        index = self.partition.index + 1
        if command is None:
            self.partition.skip(term, index, configuration=False)
        else:
            self.partition.apply(term, index, command)

    def told(self) -> list[bool]:
        """What it tells the other group: commit or not."""
        messages = [letter.message for letter in self.manager.take_letters()]
        return [each.commit for each in messages if isinstance(each, Finish)]


def a_new_coordinator_is_asked_before_it_has_applied_the_decision() -> None:
    """Term 1 prepared and decided; term 2's leader holds both, and has applied the first alone."""
    leader = NewLeader()
    transaction = TransactionId(GROUP, 1, 1)
    other = ParticipantGroup(OTHER, ("n2",))
    step = TransactionStep(StepKind.WRITE, "k", 1)
    leader.apply(1, PrepareCommand(transaction, 1, ("n0", "n1"), (step,)))
    leader.manager.lead(2, ("n0", "n1"))
    leader.manager.receive(AskOutcome(transaction, other), "n2")
    early = leader.told()
    leader.apply(1, DecideCommand(transaction, RequestId("c", 1), (other,), (None,)))
    leader.apply(2, None)
    leader.manager.receive(AskOutcome(transaction, other), "n2")
    late = leader.told()
    if not late:
        raise Unplayable("the coordinator does not answer")
    require(False not in early + late, "no part of a decided transaction is rolled back")


def a_new_coordinator_is_asked_for_what_was_never_decided() -> None:
    """Term 1 prepared; term 2's leader has applied its own entry, and no decision stands before."""
    leader = NewLeader()
    transaction = TransactionId(GROUP, 1, 1)
    step = TransactionStep(StepKind.WRITE, "k", 1)
    leader.apply(1, PrepareCommand(transaction, 1, ("n0", "n1"), (step,)))
    leader.manager.lead(2, ("n0", "n1"))
    leader.apply(2, None)
    leader.manager.receive(AskOutcome(transaction, ParticipantGroup(OTHER, ("n2",))), "n2")
    require(leader.told() == [False], "every part of a transaction without decision is rolled back")


SCRIPTS = (
    a_new_coordinator_is_asked_before_it_has_applied_the_decision,
    a_new_coordinator_is_asked_for_what_was_never_decided,
)
