"""Threads that store things while the loop goes on.

A synced commit takes 0.1 ms on a good disk and 16 ms on a bad day; on the loop it would stall every
heartbeat of the node. Jobs that wait while one is written are written together, in one commit:
that is the group commit, and the slower the disk, the larger the group.

    StorageFull      nothing of the commit is stored: jobs are held back in their order and tried
                     again each second; those that can be refused are, and those that free space
                     go first
    any other error  nothing is ever written again: what the disk holds is not known (a sync that
                     failed may have dropped the pages, and the next one would not tell)
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from zonequake_store.errors import StorageError, StorageFull

Job = TypeVar("Job")
OnRefusal = Callable[[StorageError], None]

# Enough to join all that waits, and a bound for one commit's length.
_MAX_JOBS_PER_COMMIT = 64
RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class _Work(Generic[Job]):
    job: Job
    done: Callable[[], None]
    refused: OnRefusal | None
    frees: bool


class Writer(Generic[Job]):
    """Runs `write(jobs)` in a thread of its own and calls each job's `done` on the loop.

    `observe_s` gets each write's duration; `full`, `recovered` and `failed` are called on the loop
    when the storage is full, has room again, or has failed permanently.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[list[Job]], None],
        *,
        full: Callable[[StorageFull], None],
        recovered: Callable[[], None],
        failed: Callable[[Exception], None],
        observe_s: Callable[[float], None],
    ) -> None:
        self._write = write
        self._full = full
        self._recovered = recovered
        self._failed = failed
        self._observe_s = observe_s
        self._begun_s: float | None = None
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Work[Job] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(
        self,
        job: Job,
        done: Callable[[], None],
        *,
        refused: OnRefusal | None = None,
        frees: bool = False,
    ) -> None:
        """Writes `job`, then calls `done` on the loop.

        With `refused` it does not wait until there is room again: that is called instead of `done`
        if it cannot be written now, or never.
        """
        self._jobs.put(_Work(job, done, refused, frees))

    @property
    def under_way_s(self) -> float:
        """The duration so far of the commit under way, in seconds; 0 if there is none."""
        begun_s = self._begun_s
        return 0.0 if begun_s is None else time.perf_counter() - begun_s

    def stop(self) -> None:
        """Write what was submitted and end the thread; the last callbacks are left to the loop.

        What is held back stays unwritten.
        """
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            while True:
                first = self._jobs.get()
                if first is None:
                    return
                batch, goes_on = self._joined([first])
                try:
                    self._store(batch)
                except StorageFull as error:
                    if not self._hold(batch, error, goes_on=goes_on):
                        return
                if not goes_on:
                    return
        except Exception as error:  # noqa: BLE001  handed to the loop: nothing is stored any more
            failure = error
            self._post(lambda: self._failed(failure))
            self._refuse_all(StorageError(f"nothing is stored any more: {failure}"))

    def _joined(self, batch: list[_Work[Job]]) -> tuple[list[_Work[Job]], bool]:
        """Adds other waiting jobs to the batch; returns False with it if the thread must end."""
        while len(batch) < _MAX_JOBS_PER_COMMIT:
            try:
                following = self._jobs.get_nowait()
            except queue.Empty:
                break
            if following is None:
                return batch, False
            batch.append(following)
        return batch, True

    def _store(self, batch: list[_Work[Job]]) -> None:
        self._begun_s = begun_s = time.perf_counter()
        try:
            self._write([work.job for work in batch])
        except StorageFull:
            raise
        except Exception as error:
            reason = StorageError(f"it was not stored: {error}")
            self._refuse([work for work in batch if work.refused is not None], reason)
            raise
        finally:
            self._begun_s = None
        self._observe_s(time.perf_counter() - begun_s)
        self._post(lambda: _call_all([work.done for work in batch]))

    def _hold(self, held: list[_Work[Job]], error: StorageFull, *, goes_on: bool) -> bool:
        """Try again until all of it is stored; False if the thread is to end before."""
        first = error
        self._post(lambda: self._full(first))
        while held and goes_on:
            held = self._free(held, error)
            try:
                held.append(self._next(timeout_s=RETRY_S))
                held, goes_on = self._joined(held)
            except queue.Empty:
                pass
            except _Ended:
                goes_on = False
            try:
                while held:  # one by one: what fits is needed to make more room
                    self._store(held[:1])
                    held = held[1:]
            except StorageFull as again:
                error = again
        if not held:
            self._post(self._recovered)
        return goes_on

    def _next(self, *, timeout_s: float) -> _Work[Job]:
        work = self._jobs.get(timeout=timeout_s)
        if work is None:
            raise _Ended
        return work

    def _free(self, held: list[_Work[Job]], error: StorageFull) -> list[_Work[Job]]:
        """Write what frees space, refuse what can be refused; returns what is still held."""
        kept: list[_Work[Job]] = []
        for work in held:
            if work.frees:
                try:
                    self._store([work])
                except StorageFull:
                    pass
                else:
                    continue
            if work.refused is not None:
                self._refuse([work], error)
            else:
                kept.append(work)
        return kept

    def _refuse(self, refused: list[_Work[Job]], error: StorageError) -> None:
        calls = [work.refused for work in refused if work.refused is not None]
        self._post(lambda: [call(error) for call in calls])

    def _refuse_all(self, error: StorageError) -> None:
        """Answers all jobs until the end: otherwise their callers would wait forever."""
        while (work := self._jobs.get()) is not None:
            self._refuse([work], error)

    def _post(self, call: Callable[[], object]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)


class _Ended(Exception):
    """The thread is to end."""


def _call_all(callbacks: list[Callable[[], None]]) -> None:
    for callback in callbacks:
        callback()
