"""One node's disk: the store's real log and data environments, and what a crash leaves of them.

Writes are queued, take a while, and are stored in their order, log and data apart, as the store's
two writer threads do. A crash stores the first few of each queue and forgets the rest: the write
was done and nobody heard of it, or it never was. The environments lie in a folder in memory.
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import lmdb

from zonequake_chaos.simulation.scenario import FaultKind
from zonequake_chaos.simulation.world import Timer, World
from zonequake_store.data_store import DataStore
from zonequake_store.log_store import LogStore
from zonequake_store.log_writes import LogWrite
from zonequake_store.storage import begun_stagings

_MAP_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class _Write:
    store: Callable[[], None]
    done: Callable[[], None]


class _Queue:
    """Writes of one writer, stored one after another."""

    def __init__(self, world: World, disk: Disk, name: str) -> None:
        self.name = name
        self._world = world
        self._disk = disk
        self._waiting: deque[_Write] = deque()
        self._timer: Timer | None = None

    def submit(self, write: _Write) -> None:
        self._waiting.append(write)
        if self._timer is None:
            self._start()

    def _start(self) -> None:
        latency_us = self._disk.latency_us()
        self._timer = self._world.later(latency_us, self._finish)
        self._disk.writes(self.name, latency_us)

    def _finish(self) -> None:
        write = self._waiting[0]
        if self._disk.trouble is not None:
            self._world.bites(self._disk.trouble)
            self._disk.fail()
            return
        write.store()
        self._waiting.popleft()
        self._timer = None
        if self._waiting:
            self._start()
        write.done()

    def crash(self, random: Random) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # A disk that fails may have stored what it denies; a full one has not.
        most = 0 if self._disk.trouble is FaultKind.FULL_DISK else len(self._waiting)
        tally = self._world.tally
        for _ in range(random.randint(0, most)):
            self._waiting.popleft().store()
            tally[f"crashed between a {self.name} write and its word"] += 1
        if self._waiting:
            tally[f"crashed before a {self.name} write"] += 1
        self._waiting.clear()


class Disk:
    """The disk of one node; `failed` is called when it cannot store."""

    def __init__(self, world: World, folder: Path, name: str) -> None:
        self.trouble: FaultKind | None = None
        """FAILED_SYNC or FULL_DISK: what it does instead of storing."""
        self.slow_us = 0
        """Added to every write, while it lasts."""
        self.failed: Callable[[], None] | None = None
        self._world = world
        self._folder = folder
        self._random = world.stream(f"disk {name}")
        self.armed: tuple[str, Callable[[], None]] | None = None
        """What is to happen in the middle of the next write to `log` or `data`, once."""
        self._log_queue = _Queue(world, self, "log")
        self._data_queue = _Queue(world, self, "data")
        self.log: LogStore
        self.data: DataStore
        self._next_number = 1
        self._open = False
        self.open()

    def open(self) -> None:
        """What a process does first."""
        self.log = LogStore(self._folder / "log", map_bytes=_MAP_BYTES, sync=True)
        self.data = DataStore(self._folder / "data", map_bytes=_MAP_BYTES)
        self._open = True
        records = self.log.records()
        self.stagings = begun_stagings(self.data, records)
        owned = {record.data_number for record in records.values()}
        owned |= {staging.number for staging in self.stagings.values()}
        stored = self.data.numbers()
        for number in sorted(stored - owned):
            self.data.erase(number)
        self._next_number = max([self.log.next_number(), *(number + 1 for number in stored)])

    def new_number(self) -> int:
        """A number for a log or for cells, never used before."""
        number, self._next_number = self._next_number, self._next_number + 1
        return number

    def latency_us(self) -> int:
        """How long the next write takes."""
        if self.slow_us:
            self._world.bites(FaultKind.SLOW_DISK)
        return self.slow_us + self._random.randrange(100, 4_000)

    def disarm(self) -> None:
        """Nothing happens in the middle of a write."""
        self.armed = None

    def writes(self, name: str, for_us: int) -> None:
        """A write has begun."""
        if self.armed is not None and self.armed[0] == name:
            self._world.later(self._random.randrange(for_us), self.armed[1])
            self.armed = None

    def write_log(
        self, writes: list[LogWrite], stored: Callable[[], None], done: Callable[[], None]
    ) -> None:
        """Store log writes in one commit: `stored` at that moment, `done` for the process."""

        def store() -> None:
            self.log.write(writes)
            stored()

        self._log_queue.submit(_Write(store, done))

    def write_data(self, job: Callable[[], None], done: Callable[[], None]) -> None:
        """Run a job on the data environment."""
        self._data_queue.submit(_Write(job, done))

    def fail(self) -> None:
        """A write could not be stored."""
        assert self.failed is not None, "the node is there before its first write"
        assert self.trouble is not None, "a sound disk stores"
        self.failed()

    def crash(self) -> None:
        """The process is gone: of what was under way, some was stored."""
        self._log_queue.crash(self._random)
        self._data_queue.crash(self._random)
        self.close()

    def close(self) -> None:
        """No other call but `open` may follow."""
        if self._open:
            self.log.close()
            self.data.close()
            self._open = False

    def flip_bit(self) -> bool:
        """Damage a record of the log while no process has it open; False if there is none."""
        assert not self._open, "the file belongs to a process"
        environment = lmdb.open(str(self._folder / "log"), map_size=_MAP_BYTES, max_dbs=3)
        try:
            log = environment.open_db(b"log")
            with environment.begin(write=True, db=log) as txn, txn.cursor() as cursor:
                keys = [bytes(key) for key in cursor.iternext(values=False)]
                if not keys:
                    return False
                key = self._random.choice(keys)
                record = bytearray(txn.get(key) or b"")
                position = self._random.randrange(len(record))
                record[position] ^= 1 << self._random.randrange(8)
                txn.put(key, bytes(record))
                return True
        finally:
            environment.close()

    def wipe(self) -> None:
        """All that was stored is gone. The process must be, too."""
        assert not self._open, "the file belongs to a process"
        shutil.rmtree(self._folder, ignore_errors=True)
