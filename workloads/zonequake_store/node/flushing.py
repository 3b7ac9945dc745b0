"""Stores applied state on the disk, and shortens the logs up to it."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from zonequake_store.catch_up.edge import NodeCatchUp
from zonequake_store.node.storage_watch import StorageWatch
from zonequake_store.replica.host import ReplicaHost
from zonequake_store.replica.log import DurableLog
from zonequake_store.replica.replica import LOG_ERRORS, Replica
from zonequake_store.storage.cells import Overlay
from zonequake_store.storage.data_store import DataStore
from zonequake_store.storage.directory import LogBatch, Storage
from zonequake_store.storage.log_writes import Compact

# A thread that gives up the interpreter for less may have it back before another woke up.
_PAUSE_S = 0.0001


def _pause() -> None:
    time.sleep(_PAUSE_S)


class FlushedHost(ReplicaHost, Protocol):
    """The host whose replicas' state is stored."""

    @property
    def storage(self) -> Storage:
        """The store of the replicas' state."""

    @property
    def watch(self) -> StorageWatch:
        """Says whether anything is stored now, and whether logs should keep less."""

    @property
    def catch_up(self) -> NodeCatchUp:
        """Says which entries peers still need."""


class Flushing:
    """The flushes of a node's replicas."""

    def __init__(self, host: FlushedHost) -> None:
        self._host = host
        self._news = asyncio.Event()

    def flush(self, replicas: list[Replica]) -> None:
        """Stores what these replicas applied, in one commit."""
        flushing: list[tuple[Replica, Overlay, int]] = []
        jobs = []
        for replica in replicas:
            cells = replica.cells
            if not replica.flushing and isinstance(cells, Overlay):
                replica.flushing = True
                flushing.append((replica, cells, replica.partition.index))
                jobs.append(cells.begin_flush(replica.partition))
        if jobs:
            storage = self._host.storage
            data: DataStore = storage.data
            storage.write_data(
                lambda: data.flush(jobs, pause=_pause), lambda: self._flushed(flushing)
            )

    def _flushed(self, flushed: list[tuple[Replica, Overlay, int]]) -> None:
        for replica, cells, index in flushed:
            replica.flushing = False
            cells.end_flush()
            if replica.cells is cells and not replica.stopped:
                replica.durable_index = index
                self.compact(replica)
        self.wake()

    def wake(self) -> None:
        """Wakes all that wait for a flush: one ended, or the storage or a replica did."""
        self._news.set()
        self._news = asyncio.Event()

    async def flushed(self, replica: Replica) -> None:
        """Wait until all that the replica has applied by now is stored, or another state has taken
        its place: a newer lineage's may end before it, and is stored.

        Raises StorageError if nothing is stored now.
        """
        wanted, cells = replica.partition.index, replica.cells

        def is_owed() -> bool:
            return replica.durable_index < wanted and replica.cells is cells

        while is_owed() and not replica.stopped:
            self._host.watch.check()
            self.flush([replica])
            await self._news.wait()
        if is_owed():
            self._host.watch.check()  # that is why it was stopped

    async def flush_ended(self, replica: Replica) -> None:
        """Wait until no flush of a removed replica is under way: it must not meet its successor.

        Raises StorageError if nothing is stored now.
        """
        while replica.flushing:
            self._host.watch.check()
            await self._news.wait()

    def compact(self, replica: Replica) -> None:
        """Forgets the entries of a log that are stored as state and that no peer should lack."""
        try:
            self._compact(replica)
        except LOG_ERRORS as error:
            self._host.break_down(replica, str(error))

    def _compact(self, replica: Replica) -> None:
        if replica.core_now().pending_snapshot is not None:
            return  # the core's log begins after it already, and so will the stored one
        host = self._host
        highest = min(replica.durable_index, host.catch_up.lowest_index_needed(replica))
        pressed = not replica.is_volatile and host.watch.log_is_pressed(replica.record)
        index = replica.log.compaction_index(highest, pressed=pressed)
        if index is None:
            return
        # First these entries get no new readers, then they go: a lagging follower's turn may
        # come between this and the commit.
        meta = replica.core_now().snapshot_meta(index)
        replica.core_now().compact(index)
        replica.log.compacted(meta)
        if isinstance(replica.log, DurableLog):
            batch = LogBatch()
            batch.of(replica.record).append(Compact(replica.log.number, meta))
            host.storage.write_log(batch, lambda: None, frees=True)
