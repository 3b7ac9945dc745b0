"""One replica: a Raft core, its log, the partition's state, and the clients that wait for it.

    client ──offer──► _writes ──begin_turn──► raft.propose ──► _writes.pending ──apply──► answer
           ──offer──► transactions ──begin_turn──► raft.propose ──apply──► transactions ──► answer
           ──offer──► _reads ──begin_turn──► raft.read ──confirm_read──► serve_reads ──► answer
           ──offer──► _handover, while the leadership is handed over
           ──offer──► bounded reads are answered at once

The modules `writes`, `reads`, `bounded_reads` and `handover` say how each of these ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from zonequake_protocol.client import Read, Reply, ReplyStatus, Transaction, partition_of
from zonequake_store.catch_up.checkpoints import Checkpoints
from zonequake_store.errors import CounterError, LogCorrupt, StateCorrupt
from zonequake_store.lease.rules.node_lease import NOT_PERMITTED, Permission
from zonequake_store.raft.core import Raft
from zonequake_store.raft.errors import LogCompacted, LogCorrupted, NotLeader
from zonequake_store.raft.messages import Entry, EntryKind, Peer
from zonequake_store.replica.bounded_reads import bounded_reply, takes_any_age
from zonequake_store.replica.handover import HeldRequest, WaitingForSuccessor
from zonequake_store.replica.log import DurableLog, MemoryLog
from zonequake_store.replica.planted_faults import PlantedFaults
from zonequake_store.replica.reads import PendingRead, SendReply, WaitingReads
from zonequake_store.replica.requests import (
    KeyOperation,
    begin_of,
    command_of,
    fault_in,
    fault_in_transaction,
)
from zonequake_store.replica.writes import AnsweredWrites, OfferedWrite, WaitingWrites
from zonequake_store.state.commands import (
    AppendCommand,
    CasCommand,
    SetCommand,
    decode_command,
    encode_command,
)
from zonequake_store.state.partition import StateMachine
from zonequake_store.state.replies import outcome_reply
from zonequake_store.storage.cells import MemoryCells, Overlay
from zonequake_store.storage.log_writes import GroupRecord
from zonequake_store.transactions.manager import TransactionManager

# Closed-loop clients wait for their answers: more than this means they come faster than the
# partition commits, and an honest refusal beats an answer after the client's deadline.
MAX_WAITING_PER_REPLICA = 4096

LOG_ERRORS = (LogCorrupt, LogCorrupted, LogCompacted, CounterError, StateCorrupt)
"""Errors of a log or its state with which a replica cannot go on: it is broken, the node is not."""


@dataclass(slots=True)
class Ticks:
    """The number of ticks at a node, and the time of the last one."""

    now: int = 0
    now_ms: int = 0


class Replica:
    """One replica of a group, running in this process.

    `ticks`: those of the node; a host that tells each of them to the core itself gives none.
    """

    def __init__(
        self,
        *,
        group: str,
        record: GroupRecord,
        me: Peer,
        raft: Raft,
        log: DurableLog | MemoryLog,
        cells: Overlay | MemoryCells,
        partition: StateMachine,
        faults: PlantedFaults,
        client_address: Callable[[str], str | None],
        clock_ms: Callable[[], int],
        ticks: Ticks | None = None,
        permission: Permission | None = None,
    ) -> None:
        """`clock_ms`: the clock whose time the core is given with its ticks. `permission`: without
        which nothing is acknowledged; None: none is needed.
        """
        self.group = group
        self.record = record
        self.me = me
        self._raft = raft
        self._ticks = ticks or Ticks()
        self._told_ticks = self._ticks.now
        self.due_tick = self._ticks.now
        """The tick at which the host must look at the core; it may look earlier
        (`tick_schedule`).
        """
        self.wants_ticks = False
        """`needs_ticks` as it was when something was done last that can change it."""
        self.log = log
        self.cells = cells
        self.partition = partition
        self.token = record.token
        self.leader: Peer | None = None
        self.durable_index = partition.index
        self.flushing = False
        self.stopped = False
        self.checkpoints = Checkpoints()
        self.refusal: str | None = None
        """The reason for which no client's write is taken, even by a leader, or None."""
        self.permission = permission
        self._faults = faults
        self._client_address = client_address
        self._clock_ms = clock_ms
        self._writes = WaitingWrites()
        self.answered = AnsweredWrites()
        self._reads = WaitingReads()
        self._handover = WaitingForSuccessor(most=MAX_WAITING_PER_REPLICA)
        self.transactions = TransactionManager(
            group, me.node, partition, number=record.partition, partitions=record.partitions
        )

    def core_now(self) -> Raft:
        """Tell the core the ticks that it slept through, and return it."""
        late = self._ticks.now - self._told_ticks
        if late:
            self._told_ticks += late
            self._raft.tick(self._ticks.now_ms, count=late)
        return self._raft

    @property
    def is_volatile(self) -> bool:
        """Returns whether log and state are gone with the process."""
        return isinstance(self.log, MemoryLog)

    @property
    def leads(self) -> bool:
        """Returns whether this replica leads, as its core last said."""
        return self.leader == self.me

    @property
    def may_acknowledge(self) -> bool:
        """Returns whether clients may be answered now with what this replica has done."""
        return self.permission is None or self.permission.holds

    @property
    def waiting(self) -> int:
        """The number of clients' reads and writes that wait here for their answer."""
        return len(self._writes) + len(self._reads) + len(self._handover)

    # ── clients ──────────────────────────────────────────────────────────────────────────────

    def offer(self, id_: int, operation: KeyOperation | Transaction, answer: SendReply) -> bool:
        """Take a client's operation; True if a turn is needed, False if it is answered already."""
        if self.permission is not None and not takes_any_age(operation):
            if not self.permission.holds:
                bounded = isinstance(operation, Read) and operation.bounded
                status = ReplyStatus.STALE if bounded else ReplyStatus.NOT_LEADER
                answer(Reply(id_, status, error=NOT_PERMITTED))
                return False
            answer = self.permission.guard(answer)
        return self._take(id_, operation, answer)

    def _take(self, id_: int, operation: KeyOperation | Transaction, answer: SendReply) -> bool:
        if isinstance(operation, Transaction):
            return self._begin(id_, operation, answer)
        fault = self._fault_of(operation)
        if fault is not None:
            answer(Reply(id_, fault[0], error=fault[1]))
            return False
        if isinstance(operation, Read):
            return self._offer_read(id_, operation, answer)
        if not self.leads:
            return self._elsewhere(id_, operation, answer, self.leader)
        if self.refusal is not None:
            answer(Reply(id_, ReplyStatus.OVERLOADED, error=self.refusal))
            return False
        if len(self._writes) >= MAX_WAITING_PER_REPLICA:
            answer(
                Reply(id_, ReplyStatus.OVERLOADED, error="too many writes wait for this partition")
            )
            return False
        wall_order = self._faults.wall_order
        if wall_order is not None and wall_order.is_late(self.group, operation.key):
            partition, command = self.partition, command_of(operation)
            foreseen = partition.foresee(partition.term, partition.index, command)
            answer(outcome_reply(id_, foreseen))
            return False
        self._writes.offer(OfferedWrite(id_, operation, answer))
        return True

    def _offer_read(self, id_: int, read: Read, answer: SendReply) -> bool:
        if read.bounded or self._faults.local_reads:
            partition, raft = self.partition, self.core_now()
            answer(
                bounded_reply(id_, read, partition=partition, raft=raft, clock_ms=self._clock_ms)
            )
            return False
        if not self.leads:
            return self._elsewhere(id_, read, answer, self.leader)
        if self.refusal is not None and self.core_now().is_storing:
            answer(Reply(id_, ReplyStatus.OVERLOADED, error=self.refusal))
            return False
        if len(self._reads) >= MAX_WAITING_PER_REPLICA:
            answer(Reply(id_, ReplyStatus.OVERLOADED, error="too many reads wait here"))
            return False
        self._reads.ask(PendingRead(id_, answer, read.key))
        return True

    def _fault_of(self, operation: KeyOperation) -> tuple[ReplyStatus, str] | None:
        right = partition_of(operation.key, self.record.partitions)
        if right != self.record.partition:
            return ReplyStatus.WRONG_PARTITION, f"the key belongs to partition {right}"
        fault = fault_in(operation)
        return None if fault is None else (ReplyStatus.INVALID, fault)

    def _begin(self, id_: int, transaction: Transaction, answer: SendReply) -> bool:
        fault = fault_in_transaction(transaction)
        if fault is not None:
            answer(Reply(id_, ReplyStatus.INVALID, error=fault))
        elif not self.leads or self._handover.is_worth_waiting:
            self._elsewhere(id_, transaction, answer, self.leader)
        elif self.refusal is not None:
            answer(Reply(id_, ReplyStatus.OVERLOADED, error=self.refusal))
        else:
            self.transactions.begin(id_, begin_of(transaction), answer)
        return self.transactions.has_work

    def _elsewhere(
        self, id_: int, asked: KeyOperation | Transaction, answer: SendReply, leader: Peer | None
    ) -> bool:
        """Refuses a request that only a leader can serve, with the leader's name, or holds it until
        that is known. No turn is needed.
        """
        if not self._handover.hold(HeldRequest(id_, asked, answer)):
            answer(self._not_leader(id_, leader))
        return False

    @property
    def awaits_successor(self) -> bool:
        """Returns whether it handed its leadership over and waits to learn the new leader."""
        return self._handover.is_worth_waiting

    def _look_at_handover(self) -> None:
        """Begin to hold requests back, or take them because this replica leads on."""
        raft = self.core_now()
        if raft.hands_over:
            self._handover.begin()
        elif self._handover.is_under_way and raft.leads:
            for held in self._handover.end():
                self._take(held.id, held.operation, held.answer)

    def begin_turn(self) -> None:
        """Hand what clients and transactions want since the last turn to the core, in one batch."""
        if self.leads:
            self._look_at_handover()
        if self._writes.are_offered or self.transactions.has_proposals:
            self._propose()
        if self._reads.are_asked:
            try:
                self._reads.begin(self.core_now().read())
            except NotLeader as error:
                self._refuse(self._reads.end_asked(), error.leader)

    def _propose(self) -> None:
        offered = self._writes.take_offered()
        parts = self.transactions.take_proposals()
        commands = [encode_command(command_of(each.operation)) for each in offered]
        commands += [encode_command(part) for part in parts]
        try:
            term, index = self.core_now().propose(commands)
        except NotLeader as error:
            for each in offered:
                self._elsewhere(each.id, each.operation, each.answer, error.leader)
            self.transactions.refused(parts)
            return
        for place, each in enumerate(offered, index):
            if self._faults.acknowledge_before_commit:
                foreseen = self.partition.foresee(term, place, command_of(each.operation))
                each.answer(outcome_reply(each.id, foreseen))
            else:
                self._writes.proposed(each, term, place)

    def confirm_read(self, number: int, index: int) -> None:
        """Permits to answer the reads of `number` from a state that has applied `index`."""
        self._reads.confirm(number, index)

    def abort_read(self, number: int) -> None:
        """Records that the reads of `number` found no leader here."""
        self._refuse(self._reads.end_begun(number), self.leader)

    def _refuse(self, readings: list[PendingRead], leader: Peer | None) -> None:
        for reading in readings:
            self._elsewhere(reading.id, Read(self.group, reading.key), reading.answer, leader)

    def follow(self, leader: Peer | None, term: int) -> None:
        """Records that the core follows another leader, or none, from `term` on."""
        led = self.leads
        self.leader = leader
        if led and not self.leads:
            self._lost_leadership()
        if leader is not None and not self.leads:
            self._send_elsewhere(self._handover.end())
        elif leader is None and self.core_now().expects_leader:
            self._handover.begin()
        if self.leads:
            self.transactions.lead(term, self._nodes())

    def _send_elsewhere(self, waited: list[HeldRequest]) -> None:
        for held in waited:
            held.answer(self._not_leader(held.id, self.leader))

    def reconfigured(self) -> None:
        """Records that the group's members are others now."""
        if self.leads:
            self.transactions.moved(self._nodes())

    def _nodes(self) -> tuple[str, ...]:
        configuration = self.core_now().status().configuration
        members = configuration.members if configuration else ()
        return tuple(sorted(peer.node for peer in members))

    def _lost_leadership(self) -> None:
        self._writes.give_up("leadership was lost before the commit")
        self.transactions.stop()
        if self.core_now().abstains:
            # A later lineage began: its state may pass these indexes without what they stand for.
            self._refuse(self._reads.end_confirmed(), self.leader)

    def interrupt(self, reason: str) -> None:
        """Answers all waiting clients while the disk takes no writes, which may last."""
        self._answer_all(ReplyStatus.OVERLOADED, reason)

    def stop(self) -> None:
        """Answers all waiting clients; the replica does nothing from now on."""
        self.stopped = True
        self._answer_all(ReplyStatus.NOT_HERE, "the replica was stopped")
        self.transactions.stop()

    def _answer_all(self, status: ReplyStatus, reason: str) -> None:
        self._writes.end_all(status, reason)
        for held in self._handover.end():
            held.answer(Reply(held.id, status, error=reason))
        for reading in self._reads.end_all():
            reading.answer(Reply(reading.id, status, error=reason))

    # ── state ────────────────────────────────────────────────────────────────────────────────

    def apply(self, entries: tuple[Entry, ...]) -> None:
        """Applies committed entries, in order, and answers the clients that wait for them."""
        partition, pending = self.partition, self._writes.pending
        for entry in entries:
            term, index = entry.term, entry.index
            if entry.kind is not EntryKind.COMMAND:
                configures = entry.kind is EntryKind.CONFIGURATION
                changes = configures and self.core_now().changes_configuration(index)
                partition.skip(term, index, configuration=changes)
                if configures:
                    self.checkpoints.record(partition)
                outcome = None
            else:
                command = decode_command(entry.data)
                outcome = partition.apply(term, index, command)
                if self.transactions.leads and not isinstance(
                    command, (SetCommand, AppendCommand, CasCommand)
                ):
                    self.transactions.applied(command, outcome)
            proposal = pending.pop(index, None)
            if proposal is None:
                continue
            if outcome is None or proposal.term != term:
                proposal.answer(self._not_leader(proposal.id, self.leader))
            else:
                reply = outcome_reply(proposal.id, outcome)
                self.answered.count(reply, first=outcome.index == index)
                proposal.answer(reply)
        if entries:
            self.core_now().applied(entries[-1].index)

    def serve_reads(self) -> None:
        """Answers the confirmed reads whose state is here."""
        self._reads.serve(self.partition)

    @property
    def needs_ticks(self) -> bool:
        """Returns whether `tick` has anything to do."""
        waits = self._handover.is_worth_waiting
        return waits or self._reads.need_ticks or self.transactions.needs_ticks

    def tick(self) -> None:
        """Counts a tick for waiting requests and for transactions; a turn must follow."""
        self._send_elsewhere(self._handover.tick())
        self._reads.tick(self.partition)
        self.transactions.tick()

    def replace_state(self, cells: Overlay | MemoryCells, partition: StateMachine) -> None:
        """Records that a snapshot was installed: its state takes the place of this one."""
        self.cells = cells
        self.partition = partition
        self.transactions.replaced(partition)
        self.durable_index = partition.index
        self.checkpoints.clear()

    def _not_leader(self, id_: int, leader: Peer | None) -> Reply:
        if leader is None or leader == self.me:
            return Reply(id_, ReplyStatus.NOT_LEADER)
        address = self._client_address(leader.node)
        return Reply(id_, ReplyStatus.NOT_LEADER, leader=leader.node, leader_address=address)

    def raise_token(self, token: int) -> None:
        """Note a token that an order or a configuration carried."""
        if token > self.token:
            self.token = token
            self.record = msgspec.structs.replace(self.record, token=token)
