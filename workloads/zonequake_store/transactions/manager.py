"""Both roles of one replica in transactions, with one way in and one way out; sans-IO.

    replica.begin_turn ──► take_proposals ──► raft.propose ──► entries ──► applied
    turn.serve         ──► take_letters   ──► the edge carries them to other groups' leaders
    the edge           ──► receive(message, sender)

Letters to the own group stay here. A replica that does not lead plays no part: it takes no
messages and sends none, its state alone follows the log.
"""

from __future__ import annotations

from collections.abc import Callable

from zonequake_protocol.client import Reply, partition_of
from zonequake_store.network.transaction_messages import (
    AskOutcome,
    Done,
    Finish,
    Letter,
    Prepare,
    TransactionMessage,
    Vote,
)
from zonequake_store.state.commands import CommandOutcome
from zonequake_store.state.partition import StateMachine
from zonequake_store.state.transactions import (
    DecideCommand,
    ForgetCommand,
    RefuseCommand,
    TransactionCommand,
)
from zonequake_store.transactions.coordinator import Begin, Coordinator
from zonequake_store.transactions.participant import Participant, TransactionOutput


class TransactionManager:
    """Coordinator and participant of `group`, which is `number` of a zone's `partitions`, at node
    `node`."""

    def __init__(
        self, group: str, node: str, partition: StateMachine, *, number: int, partitions: int
    ) -> None:
        self.group = group
        self._node = node
        self._number = number
        self._partitions = partitions
        self._output = TransactionOutput()
        self.coordinator = Coordinator(group, partition, self._output)
        self.participant = Participant(group, partition, self._output)
        self.leads = False

    @property
    def has_proposals(self) -> bool:
        """Returns whether something is to be proposed."""
        return bool(self._output.proposals)

    @property
    def has_work(self) -> bool:
        """Returns whether something is to be proposed or sent."""
        return bool(self._output.proposals or self._output.letters)

    def replaced(self, partition: StateMachine) -> None:
        """Records that a snapshot took the place of the partition's state; this replica doesn't
        lead.
        """
        self.coordinator.partition = self.participant.partition = partition

    def lead(self, term: int, nodes: tuple[str, ...]) -> None:
        """Records that this replica leads its group in `term`; `nodes` are those of its members."""
        self.leads = True
        self.participant.lead()
        self.coordinator.lead(term)
        self.moved(nodes)
        self._settle()

    def moved(self, nodes: tuple[str, ...]) -> None:
        """Records that the group's members are on these nodes now."""
        self.participant.nodes = self.coordinator.nodes = nodes

    def stop(self) -> None:
        """Stops: the replica no longer leads, or is stopped."""
        self.leads = False
        self._output.proposals.clear()
        self._output.letters.clear()
        self.participant.stop()
        self.coordinator.stop()

    def begin(self, id_: int, begin: Begin, answer: Callable[[Reply], None]) -> None:
        """Carry a client's transaction out; `answer` is called once, now or later."""
        self.coordinator.begin(id_, begin, answer)
        self._settle()

    def receive(self, message: TransactionMessage, sender: str) -> None:
        """Take a message that came from node `sender`."""
        if self.leads:
            self._receive(message, sender)
            self._settle()

    def applied(self, command: TransactionCommand, outcome: CommandOutcome) -> None:
        """Records that a transaction command was applied by this replica, which leads."""
        self.participant.applied(command, outcome)
        if isinstance(command, (DecideCommand, RefuseCommand)):
            self.participant.ended(command.transaction)
            self.coordinator.applied(command, outcome)
        self._settle()

    def refused(self, commands: list[TransactionCommand]) -> None:
        """Records that the log did not take these proposals."""
        for command in commands:
            if isinstance(command, (DecideCommand, RefuseCommand, ForgetCommand)):
                self.coordinator.refused(command)
            else:
                self.participant.refused(command)
        self._settle()

    @property
    def needs_ticks(self) -> bool:
        """Returns whether `tick` has anything to do."""
        return self.leads and not (self.participant.is_idle and self.coordinator.is_idle)

    def tick(self) -> None:
        """Handles a tick of the group."""
        if self.needs_ticks:
            self.participant.tick()
            self.coordinator.tick()
            self._settle()

    def take_proposals(self) -> list[TransactionCommand]:
        """Commands to propose, in order."""
        taken, self._output.proposals = self._output.proposals, []
        return taken

    def take_letters(self) -> list[Letter]:
        """Letters to other groups."""
        taken, self._output.letters = self._output.letters, []
        return taken

    def _is_mine(self, key: str) -> bool:
        return partition_of(key, self._partitions) == self._number

    def _settle(self) -> None:
        """Deliver the letters to the own group; they may bring others."""
        while mine := [each for each in self._output.letters if each.group == self.group]:
            self._output.letters = [
                each for each in self._output.letters if each.group != self.group
            ]
            for letter in mine:
                self._receive(letter.message, self._node)

    def _receive(self, message: TransactionMessage, sender: str) -> None:
        match message:
            case Prepare():
                wrong = [step.key for step in message.steps if not self._is_mine(step.key)]
                if wrong:
                    error = f"key {wrong[0]!r} is not of this group's partition"
                    self.participant.refuse(message, sender, error)
                else:
                    self.participant.prepare(message, sender)
            case Finish():
                self.participant.finish(message, sender)
            case Vote():
                self.coordinator.vote(message)
            case AskOutcome():
                self.coordinator.ask(message)
            case Done():
                self.coordinator.done(message)
