"""One node's disk: the store's real data directory, and what faults and crashes leave of it.

Writes are queued, take some time, and are stored in order, log and data separately, as by the
store's two writer threads. A crash stores the first few of each queue and drops the rest: such a
write was done without an acknowledgement, or never done. The directory is in memory.

    full disk     nothing is stored until there is room; all waits, and what frees space goes first
    full map      the same for the log or the data alone
    failed sync   the write may be seen, and nothing is stored after it; a crash that takes the
                  kernel's memory along leaves what was there before it (the platter)
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import lmdb

from zonequake_simulation.scenario import FaultKind
from zonequake_simulation.world import VirtualTimer, World
from zonequake_store.errors import StorageFailed, StorageFull
from zonequake_store.settings import NodeSettings
from zonequake_store.storage.data_store import DataStore
from zonequake_store.storage.directory import Storage, Watcher
from zonequake_store.storage.log_store import LogStore
from zonequake_store.storage.log_writes import Compact, Erase, LogWrite

_MAP_BYTES = 1 << 26
_RETRY_US = 1_000_000


@dataclass(frozen=True, slots=True)
class _Write:
    store: Callable[[], None]
    done: Callable[[], None]
    frees: bool = False


class _Queue:
    """Writes of one writer, stored one after another."""

    def __init__(self, world: World, disk: Disk, name: str) -> None:
        self.name = name
        self._world = world
        self._disk = disk
        self._waiting: deque[_Write] = deque()
        self._timer: VirtualTimer | None = None
        self._is_held = False

    def submit(self, write: _Write) -> None:
        if self._disk.has_failed:
            return
        self._waiting.append(write)
        if self._timer is None:
            self._start()

    def _start(self) -> None:
        latency_us = self._disk.latency_us()
        self._timer = self._world.later(latency_us, self._finish)
        self._disk.writes(self.name, latency_us)

    def _finish(self) -> None:
        disk = self._disk
        if disk.trouble is FaultKind.FAILED_SYNC and disk.may_fail():
            self._world.bites(disk.trouble)
            disk.fail(self.name, self._waiting[0].store)
            return
        if disk.is_full(self.name):
            self._hold()
            return
        write = self._waiting.popleft()
        write.store()
        self._timer = None
        if self._waiting:
            self._start()
        elif self._is_held:
            self._is_held = False
            disk.watcher.storage_recovered(self.name)
        write.done()

    def _hold(self) -> None:
        """Tries again later. Some of the writes that free space find enough room for themselves."""
        self._timer = self._world.later(_RETRY_US, self._finish)
        freeing = [write for write in self._waiting if write.frees and self._disk.is_lucky()]
        self._waiting = deque(write for write in self._waiting if write not in freeing)
        for write in freeing:
            write.store()
        if not self._is_held:
            self._is_held = True
            assert self._disk.trouble is not None, "a sound disk stores"
            self._world.bites(self._disk.trouble)
            full = StorageFull(self.name, f"the disk of {self.name} is full")
            self._disk.watcher.storage_full(self.name, full)
        for write in freeing:
            write.done()
        if not self._waiting:
            # No write is left to try: the queue recovers as after its last held write.
            self._timer.cancel()
            self._timer, self._is_held = None, False
            self._disk.watcher.storage_recovered(self.name)

    def clear(self) -> None:
        """Drops all waiting writes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting.clear()
        self._is_held = False

    def crash(self, random: Random) -> None:
        # A full disk has stored none of the waiting writes.
        most = 0 if self._disk.is_full(self.name) else len(self._waiting)
        tally = self._world.tally
        for _ in range(random.randint(0, most)):
            self._waiting.popleft().store()
            tally[f"crashed between a {self.name} write and its word"] += 1
        if self._waiting:
            tally[f"crashed before a {self.name} write"] += 1
        self.clear()


class Disk:
    """The disk of one node."""

    def __init__(self, world: World, folder: Path, name: str) -> None:
        self.trouble: FaultKind | None = None
        """FAILED_SYNC, FULL_DISK or FULL_MAP: the fault that replaces storing."""
        self.may_fail: Callable[[], bool] = lambda: True
        """Returns whether a sync may fail now; a failed sync loses the contents of this disk."""
        self.full_map = "log"
        """The environment that FULL_MAP fills: `log` or `data`."""
        self.slow_us = 0
        """Delay that is added to every write, while it lasts."""
        self.watcher: Watcher
        """Receives reports; belongs to the process that runs."""
        self.has_failed = False
        """Whether a sync failed in this process."""
        self.is_distrusted = False
        """Whether a sync failed, in this process or before, and not all was wiped since."""
        self.armed: tuple[str, Callable[[], None]] | None = None
        """Environment (`log` or `data`), and the call to make once in the middle of the next write
        to it.
        """
        self._name = name
        self._world = world
        self._folder = folder
        self._platter: dict[str, int] = {}
        """Environments with pages that only the kernel has, by their files' numbers."""
        self._random = world.stream(f"disk {name}")
        self._log_queue = _Queue(world, self, "log")
        self._data_queue = _Queue(world, self, "data")
        self.storage: Storage
        self._open = False
        self.open()

    def open(self) -> None:
        """Opens the disk, as a process does first."""
        settings = NodeSettings(
            name=self._name,
            data_dir=self._folder,
            log_map_bytes=_MAP_BYTES,
            data_map_bytes=_MAP_BYTES,
        )
        self.storage = Storage(settings, fresh_incarnation=self._name)
        self.has_failed = False
        if self.trouble is FaultKind.FAILED_SYNC:
            self.trouble = None  # it was meant for the process before
        self._open = True
        for name, number in list(self._platter.items()):
            if self._file(name).stat().st_ino != number:
                del self._platter[name]  # written again, and all of it synced

    @property
    def log(self) -> LogStore:
        """The store of logs."""
        return self.storage.synced

    @property
    def data(self) -> DataStore:
        """The store of applied state."""
        return self.storage.data

    def latency_us(self) -> int:
        """Returns the duration of the next write."""
        if self.slow_us:
            self._world.bites(FaultKind.SLOW_DISK)
        return self.slow_us + self._random.randrange(100, 4_000)

    def disarm(self) -> None:
        """Cancels the call in the middle of a write."""
        self.armed = None

    def writes(self, name: str, for_us: int) -> None:
        """Takes note that a write has begun."""
        if self.armed is not None and self.armed[0] == name:
            self._world.later(self._random.randrange(for_us), self.armed[1])
            self.armed = None

    def write_log(
        self, writes: list[LogWrite], stored: Callable[[], None], done: Callable[[], None]
    ) -> None:
        """Stores log writes in one commit: `stored` is called at that moment, `done` for the
        process.
        """

        def store() -> None:
            self.log.write(writes)
            stored()

        self._log_queue.submit(_Write(store, done, frees=_free_space(writes)))

    def write_data(self, job: Callable[[], None], done: Callable[[], None]) -> None:
        """Runs a job on the data environment."""
        self._data_queue.submit(_Write(job, done))

    # ── trouble ──────────────────────────────────────────────────────────────────────────────

    def is_full(self, name: str) -> bool:
        """Returns whether an environment has no room now."""
        if self.trouble is FaultKind.FULL_MAP:
            return name == self.full_map
        return self.trouble is FaultKind.FULL_DISK

    def is_lucky(self) -> bool:
        """Returns whether a small write finds room though larger ones do not."""
        return self._random.random() < 0.5

    def log_share(self, *, fsync: bool) -> float:
        """Returns 0: maps are never nearly full here, but either full or not."""
        return 0.0

    def shortage(self, *, unflushed_bytes: int) -> str | None:
        """Returns the shortage of a full disk, else None; a map of this size never has one."""
        return "the disk is full" if self.trouble is FaultKind.FULL_DISK else None

    def fail(self, name: str, store: Callable[[], None]) -> None:
        """Fails a sync: the write may be seen from now on, and nothing is stored after it."""
        if name not in self._platter:
            shutil.copyfile(self._file(name), self._platter_file(name))
            self._platter[name] = self._file(name).stat().st_ino
        if self._random.random() < 0.5:
            store()
        self.trouble = None  # the next sync would succeed, and not report the failure
        self.has_failed = self.is_distrusted = True
        self._log_queue.clear()
        self._data_queue.clear()
        error = StorageFailed(name, f"a commit in {name} failed (Input/output error)")
        self.storage.distrust(name, error)
        self.watcher.storage_failed(name, error)

    def crash(self) -> None:
        """Ends the process: some of the pending writes are stored."""
        self._log_queue.crash(self._random)
        self._data_queue.crash(self._random)
        self.close()
        if self._platter and self._random.random() < 0.5:
            self._lose_power()

    def _lose_power(self) -> None:
        """Ends the machine: data that only its kernel had is lost."""
        self._world.tally["lost what was not synced"] += 1
        for name in self._platter:
            self._file(name).write_bytes(self._platter_file(name).read_bytes())
        self._platter.clear()

    def _file(self, name: str) -> Path:
        return self._folder / name / "data.mdb"

    def _platter_file(self, name: str) -> Path:
        return self._folder / f"{name}.platter"

    def close(self) -> None:
        """Closes the disk; only `open` may follow."""
        if self._open:
            self.storage.close()
            self._open = False

    def flip_bit(self) -> bool:
        """Damages a record of the log while no process has it open; returns False if there is
        none.
        """

        def flip(record: bytes) -> bytes:
            damaged = bytearray(record)
            damaged[self._random.randrange(len(record))] ^= 1 << self._random.randrange(8)
            return bytes(damaged)

        return self._damage(flip, newest=False)

    def tear_tail(self) -> bool:
        """Cuts a log's newest record, as if only its beginning was written; returns False if there
        is none.
        """
        return self._damage(
            lambda record: record[: self._random.randrange(len(record))], newest=True
        )

    def _damage(self, damaged: Callable[[bytes], bytes], *, newest: bool) -> bool:
        assert not self._open, "the file belongs to a process"
        environment = lmdb.open(str(self._folder / "log"), map_size=_MAP_BYTES, max_dbs=3)
        try:
            log = environment.open_db(b"log")
            with environment.begin(write=True, db=log) as txn, txn.cursor() as cursor:
                keys = [bytes(key) for key in cursor.iternext(values=False)]
                if newest:
                    keys = list({key[:8]: key for key in keys}.values())
                if not keys:
                    return False
                key = self._random.choice(keys)
                txn.put(key, damaged(bytes(txn.get(key) or b"")))
                return True
        finally:
            environment.close()

    def wipe(self) -> None:
        """Deletes everything that was stored. The process must have ended."""
        assert not self._open, "the file belongs to a process"
        shutil.rmtree(self._folder, ignore_errors=True)
        self._platter.clear()
        self.is_distrusted = False


def _free_space(writes: list[LogWrite]) -> bool:
    """Returns whether all these writes only delete, as the host's compactions and erasures do."""
    return all(isinstance(write, (Compact, Erase)) for write in writes)
