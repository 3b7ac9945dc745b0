"""A node's data directory: its lock, its content, and the threads that write it.

    <data>/LOCK            held (fcntl) while a process uses the directory
    <data>/FORMAT          of all below (`format`)
    <data>/log/            LMDB: logs and records of replicas whose zone syncs
    <data>/log-unsynced/   LMDB: the same for zones with fsync: false
    <data>/data/           LMDB: applied state of all replicas
    <data>/events.jsonl    the journal
    <data>/CRASHED         what the last process said when a signal ended it (`crash_note`)
    <data>/DISTRUSTED      which environment's commit failed, and why (`distrust`)

The logs of zones without fsync live in an environment of their own, because an LMDB environment
with unsynced commits may be lost as a whole in a power loss; a SIGKILL hurts neither. If it was, it
is put aside as `log-unsynced.damaged` and started over: its replicas are gone from this node and
come back under new incarnations, those with fsync go on. The applied state is put aside likewise: a
replica whose log reaches back to its beginning applies it again, the others are broken. Damaged
synced logs end the start: votes and acknowledged writes would be lost with them.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from zonequake_store.catch_up.messages import Staging
from zonequake_store.errors import (
    DirectoryLocked,
    StorageError,
    StorageFailed,
    StorageFull,
    StoreCorrupt,
)
from zonequake_store.settings import NodeSettings, PlantedFault
from zonequake_store.storage import crash_note
from zonequake_store.storage.data_store import DataStore
from zonequake_store.storage.distrusted_files import DistrustedFiles
from zonequake_store.storage.format import check_format
from zonequake_store.storage.lmdb_files import check_pages, free_bytes, renew
from zonequake_store.storage.log_store import LogStore
from zonequake_store.storage.log_writes import GroupRecord, LogWrite
from zonequake_store.storage.writer import Writer

Opened = TypeVar("Opened", LogStore, DataStore)
Job = TypeVar("Job")

# Beyond this no client's write is taken any more: what is left is for the entries that are under
# way, for terms, votes and configurations, and for the pages that forgetting takes before it gives.
_TAKING_WRITES_SHARE = 0.9
_KEPT_FREE_BYTES = 16 << 20


class Watcher(Protocol):
    """Receives the events of the storage, on the loop."""

    def storage_full(self, writer: str, error: StorageFull) -> None:
        """Is called when this writer (`log`, `data`) stores nothing until there is room again."""

    def storage_recovered(self, writer: str) -> None:
        """Is called when the writes that the storage held back are stored."""

    def storage_failed(self, writer: str, error: Exception) -> None:
        """Is called when this writer has failed; it stores nothing from then on."""

    def logs_damaged(self, damaged: dict[int, str]) -> None:
        """Is called when logs can't be written; `damaged` has the reason by the log's number."""


@dataclass(slots=True)
class LogBatch:
    """The log writes of one loop turn: one commit in each environment that has any."""

    synced: list[LogWrite] = field(default_factory=list)
    unsynced: list[LogWrite] = field(default_factory=list)

    def of(self, record: GroupRecord) -> list[LogWrite]:
        """Returns the list for a replica's writes."""
        return self.synced if record.fsync else self.unsynced

    def __bool__(self) -> bool:
        return bool(self.synced or self.unsynced)


class Storage:
    """The open data directory. Raises DirectoryLocked or StorageError if it cannot be used."""

    def __init__(self, settings: NodeSettings, *, fresh_incarnation: str) -> None:
        directory = self._directory = settings.data_dir
        self._ignores_failures = settings.planted_fault is PlantedFault.IGNORE_FAILED_SYNC
        self._log_map_bytes = settings.log_map_bytes
        self._data_map_bytes = settings.data_map_bytes
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = (directory / "LOCK").open("w")
        except OSError as error:
            raise StorageError(
                f"the data directory {directory} cannot be written ({error}); check the volume and "
                "its owner"
            ) from error
        with contextlib.ExitStack() as undo:
            undo.callback(self._lock.close)
            self._take_lock(directory)
            check_format(directory)
            self.crash = crash_note.said(directory)
            """The last output of the previous process, if a signal ended it."""
            self._distrusted = DistrustedFiles(directory / "DISTRUSTED")
            self.put_aside: list[str] = []
            """The reasons for which environments were started over, if they were."""
            self._open_all(settings, undo)
            crash_note.forget(directory)
            self.incarnation = self.synced.identity(fresh_incarnation)
            self.records = self.synced.records() | self._unsynced.records()
            self.stagings = begun_stagings(self.data, self.records)
            """Snapshots on their way in that an earlier process left, by group."""
            self._next_number = self._free_numbers()
            self._distrusted.settle(self.records.values())
            undo.pop_all()
        self.watcher: Watcher
        """The receiver of the storage's events; set before anything is written."""
        self._loop: asyncio.AbstractEventLoop
        self._writers: list[Writer[LogBatch] | Writer[Callable[[], None]]] = []
        self._log_writer: Writer[LogBatch]
        self._data_writer: Writer[Callable[[], None]]

    def _take_lock(self, directory: Path) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DirectoryLocked(
                f"the data directory {directory} is in use by another process; two data nodes "
                "must not share one: stop the other, or set ZQ_DATA_DIR"
            ) from error
        with contextlib.suppress(OSError):  # a full disk: the number is for people
            self._lock.write(f"{os.getpid()}\n")
            self._lock.flush()

    def _open_all(self, settings: NodeSettings, undo: contextlib.ExitStack) -> None:
        directory = settings.data_dir
        log_bytes, data_bytes = settings.log_map_bytes, settings.data_map_bytes
        try:
            self.synced = self._open(
                directory / "log", lambda path: LogStore(path, map_bytes=log_bytes, sync=True)
            )
        except StoreCorrupt as error:
            raise StoreCorrupt(
                f"{error}; look at the disk, then erase the data directory {directory}, and the "
                "replicas come back from their peers"
            ) from error
        undo.callback(self.synced.close)
        self._unsynced = self._open_or_begin_anew(
            directory / "log-unsynced", lambda path: LogStore(path, map_bytes=log_bytes, sync=False)
        )
        undo.callback(self._unsynced.close)
        self.data = self._open_or_begin_anew(
            directory / "data", lambda path: DataStore(path, map_bytes=data_bytes)
        )
        undo.callback(self.data.close)

    def _open(self, path: Path, opens: Callable[[Path], Opened]) -> Opened:
        if path.name in self._distrusted.to_renew and path.exists():
            renew(path)
            self._distrusted.renewed(path.name)
        elif self.crash is not None:
            check_pages(path)
        return opens(path)

    def _open_or_begin_anew(self, path: Path, opens: Callable[[Path], Opened]) -> Opened:
        try:
            return self._open(path, opens)
        except StoreCorrupt as error:
            aside = path.with_name(f"{path.name}.damaged")
            self.put_aside.append(f"{error}; it is put aside as {aside.name} and started over")
            shutil.rmtree(aside, ignore_errors=True)
            path.rename(aside)
            return opens(path)

    def _free_numbers(self) -> int:
        """Erase what no replica owns or goes on with, and return the lowest number that was never
        used."""
        owned = {record.data_number for record in self.records.values()}
        owned |= {staging.number for staging in self.stagings.values()}
        stored = self.data.numbers()
        with contextlib.suppress(StorageFull):  # then at a later start
            for number in stored - owned:
                self.data.erase(number)
        return max(
            self.synced.next_number(),
            self._unsynced.next_number(),
            self._distrusted.lowest_sound_number,
            *(number + 1 for number in stored),
        )

    def start(
        self,
        *,
        observe_log_s: Callable[[float], None],
        observe_data_s: Callable[[float], None],
    ) -> None:
        """Start the writer threads; needs a running loop."""
        self._loop = asyncio.get_running_loop()
        self._log_writer = self._writer("log", self._write_log, observe_log_s)
        self._data_writer = self._writer("data", _run_all, observe_data_s)
        self._writers = [self._log_writer, self._data_writer]

    def _writer(
        self, name: str, write: Callable[[list[Job]], None], observe_s: Callable[[float], None]
    ) -> Writer[Job]:
        def guarded(jobs: list[Job]) -> None:
            try:
                write(jobs)
            except StorageFull:
                raise
            except Exception as error:
                if self._ignores_failures:
                    return
                self.distrust(name, error)  # at once, and in this thread
                raise

        return Writer(
            f"{name} writer",
            guarded,
            full=lambda error: self.watcher.storage_full(name, error),
            recovered=lambda: self.watcher.storage_recovered(name),
            failed=lambda error: self.watcher.storage_failed(name, error),
            observe_s=observe_s,
        )

    def close(self) -> None:
        """Write what was submitted, close everything, release the lock."""
        for writer in self._writers:
            writer.stop()
        self.synced.close()
        self._unsynced.close()
        self.data.close()
        self._lock.close()

    def new_number(self) -> int:
        """Returns a number for a log or for cells, never used before."""
        number, self._next_number = self._next_number, self._next_number + 1
        return number

    def log_of(self, record: GroupRecord) -> LogStore:
        """Returns the environment that holds a replica's log."""
        return self.synced if record.fsync else self._unsynced

    def write_log(self, batch: LogBatch, done: Callable[[], None], *, frees: bool = False) -> None:
        """Stores a batch durably, then calls `done` on the loop; `frees`: it makes room."""
        self._log_writer.submit(batch, done, frees=frees)

    async def log_written(self, batch: LogBatch, *, frees: bool = False) -> None:
        """Store a batch. Raises StorageError if that cannot be done now."""
        stored = self._loop.create_future()
        self._log_writer.submit(
            batch,
            lambda: _resolve(stored, None),
            refused=lambda error: _resolve(stored, error),
            frees=frees,
        )
        await stored

    def write_data(
        self, job: Callable[[], None], done: Callable[[], None], *, frees: bool = False
    ) -> None:
        """Runs a job on the data environment in its thread, then calls `done` on the loop."""
        self._data_writer.submit(job, done, frees=frees)

    def erase_state(self, number: int) -> None:
        """Delete cells that no replica owns any more, after what was asked before."""
        self.write_data(lambda: self.data.erase(number), lambda: None, frees=True)

    @property
    def log_used_bytes(self) -> int:
        """Bytes used of the log maps."""
        return self.synced.used_bytes + self._unsynced.used_bytes

    @property
    def under_way_s(self) -> dict[str, float]:
        """The duration so far of the commits under way, in seconds."""
        return {
            "log": self._log_writer.under_way_s,
            "data": self._data_writer.under_way_s,
        }

    def log_share(self, *, fsync: bool) -> float:
        """Returns how much of the map of the logs with or without fsync is in use, 0 to 1."""
        return (self.synced if fsync else self._unsynced).live_bytes / self._log_map_bytes

    def shortage(self, *, unflushed_bytes: int) -> str | None:
        """Returns why no more writes should be taken, although what is under way still fits, and so
        many bytes of state; None: no reason.
        """
        for name, used_bytes, map_bytes, variable in (
            ("log", self.synced.live_bytes, self._log_map_bytes, "ZQ_LOG_MAP_BYTES"),
            ("log-unsynced", self._unsynced.live_bytes, self._log_map_bytes, "ZQ_LOG_MAP_BYTES"),
            (
                "data",
                self.data.live_bytes + unflushed_bytes,
                self._data_map_bytes,
                "ZQ_DATA_MAP_BYTES",
            ),
        ):
            if used_bytes > _TAKING_WRITES_SHARE * map_bytes:
                return (
                    f"{used_bytes >> 20} of {map_bytes >> 20} MiB of the map {name} are in use; "
                    f"set {variable} higher and start the node again"
                )
        left_bytes = free_bytes(self._directory)
        if left_bytes < _KEPT_FREE_BYTES:
            return (
                f"the disk of {self._directory} has {left_bytes >> 10} KiB left; free space on it"
            )
        return None

    def distrust(self, writer: str, error: Exception) -> None:
        """Writes down which environment is not to be trusted, as a writer's commit failed."""
        environment = error.environment if isinstance(error, StorageFailed) else writer
        self._distrusted.add(environment, below=self._next_number, reason=str(error))

    def distrusted(self, record: GroupRecord) -> str | None:
        """Returns why a replica must not be started from what is stored here, or None."""
        return self._distrusted.of(record)

    def erased(self, left: Iterable[GroupRecord]) -> None:
        """Records that a replica was erased; `left` are those that are not."""
        self._distrusted.settle(left)

    def _write_log(self, batches: list[LogBatch]) -> None:
        synced = [write for batch in batches for write in batch.synced]
        unsynced = [write for batch in batches for write in batch.unsynced]
        damaged: dict[int, str] = {}
        if synced:
            damaged |= self.synced.write(synced)
        if unsynced:
            damaged |= self._unsynced.write(unsynced)
        if damaged:
            self._loop.call_soon_threadsafe(self.watcher.logs_damaged, damaged)


def _resolve(future: asyncio.Future[None], error: StorageError | None) -> None:
    if future.done():
        return  # no caller waits any more
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


def begun_stagings(data: DataStore, records: Mapping[str, GroupRecord]) -> dict[str, Staging]:
    """Returns snapshots on their way in; forgets those that were installed, or whose replica is
    gone.
    """
    found: dict[str, Staging] = {}
    for group, staging in data.stagings().items():
        record = records.get(group)
        if record is not None and record.data_number != staging.number:
            found[group] = staging
        else:
            data.unstage(group, staging.number)
    return found


def _run_all(jobs: Iterable[Callable[[], None]]) -> None:
    for job in jobs:
        job()
