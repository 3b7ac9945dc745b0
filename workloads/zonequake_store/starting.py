"""What a replica is made of when it starts: what its disk has, or nothing."""

from __future__ import annotations

from collections.abc import Callable

from zonequake_store.admin_protocol import StartReplica
from zonequake_store.client_table import ClientTable
from zonequake_store.data_store import MemoryCells, Overlay
from zonequake_store.errors import LogCorrupt
from zonequake_store.host import Host
from zonequake_store.log_writes import GroupRecord
from zonequake_store.partition import AppliedState, Partition
from zonequake_store.pulse import HEARTBEAT_TICKS
from zonequake_store.raft.api import JOINT_BEFORE_CAUGHT_UP, Settings
from zonequake_store.raft.core import Raft
from zonequake_store.raft.errors import LogCorrupted
from zonequake_store.raft.messages import HardState, Peer
from zonequake_store.replica import Faults, Replica
from zonequake_store.replica_log import DurableLog, MemoryLog
from zonequake_store.settings import PlantedFault
from zonequake_store.transactions import TransactionTable

# What a lying disk loses (planted fault `drop-log-tail`): a few seconds of a busy partition.
DROPPED_ENTRIES = 50


class Starter:
    """Makes replicas for a host, which doesn't know of them yet. `random(n)` gives 0 ≤ x < n."""

    def __init__(
        self,
        host: Host,
        *,
        random: Callable[[int], int],
        planted_fault: PlantedFault | None,
    ) -> None:
        self._host = host
        self._random = random
        self._planted_fault = planted_fault
        self._faults = Faults(
            acknowledge_before_commit=planted_fault is PlantedFault.ACK_BEFORE_COMMIT,
            local_reads=planted_fault is PlantedFault.LOCAL_READS,
            forget_request_ids=planted_fault is PlantedFault.FORGET_REQUEST_ID,
        )

    def new_record(self, order: StartReplica) -> GroupRecord:
        """Of a replica that there was not: another incarnation."""
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
        """From what is on the disk; `to_look`: it is not to be started.

        Raises LogCorrupt, StateCorrupt, CounterError.
        """
        storage = self._host.storage
        store = storage.log_of(record)
        state = storage.data.state(record.data_number)
        if self._planted_fault is PlantedFault.DROP_LOG_TAIL and not to_look:
            store.drop_tail(record.number, DROPPED_ENTRIES, keep_until=state.index)
        recovered = store.recover(record.number)
        if recovered.cut and not to_look:
            self._host.note_replica("replica.started", record, recovered.cut)
        start = recovered.snapshot.index if recovered.snapshot else 0
        if not start <= state.index <= recovered.last_index:
            raise LogCorrupt(
                f"the stored state is that of index {state.index}, but the log holds "
                f"{start + 1} to {recovered.last_index}"
            )
        return self._replica(
            order,
            record,
            DurableLog(store, record.number, recovered),
            recovered.hard_state,
            Overlay(storage.data, record.data_number),
            storage.data.clients(record.data_number),
            storage.data.transactions(record.data_number),
            state,
        )

    def volatile(self, order: StartReplica) -> Replica:
        """With nothing: log, term and vote live in memory, so each is another incarnation, which
        counts nowhere until it is in a configuration."""
        return self._replica(
            order,
            self.new_record(order),
            MemoryLog(),
            HardState(),
            MemoryCells(),
            ClientTable(),
            TransactionTable(),
            AppliedState(),
        )

    def _replica(
        self,
        order: StartReplica,
        record: GroupRecord,
        log: DurableLog | MemoryLog,
        hard_state: HardState,
        cells: Overlay | MemoryCells,
        clients: ClientTable,
        transactions: TransactionTable,
        state: AppliedState,
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
                settings=Settings(
                    heartbeat_ticks=HEARTBEAT_TICKS,
                    catch_up_bytes_per_second=order.catch_up_bytes_per_second,
                    planted=planted,
                ),
                log=log,
                hard_state=hard_state,
                random=self._random,
                applied=state.index,
            )
        except LogCorrupted as error:
            raise LogCorrupt(str(error)) from error
        raft.enforce(order.enforced_token)
        return Replica(
            group=order.group,
            record=record,
            me=me,
            raft=raft,
            log=log,
            cells=cells,
            partition=Partition(
                cells,
                clients=clients,
                transactions=transactions,
                state=state,
                deduplicate=not self._faults.forget_request_ids,
            ),
            faults=self._faults,
            client_address=self._host.transport.client_address,
            clock_ms=self._host.clock_ms,
            ticks=self._host.agenda.ticks,
        )
