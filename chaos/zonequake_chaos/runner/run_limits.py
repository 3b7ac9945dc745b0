"""Ends a run that must not go on: on request, at its time limit, or without consent.

It checks in the background, every second, and again right before each fault. If the API server does
not answer, it repeats the check; only a fault waits for the result.

    abort asked, by the folder or by the lock ──┐
    the run's time is over                    ──┼──► stop(verdict, words) ──► the run's tail heals
    the namespace's consent is gone           ──┤
    the lock is gone, or another run's        ──┘
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from zonequake_analysis.harness_report import ABORTED
from zonequake_analysis.verdict import Verdict
from zonequake_chaos.cleanup.run_lock import ABORT, RunLock, answer, read_run_lock
from zonequake_chaos.record.clock import RunClock
from zonequake_chaos.runner.consent import check_consent
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError, UsageError, in_words

ENDED = "ended early"
"""Start of the problem text of a run that was ended early."""

ABORT_FILE = "abort"
"""File in the run's folder that `zonequake abort` makes, for a run that may not reach its
cluster.
"""

_NEAR_S = 0.25
_FAR_S = 1.0
_ANSWER_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyEnd:
    """The reason for ending a run early, with its verdict."""

    verdict: Verdict
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """The permission of a run, on an embedded cluster or for a limited time, and its run lock."""

    embedded: bool
    limit_s: float | None
    lock: RunLock


@dataclass(slots=True, kw_only=True)
class RunLimits:
    """Checks the limits of a run; calls `stop` once, with the first reason."""

    kube: Kube
    clock: RunClock
    folder: Path
    release: str
    permit: Permit
    stop: Callable[[EarlyEnd], None]
    _stopped: bool = False

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Checks as long as the block lasts."""
        tasks = [asyncio.create_task(self._kept_up(look)) for look in (self._near, self._far)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _kept_up(self, look: Callable[[], Awaitable[None]]) -> None:
        """Ends the run if its checks fail unexpectedly."""
        try:
            await look()
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the run
            words = f"{ENDED}: the watch of the run failed: {in_words(error)}"
            self._end(Verdict.HARNESS_FAILED, words)

    async def permit_fault(self) -> None:
        """Ends the run if the namespace forbids the next fault, or if its consent can't be
        checked."""
        try:
            await self._check()
        except ClusterError as error:
            self._end(Verdict.UNKNOWN, f"{ENDED}: can't check whether chaos is allowed: {error}")
        await asyncio.sleep(0)  # a run that was ended stops here

    async def _check(self) -> None:
        try:
            await check_consent(self.kube, embedded=self.permit.embedded)
        except UsageError as error:
            self._end(Verdict.UNKNOWN, f"{ENDED}: {error}")

    async def _near(self) -> None:
        """Ends the run early on the conditions that need no API server."""
        began_ns = self.clock.now().time_ns
        while True:
            lasted_s = (self.clock.now().time_ns - began_ns) / 1e9
            if (self.folder / ABORT_FILE).exists():
                self._end(Verdict.HARNESS_FAILED, ABORTED)
            if self.permit.limit_s is not None and lasted_s > self.permit.limit_s:
                self._end(
                    Verdict.UNKNOWN,
                    f"{ENDED}: the run may last {self.permit.limit_s:g} s, which have passed",
                )
            await asyncio.sleep(_NEAR_S)

    async def _far(self) -> None:
        while True:
            with contextlib.suppress(ClusterError, TimeoutError):
                async with asyncio.timeout(_ANSWER_S):
                    await self._look()
            await asyncio.sleep(_FAR_S)

    async def _look(self) -> None:
        await self._check()
        found = await read_run_lock(self.kube, self.release)
        if found is None or found.run != self.permit.lock.run:
            whose = "gone" if found is None else f"that of {found.run}"
            self._end(Verdict.HARNESS_FAILED, f"{ENDED}: the run lock is {whose}")
        elif found.asked != found.answered:
            await answer(self.kube, found)
            if found.asked.startswith(ABORT):
                self._end(Verdict.HARNESS_FAILED, ABORTED)

    def _end(self, verdict: Verdict, words: str) -> None:
        if not self._stopped:
            self._stopped = True
            self.stop(EarlyEnd(verdict=verdict, words=words))
