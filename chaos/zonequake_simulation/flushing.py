"""The flushes of a node: it stores its replicas' states from time to time, and then truncates their
logs.
"""

from __future__ import annotations

from collections.abc import Mapping

from zonequake_simulation.checks.group import GroupRules
from zonequake_simulation.disk import Disk
from zonequake_simulation.replicas import Replicas
from zonequake_simulation.scenario import FaultKind
from zonequake_simulation.world import World
from zonequake_store.replica.log import DurableLog
from zonequake_store.replica.replica import Replica
from zonequake_store.storage.cells import Overlay
from zonequake_store.storage.data_store import Flush
from zonequake_store.storage.log_writes import Compact


class SimulatedFlushing:
    """One node's flushes."""

    def __init__(
        self, *, world: World, disk: Disk, replicas: Replicas, rules: Mapping[str, GroupRules]
    ) -> None:
        self.compact_to: float | None = None
        """Share of the durable entries that the next flush is to compact away, 0..1; 1: all."""
        self._world = world
        self._disk = disk
        self._replicas = replicas
        self._rules = rules

    def flush(self) -> None:
        """Stores in one commit what the replicas applied."""
        flushing: list[tuple[Replica, Overlay, int]] = []
        jobs: list[Flush] = []
        for replica in self._replicas.running.values():
            cells, index = replica.cells, replica.partition.index
            if not isinstance(cells, Overlay):
                self.compact(replica)
            elif not replica.flushing and (index > replica.durable_index or self.compact_to):
                replica.flushing = True
                flushing.append((replica, cells, index))
                jobs.append(cells.begin_flush(replica.partition))
        if not jobs:
            return
        data = self._disk.data

        def flushed() -> None:
            for replica, cells, index in flushing:
                replica.flushing = False
                cells.end_flush()
                if replica.cells is cells and not replica.stopped:
                    replica.durable_index = index
                    self.compact(replica)

        self._disk.write_data(lambda: data.flush(jobs), flushed)

    def wake(self) -> None:
        """Does nothing: no caller waits for a flush here."""

    def compact(self, replica: Replica) -> None:
        """Compacts a log as far as a fault wants it, if that part is stored as state."""
        share = self.compact_to
        if share is None or replica.core_now().pending_snapshot is not None:
            return
        self.compact_to = None
        log = replica.log
        index = log.first_index - 1 + round(share * (replica.durable_index + 1 - log.first_index))
        index = min(index, replica.durable_index, log.last_index)
        if index < log.first_index:
            return
        meta = replica.core_now().snapshot_meta(index)
        replica.core_now().compact(index)
        log.compacted(meta)
        self._world.bites(FaultKind.COMPACT)
        rules, me = self._rules[replica.group], replica.me
        if isinstance(log, DurableLog):
            self._disk.write_log(
                [Compact(log.number, meta)], lambda: rules.compacted(me, meta), lambda: None
            )
        else:
            rules.compacted(me, meta)
