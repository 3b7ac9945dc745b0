"""A node's data directory: who may use it, what is in it, and the threads that write it.

    <data>/LOCK            held (fcntl) while a process uses the directory
    <data>/log/            LMDB: logs and records of replicas whose zone syncs
    <data>/log-unsynced/   LMDB: the same for zones with fsync: false
    <data>/data/           LMDB: applied state of all replicas
    <data>/events.jsonl    the journal
    <data>/CRASHED         what the last process said when a signal ended it (`last_breath`)

The logs of zones without fsync live in an environment of their own, because an LMDB environment
with unsynced commits may be lost as a whole in a power loss; a SIGKILL hurts neither. If it was, it
is put aside as `log-unsynced.damaged` and begun anew: its replicas are gone from this node and come
back under new incarnations, those with fsync go on. The applied state is put aside likewise: a
replica whose log reaches back to its beginning applies it again, the others are broken. Damaged
synced logs end the start: with them would go what was voted and acknowledged.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from zonequake_store import last_breath
from zonequake_store.catchup.messages import Staging
from zonequake_store.data_store import DataStore
from zonequake_store.errors import DirectoryLocked, StorageError, StoreCorrupt
from zonequake_store.lmdb_files import check_pages
from zonequake_store.log_store import LogStore
from zonequake_store.log_writes import GroupRecord, LogWrite
from zonequake_store.settings import NodeSettings
from zonequake_store.writer import Writer

Opened = TypeVar("Opened", LogStore, DataStore)


@dataclass(slots=True)
class LogBatch:
    """What one loop turn stores: one commit in each environment that has something."""

    synced: list[LogWrite] = field(default_factory=list)
    unsynced: list[LogWrite] = field(default_factory=list)

    def of(self, record: GroupRecord) -> list[LogWrite]:
        """The list for a replica's writes."""
        return self.synced if record.fsync else self.unsynced

    def __bool__(self) -> bool:
        return bool(self.synced or self.unsynced)


class Storage:
    """The open data directory. Raises DirectoryLocked or StorageError if it cannot be used."""

    def __init__(self, settings: NodeSettings, *, fresh_incarnation: str) -> None:
        directory = settings.data_dir
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
            self.crash = last_breath.said(directory)
            """What the process before this one said, if a signal ended it."""
            self.put_aside: list[str] = []
            """Why environments were begun anew, if they were."""
            self._open_all(settings, undo)
            last_breath.forget(directory)
            self.incarnation = self._synced.identity(fresh_incarnation)
            self.records = self._synced.records() | self._unsynced.records()
            self.stagings = begun_stagings(self.data, self.records)
            """Snapshots on their way in that an earlier process left, by group."""
            self._next_number = self._free_numbers()
            undo.pop_all()
        self._failure: Exception | None = None
        self._log_writer: Writer[LogBatch] | None = None
        self._data_writer: Writer[Callable[[], None]] | None = None

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
            self._synced = self._open(
                directory / "log", lambda path: LogStore(path, map_bytes=log_bytes, sync=True)
            )
        except StoreCorrupt as error:
            raise StoreCorrupt(
                f"{error}; look at the disk, then erase the data directory {directory}, and the "
                "replicas come back from their peers"
            ) from error
        undo.callback(self._synced.close)
        self._unsynced = self._open_or_begin_anew(
            directory / "log-unsynced", lambda path: LogStore(path, map_bytes=log_bytes, sync=False)
        )
        undo.callback(self._unsynced.close)
        self.data = self._open_or_begin_anew(
            directory / "data", lambda path: DataStore(path, map_bytes=data_bytes)
        )
        undo.callback(self.data.close)

    def _open(self, path: Path, opens: Callable[[Path], Opened]) -> Opened:
        if self.crash is not None:
            check_pages(path)
        return opens(path)

    def _open_or_begin_anew(self, path: Path, opens: Callable[[Path], Opened]) -> Opened:
        try:
            return self._open(path, opens)
        except StoreCorrupt as error:
            aside = path.with_name(f"{path.name}.damaged")
            self.put_aside.append(f"{error}; it is put aside as {aside.name} and begun anew")
            shutil.rmtree(aside, ignore_errors=True)
            path.rename(aside)
            return opens(path)

    def _free_numbers(self) -> int:
        """Erase what no replica owns or goes on with, and return the lowest number that was never
        used."""
        owned = {record.data_number for record in self.records.values()}
        owned |= {staging.number for staging in self.stagings.values()}
        stored = self.data.numbers()
        for number in stored - owned:
            self.data.erase(number)
        return (
            max(self._synced.next_number(), self._unsynced.next_number(), *(n + 1 for n in stored))
            if stored
            else max(self._synced.next_number(), self._unsynced.next_number())
        )

    def start(
        self,
        *,
        failed: Callable[[Exception], None],
        observe_log_s: Callable[[float], None],
        observe_data_s: Callable[[float], None],
    ) -> None:
        """Start the writer threads; needs a running loop."""

        def fail(error: Exception) -> None:
            self._failure = error
            failed(error)

        self._log_writer = Writer(
            "log writer", self._write_log, failed=fail, observe_s=observe_log_s
        )
        self._data_writer = Writer("data writer", _run_all, failed=fail, observe_s=observe_data_s)

    def check(self) -> None:
        """Raises StorageError if a writer has failed: what waits for it would wait for ever."""
        if self._failure is not None:
            raise StorageError(
                f"nothing is stored any more ({self._failure}); the node ends, start it again"
            ) from self._failure

    def close(self) -> None:
        """Write what was submitted, close everything, release the lock."""
        if self._log_writer is not None and self._data_writer is not None:
            self._log_writer.stop()
            self._data_writer.stop()
        self._synced.close()
        self._unsynced.close()
        self.data.close()
        self._lock.close()

    def new_number(self) -> int:
        """A number for a log or for cells, never used before."""
        number, self._next_number = self._next_number, self._next_number + 1
        return number

    def log_of(self, record: GroupRecord) -> LogStore:
        """The environment that holds a replica's log."""
        return self._synced if record.fsync else self._unsynced

    def write_log(self, batch: LogBatch, done: Callable[[], None]) -> None:
        """Have a batch stored durably, then `done` called on the loop."""
        assert self._log_writer is not None, "the writers are started with the node"
        self._log_writer.submit(batch, done)

    def write_data(self, job: Callable[[], None], done: Callable[[], None]) -> None:
        """Have a job on the data environment run in its thread, then `done` on the loop."""
        assert self._data_writer is not None, "the writers are started with the node"
        self._data_writer.submit(job, done)

    def erase_state(self, number: int) -> None:
        """Delete cells that no replica owns any more, after what was asked before."""
        self.write_data(lambda: self.data.erase(number), lambda: None)

    @property
    def log_used_bytes(self) -> int:
        """Bytes used of the log maps."""
        return self._synced.used_bytes + self._unsynced.used_bytes

    def _write_log(self, batches: list[LogBatch]) -> None:
        synced = [write for batch in batches for write in batch.synced]
        unsynced = [write for batch in batches for write in batch.unsynced]
        if synced:
            self._synced.write(synced)
        if unsynced:
            self._unsynced.write(unsynced)


def begun_stagings(data: DataStore, records: Mapping[str, GroupRecord]) -> dict[str, Staging]:
    """Snapshots on their way in; forgets those that were installed, or whose replica is gone."""
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
