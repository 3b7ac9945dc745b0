"""The initial state of a replica, node or simulated: what its disk holds, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zonequake_store.errors import LogCorrupt
from zonequake_store.raft.messages import HardState
from zonequake_store.replica.log import DurableLog, MemoryLog
from zonequake_store.state.client_table import ClientTable
from zonequake_store.state.partition import AppliedState, StateMachine
from zonequake_store.state.transactions import TransactionTable
from zonequake_store.storage.cells import MemoryCells, Overlay
from zonequake_store.storage.data_store import DataStore
from zonequake_store.storage.log_store import LogStore
from zonequake_store.storage.log_writes import GroupRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredReplica:
    """A replica's log and state before it does anything."""

    log: DurableLog | MemoryLog
    hard_state: HardState
    cells: Overlay | MemoryCells
    clients: ClientTable
    transactions: TransactionTable
    state: AppliedState

    def partition(self, *, deduplicate: bool = True) -> StateMachine:
        """Builds the state machine that goes on from there."""
        return StateMachine(
            self.cells,
            clients=self.clients,
            transactions=self.transactions,
            state=self.state,
            deduplicate=deduplicate,
        )


def with_nothing() -> RecoveredReplica:
    """Returns the beginning of a volatile replica."""
    return RecoveredReplica(
        log=MemoryLog(),
        hard_state=HardState(),
        cells=MemoryCells(),
        clients=ClientTable(),
        transactions=TransactionTable(),
        state=AppliedState(),
    )


def from_disk(
    log: LogStore,
    data: DataStore,
    record: GroupRecord,
    *,
    told_cut: Callable[[str], None] = lambda _: None,
) -> RecoveredReplica:
    """Returns the beginning of a durable replica; calls `told_cut` with what was cut off the log's
    end, if anything.

    Raises LogCorrupt, StateCorrupt, CounterError.
    """
    state = data.state(record.data_number)
    recovered = log.recover(record.number)
    if recovered.cut:
        told_cut(recovered.cut)
    start = recovered.snapshot.index if recovered.snapshot else 0
    if not start <= state.index <= recovered.last_index:
        raise LogCorrupt(
            f"the stored state is that of index {state.index}, but the log holds "
            f"{start + 1} to {recovered.last_index}"
        )
    return RecoveredReplica(
        log=DurableLog(log, record.number, recovered),
        hard_state=recovered.hard_state,
        cells=Overlay(data, record.data_number),
        clients=data.clients(record.data_number),
        transactions=data.transactions(record.data_number),
        state=state,
    )
