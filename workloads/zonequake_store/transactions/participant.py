"""Takes a partition's part in transactions, on its leader; sans-IO.

    Prepare ─► locks wanted ─► locks held ─► PrepareCommand proposed ─► applied ─► Vote
                     └─ time-out ─► Vote LOCKED            (refused: locks released, Vote why)
    Finish  ─► Commit- or RollbackCommand proposed ─► applied ─► locks released, Done
    prepared for ASK_TICKS without news ─► ask the coordinator's group, again and again

Its driver calls `lead` and `stop` with leadership, hands in messages, every applied transaction
command (`applied`) and ticks, proposes `output.proposals` in order and delivers `output.letters`. A
vote leaves only when the Prepare is applied, so it is committed in the group's log; a Done only
when the Commit is. Nothing here needs to survive: what is prepared is in the partition's state, and
the next leader asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from zonequake_store.network.transaction_messages import (
    AskOutcome,
    Done,
    Finish,
    Letter,
    Prepare,
    Vote,
)
from zonequake_store.state.commands import CommandOutcome, CommandVerdict
from zonequake_store.state.partition import StateMachine
from zonequake_store.state.transactions import (
    CommitCommand,
    ParticipantGroup,
    PrepareCommand,
    RollbackCommand,
    TransactionCommand,
    TransactionId,
    TransactionStep,
)
from zonequake_store.transactions.locks import LockTable

ASK_TICKS = 10
"""Ticks of 100 ms: a coordinator that is alive has decided by then, or is about to."""

MAX_WAITING = 1024
"""Parts that wait for locks or are being prepared; a further one is refused."""

_WAITED = (
    "transaction {} held a key for too long; this one gave up, because two transactions that wait "
    "for each other would wait forever: try again"
)


@dataclass(slots=True)
class TransactionOutput:
    """The output of a leader's transactions: commands to propose, letters to deliver."""

    proposals: list[TransactionCommand] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)


@dataclass(slots=True)
class _Part:
    """A part that waits for its locks, or whose PrepareCommand is proposed."""

    message: Prepare
    sender: str


class Participant:
    """The part of `group`, whose state is `partition`; what leaves goes to `output`."""

    def __init__(self, group: str, partition: StateMachine, output: TransactionOutput) -> None:
        self.group = group
        self.partition = partition
        self.nodes: tuple[str, ...] = ()  # where the group's members are
        self._output = output
        self._locks = LockTable()
        self._parts: dict[TransactionId, _Part] = {}
        self._ending: dict[TransactionId, str | None] = {}  # the group to answer after the Commit
        self._ages: dict[TransactionId, int] = {}  # ticks since prepared, or since leadership

    @property
    def is_idle(self) -> bool:
        """Returns whether no tick is needed."""
        return not self._ages and not self._parts

    # ── leadership ───────────────────────────────────────────────────────────────────────────

    def lead(self) -> None:
        """Records that the group is led from here from now on."""
        self.stop()
        for transaction, part in self.partition.transactions.prepared.items():
            self._hold(transaction, part.steps)

    def stop(self) -> None:
        """Stops: this node no longer leads. The next leader goes on from the partition's state."""
        self._locks = LockTable()
        self._parts.clear()
        self._ending.clear()
        self._ages.clear()

    # ── messages ─────────────────────────────────────────────────────────────────────────────

    def prepare(self, message: Prepare, sender: str) -> None:
        """Prepares a part for the coordinator at node `sender`."""
        transaction, partition = message.transaction, self.partition
        index, table = partition.index, partition.transactions
        if transaction in table.prepared:
            part = table.prepared[transaction]
            self._vote(transaction, partition.judge(partition.term, index, part.steps), sender)
        elif table.is_late(transaction):
            late = CommandOutcome(CommandVerdict.LATE, partition.term, index, str(transaction))
            self._vote(transaction, late, sender)
        elif transaction in self._parts:
            self._parts[transaction] = _Part(message, sender)
        elif len(self._parts) >= MAX_WAITING:
            self._vote(
                transaction, CommandOutcome(CommandVerdict.FULL, partition.term, index), sender
            )
        else:
            self._parts[transaction] = _Part(message, sender)
            if self._locks.request(transaction, {step.key for step in message.steps}):
                self._propose([transaction])

    def finish(self, message: Finish, sender: str) -> None:
        """Finishes a transaction that has ended, as node `sender` said."""
        transaction, table = message.transaction, self.partition.transactions
        if table.has_ended(transaction):
            if message.commit:
                self._tell_done(transaction, sender)
            return
        if transaction in self._ending:
            self._ending[transaction] = sender
            return
        if not message.commit and self._locks.is_waiting(transaction):
            del self._parts[transaction]
            self._propose(self._locks.release(transaction))
        # Also if it isn't prepared: a Commit's Done must follow all that is in the log, and a
        # Rollback blocks the Prepare that is still on its way.
        self._ending[transaction] = sender
        end = CommitCommand(transaction) if message.commit else RollbackCommand(transaction)
        self._output.proposals.append(end)

    def refuse(self, message: Prepare, sender: str, error: str) -> None:
        """Refuses steps that can't be prepared here in any state."""
        outcome = CommandOutcome(
            CommandVerdict.WRONG_TYPE, self.partition.term, self.partition.index
        )
        self._vote(message.transaction, outcome, sender, error)

    # ── the log ──────────────────────────────────────────────────────────────────────────────

    def applied(self, command: TransactionCommand, outcome: CommandOutcome) -> None:
        """Records that a transaction command was applied, of this leader or of one before."""
        match command:
            case PrepareCommand(transaction=transaction):
                part = self._parts.pop(transaction, None)
                if transaction in self.partition.transactions.prepared:
                    self._hold(transaction, command.steps)
                elif part is not None:
                    self._propose(self._locks.release(transaction))
                if part is not None:
                    self._vote(transaction, outcome, part.sender)
            case CommitCommand(transaction=transaction):
                sender = self._ending.get(transaction)
                self.ended(transaction)
                if sender is not None:
                    self._tell_done(transaction, sender)
            case RollbackCommand(transaction=transaction):
                self.ended(transaction)
            case _:
                pass

    def ended(self, transaction: TransactionId) -> None:
        """Records that a part is committed or rolled back: others may have its locks."""
        self._ending.pop(transaction, None)
        self._ages.pop(transaction, None)
        self._parts.pop(transaction, None)  # a Prepare that came after its Finish
        self._propose(self._locks.release(transaction))

    def refused(self, command: TransactionCommand) -> None:
        """Records that the log did not take a proposal: the group that wants it asks again."""
        match command:
            case PrepareCommand(transaction=transaction):
                self._parts.pop(transaction, None)
                self._propose(self._locks.release(transaction))
            case CommitCommand(transaction=transaction) | RollbackCommand(transaction=transaction):
                self._ending.pop(transaction, None)
            case _:
                pass

    # ── time ─────────────────────────────────────────────────────────────────────────────────

    def tick(self) -> None:
        """Handles a tick."""
        if self._locks.is_waited_for:
            term, index = self.partition.term, self.partition.index
            for transaction, holder in self._locks.tick():
                if not self._locks.is_waiting(transaction):
                    continue  # the one before it in this loop made room
                part = self._parts.pop(transaction)
                self._propose(self._locks.release(transaction))
                locked = CommandOutcome(CommandVerdict.LOCKED, term, index, str(holder))
                self._vote(transaction, locked, part.sender, _WAITED.format(holder))
        for transaction, age in self._ages.items():
            self._ages[transaction] = age + 1
            if (age + 1) % ASK_TICKS == 0:
                self._ask(transaction, again=age >= ASK_TICKS)

    # ── parts of these ───────────────────────────────────────────────────────────────────────

    def _hold(self, transaction: TransactionId, steps: Iterable[TransactionStep]) -> None:
        self._locks.hold(transaction, {step.key for step in steps})
        self._ages.setdefault(transaction, 0)

    def _propose(self, granted: Iterable[TransactionId]) -> None:
        for transaction in granted:
            message = self._parts[transaction].message
            self._output.proposals.append(
                PrepareCommand(transaction, message.floor, message.nodes, message.steps)
            )

    def _vote(
        self,
        transaction: TransactionId,
        outcome: CommandOutcome,
        sender: str,
        error: str | None = None,
    ) -> None:
        vote = Vote(transaction, ParticipantGroup(self.group, self.nodes), outcome, error)
        self._output.letters.append(Letter(transaction.group, vote, (sender,)))

    def _tell_done(self, transaction: TransactionId, sender: str) -> None:
        done = Done(transaction, self.group)
        self._output.letters.append(Letter(transaction.group, done, (sender,)))

    def _ask(self, transaction: TransactionId, *, again: bool) -> None:
        nodes = self.partition.transactions.prepared[transaction].nodes
        ask = AskOutcome(transaction, ParticipantGroup(self.group, self.nodes))
        self._output.letters.append(Letter(transaction.group, ask, nodes, again))
