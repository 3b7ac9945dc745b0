"""The initial state of a replica: what its disk has, or nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from zonequake_protocol.admin import StartReplica
from zonequake_store.errors import LogCorrupt
from zonequake_store.lease.clock import boottime_s
from zonequake_store.lease.rules.node_lease import NodeLease, Permission
from zonequake_store.network.transport import Transport
from zonequake_store.node.ticks import TickSchedule
from zonequake_store.raft.api import JOINT_BEFORE_CAUGHT_UP, RaftSettings
from zonequake_store.raft.core import Raft
from zonequake_store.raft.errors import LogCorrupted
from zonequake_store.raft.messages import Peer
from zonequake_store.replica.planted_faults import PlantedFaults, WallOrder
from zonequake_store.replica.recovery import RecoveredReplica, from_disk, with_nothing
from zonequake_store.replica.replica import Replica
from zonequake_store.serving.journal import EventJournal
from zonequake_store.serving.journal_entries import note_replica
from zonequake_store.settings import PlantedFault
from zonequake_store.storage.directory import Storage
from zonequake_store.storage.log_writes import GroupRecord

# The amount that a lying disk loses (planted fault `drop-log-tail`): a few seconds of a busy
# partition.
DROPPED_ENTRIES = 50


class StartingHost(Protocol):
    """The host for which replicas are made."""

    @property
    def name(self) -> str:
        """The node's name."""

    @property
    def heartbeat_ticks(self) -> int:
        """Ticks between two heartbeats of a leader."""

    @property
    def lease(self) -> NodeLease:
        """The rule by which the node holds its Lease."""

    @property
    def storage(self) -> Storage:
        """The files of the node's replicas."""

    @property
    def transport(self) -> Transport:
        """Knows where clients reach other nodes."""

    @property
    def tick_schedule(self) -> TickSchedule:
        """The ticks of the node."""

    @property
    def journal(self) -> EventJournal:
        """Takes what was cut off a log."""

    def clock_ms(self) -> int:
        """Returns monotonic time, which goes on while the machine is suspended."""


class Starter:
    """Makes replicas for a host, which doesn't know of them yet. `random(n)` gives 0 ≤ x < n."""

    def __init__(
        self,
        host: StartingHost,
        *,
        random: Callable[[int], int],
        planted_fault: PlantedFault | None,
    ) -> None:
        self._host = host
        self._random = random
        self._planted_fault = planted_fault
        self._faults = PlantedFaults(
            acknowledge_before_commit=planted_fault is PlantedFault.ACK_BEFORE_COMMIT,
            local_reads=planted_fault is PlantedFault.LOCAL_READS,
            forget_request_ids=planted_fault is PlantedFault.FORGET_REQUEST_ID,
            wall_order=(
                WallOrder(time.time_ns)
                if planted_fault is PlantedFault.ORDER_BY_WALL_CLOCK
                else None
            ),
        )

    def new_record(self, order: StartReplica) -> GroupRecord:
        """Returns the record of a new replica: another incarnation."""
        return GroupRecord(
            number=self._host.storage.new_number() if not order.volatile else 0,
            data_number=self._host.storage.new_number() if not order.volatile else 0,
            incarnation=f"{self._random(1 << 64):016x}",
            zone=order.zone,
            partition=order.partition,
            partitions=order.partitions,
            token=order.token,
            fsync=order.fsync,
        )

    def durable(
        self, order: StartReplica, record: GroupRecord, *, to_look: bool = False
    ) -> Replica:
        """Opens a replica from the disk; `to_look`: it is only inspected, not started.

        Raises LogCorrupt, StateCorrupt, CounterError.
        """
        storage = self._host.storage
        log = storage.log_of(record)
        if self._planted_fault is PlantedFault.DROP_LOG_TAIL and not to_look:
            stored_index = storage.data.state(record.data_number).index
            log.drop_tail(record.number, DROPPED_ENTRIES, keep_until=stored_index)

        def told_cut(cut: str) -> None:
            if not to_look:
                note_replica(self._host.journal, "replica.started", record, cut)

        return self._replica(order, record, from_disk(log, storage.data, record, told_cut=told_cut))

    def volatile(self, order: StartReplica) -> Replica:
        """Opens a replica with no state: log, term and vote live in memory, so each is another
        incarnation, which counts nowhere until it is in a configuration.
        """
        return self._replica(order, self.new_record(order), with_nothing())

    def _replica(
        self,
        order: StartReplica,
        record: GroupRecord,
        recovered: RecoveredReplica,
    ) -> Replica:
        me = Peer(self._host.name, record.incarnation)
        planted = (
            frozenset({JOINT_BEFORE_CAUGHT_UP})
            if self._planted_fault is PlantedFault.JOINT_BEFORE_CAUGHT_UP
            else frozenset()
        )
        try:
            raft = Raft(
                me=me,
                settings=RaftSettings(
                    heartbeat_ticks=self._host.heartbeat_ticks,
                    catch_up_bytes_per_second=order.catch_up_bytes_per_second,
                    planted=planted,
                ),
                log=recovered.log,
                hard_state=recovered.hard_state,
                random=self._random,
                applied=recovered.state.index,
            )
        except LogCorrupted as error:
            raise LogCorrupt(str(error)) from error
        raft.enforce(order.enforced_token)
        return Replica(
            group=order.group,
            record=record,
            me=me,
            raft=raft,
            log=recovered.log,
            cells=recovered.cells,
            partition=recovered.partition(deduplicate=not self._faults.forget_request_ids),
            faults=self._faults,
            client_address=self._host.transport.client_address,
            clock_ms=self._host.clock_ms,
            ticks=self._host.tick_schedule.ticks,
            permission=self._permission(order),
        )

    def _permission(self, order: StartReplica) -> Permission | None:
        if not order.needs_lease:
            return None
        permission = Permission(self._host.lease, boottime_s)
        permission.permit(order.lease_session, order.lease_holder)
        return permission
