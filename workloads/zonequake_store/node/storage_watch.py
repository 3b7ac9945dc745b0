"""The node's reaction to storage that runs short, is full, or has failed; and its reports of it.

short    no client's write is taken any more (`overloaded`, certainly not executed); reads,
         elections and the log's compaction go on in what is kept free; leaderships are handed
         to nodes that have room
full     besides, replicas with something to store stand still, silent, so that others lead;
         it is tried again each second, and all goes on once there is room
failed   every replica with files here is broken, at once: what the disk holds is not known.
         Nothing is written any more; volatile replicas go on. /healthz fails, so that the
         process is started again; the replicas stay broken until they are erased (`distrust`)
"""

from __future__ import annotations

import logging
from typing import Protocol

from zonequake_store.errors import StorageError, StorageFull
from zonequake_store.replica.host import EventSink, ReplicaHost
from zonequake_store.replica.replica import Replica
from zonequake_store.storage.cells import Overlay
from zonequake_store.storage.directory import Watcher
from zonequake_store.storage.log_writes import GroupRecord

# A log map that is this full keeps less of each log for lagging peers: they get a snapshot.
_PRESSED_SHARE = 0.7

# The most that one replica may keep in memory while the data environment takes nothing.
_MAX_UNFLUSHED_BYTES = 64 << 20

# Leaderships are handed over again after so long, and longer each time: all nodes may be full.
_FIRST_HANDOVER_S = 10.0
_LONGEST_HANDOVER_S = 600.0


class FreeSpace(Protocol):
    """Says how much room there is."""

    def log_share(self, *, fsync: bool) -> float:
        """Returns how much of the map of the logs with or without fsync is in use, 0 to 1."""

    def shortage(self, *, unflushed_bytes: int) -> str | None:
        """Returns why no more writes should be taken, or None."""


class PendingFlushes(Protocol):
    """The flushes, and the waits for them."""

    def compact(self, replica: Replica) -> None:
        """Forgets the entries of a log that are stored as state and that no peer should lack."""

    def wake(self) -> None:
        """Wakes all that wait for a flush."""


class WatchedHost(ReplicaHost, Protocol):
    """The host whose replicas and storage are watched."""

    @property
    def storage(self) -> FreeSpace:
        """The room for the replicas' data."""

    @property
    def journal(self) -> EventSink:
        """The receiver of the storage's reports."""

    @property
    def flushing(self) -> PendingFlushes:
        """The data on its way to the disk."""


class StorageWatch(Watcher):
    """Looks after the storage for a host's replicas."""

    def __init__(self, host: WatchedHost, *, log: logging.Logger) -> None:
        self._host = host
        self._log = log
        self._failed: dict[str, str] = {}
        self._full: dict[str, str] = {}
        self._short: str | None = None
        self._pressed: dict[bool, bool] = {}
        self._handover_s = 0.0
        self._handover_pause_s = _FIRST_HANDOVER_S

    @property
    def failure(self) -> str | None:
        """The reason that nothing is stored here any more, or None."""
        return next(iter(self._failed.values()), None)

    @property
    def is_full(self) -> bool:
        """Returns whether something waits for room."""
        return bool(self._full)

    @property
    def problem(self) -> str | None:
        """The reason that no write is taken here, or None."""
        if self._failed:
            return f"failed: {self.failure}"
        if self._full:
            return f"full: {'; '.join(self._full.values())}"
        return None if self._short is None else f"short: {self._short}"

    def check(self) -> None:
        """Raises StorageError if applied state is not stored now."""
        reason = self._failed.get("data") or self._full.get("data") or self.failure
        if reason is not None:
            raise StorageError(reason)

    def log_is_pressed(self, record: GroupRecord) -> bool:
        """Returns whether the map that holds a replica's log is so full that it should keep
        less.
        """
        return self._pressed.get(record.fsync, False)

    def admit(self, replica: Replica) -> None:
        """Tell a replica that begins whether it may take writes."""
        if not replica.is_volatile:
            replica.refusal = self.problem

    def look(self, now_s: float) -> None:
        """See how much room there is; once a second."""
        storage = self._host.storage
        if self._failed:
            return
        self._pressed = {
            fsync: storage.log_share(fsync=fsync) > _PRESSED_SHARE for fsync in (True, False)
        }
        replicas = self._host.replicas.values()
        if any(self._pressed.values()):
            for replica in self._durable():
                if self._pressed[replica.record.fsync]:
                    self._host.flushing.compact(replica)
        short = storage.shortage(unflushed_bytes=sum(map(_unflushed_bytes, replicas)))
        if (short is None) != (self._short is None):
            self._short = short
            self._tell("storage.recovered" if short is None else "storage.short", None, short)
        self._short = short
        if self.problem is None:
            self._handover_s, self._handover_pause_s = 0.0, _FIRST_HANDOVER_S
        elif now_s >= self._handover_s:
            self._handover_s = now_s + self._handover_pause_s
            self._handover_pause_s = min(2 * self._handover_pause_s, _LONGEST_HANDOVER_S)
            self._hand_over()
        if "data" in self._full:
            self._break_what_grows()

    def storage_full(self, writer: str, error: StorageFull) -> None:
        """Handles a full environment: this writer stores nothing until there is room again."""
        self._full[writer] = str(error)
        self._tell("storage.full", error.environment, str(error))
        for replica in self._durable():
            if replica.core_now().is_storing:
                replica.interrupt("the node's storage is full")
        self._host.flushing.wake()

    def storage_recovered(self, writer: str) -> None:
        """Handles the recovery: the writes that the storage held back are stored."""
        self._full.pop(writer, None)
        self._tell("storage.recovered", writer, None)

    def storage_failed(self, writer: str, error: Exception) -> None:
        """Handles a failed environment: it stores nothing any more, and what is not acknowledged
        yet never will be.
        """
        reason = str(error)
        self._failed[writer] = reason
        self._full.pop(writer, None)
        self._log.critical("nothing is stored any more: %s", reason, exc_info=error)
        self._tell("storage.failed", writer, reason)
        for replica in self._durable():
            self._host.break_down(replica, reason)
        self._host.flushing.wake()

    def logs_damaged(self, damaged: dict[int, str]) -> None:
        """Records that these logs cannot be written, for these reasons."""
        for replica in self._durable():
            reason = damaged.get(replica.record.number)
            if reason is not None:
                self._host.break_down(replica, reason)

    def _durable(self) -> list[Replica]:
        return [each for each in self._host.replicas.values() if not each.is_volatile]

    def _tell(self, kind: str, environment: str | None, reason: str | None) -> None:
        if reason is not None:
            self._log.error("%s: %s", kind, reason)
        self._host.journal.add(kind, data={"environment": environment, "reason": reason})
        for replica in self._durable():
            self.admit(replica)

    def _hand_over(self) -> None:
        for replica in self._durable():
            if replica.leads and replica.core_now().transfer_leadership():
                self._host.wake(replica)

    def _break_what_grows(self) -> None:
        for replica in self._durable():
            waiting_bytes = _unflushed_bytes(replica)
            if waiting_bytes > _MAX_UNFLUSHED_BYTES:
                self._host.break_down(
                    replica,
                    f"{waiting_bytes >> 20} MiB of its state found no room: {self._full['data']}",
                )


def _unflushed_bytes(replica: Replica) -> int:
    cells = replica.cells
    return cells.dirty_bytes if isinstance(cells, Overlay) else 0
