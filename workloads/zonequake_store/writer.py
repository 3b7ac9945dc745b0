"""Threads that store things while the loop goes on.

A synced commit takes 0.1 ms on a good disk and 16 ms on a bad day; on the loop it would stall every
heartbeat of the node. Jobs that wait while one is written are written together, in one commit:
that is the group commit, and the slower the disk, the larger the group.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Job = TypeVar("Job")

# Enough to join whatever waits, and a bound for one commit's length.
_MAX_JOBS_PER_COMMIT = 64


class Writer(Generic[Job]):
    """Runs `write(jobs)` in a thread of its own and calls each job's `done` on the loop.

    `observe_s` gets each write's duration. An exception of `write` goes to `failed`, once, and
    nothing is written after it: what was promised to be on disk is not.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[list[Job]], None],
        *,
        failed: Callable[[Exception], None],
        observe_s: Callable[[float], None],
    ) -> None:
        self._write = write
        self._failed = failed
        self._observe_s = observe_s
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[tuple[Job, Callable[[], None]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Job, done: Callable[[], None]) -> None:
        """Have `job` written, then `done` called on the loop."""
        self._jobs.put((job, done))

    def stop(self) -> None:
        """Write what was submitted and end the thread; the last callbacks are left to the loop."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            first = self._jobs.get()
            if first is None:
                return
            batch = [first]
            stopping = False
            while len(batch) < _MAX_JOBS_PER_COMMIT:
                try:
                    following = self._jobs.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    stopping = True
                    break
                batch.append(following)
            begun_s = time.perf_counter()
            try:
                self._write([job for job, _ in batch])
            except Exception as error:  # noqa: BLE001  handed to the loop, which ends the node
                self._loop.call_soon_threadsafe(self._failed, error)
                return
            self._observe_s(time.perf_counter() - begun_s)
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(_call_all, [done for _, done in batch])
            if stopping:
                return


def _call_all(callbacks: list[Callable[[], None]]) -> None:
    for callback in callbacks:
        callback()
