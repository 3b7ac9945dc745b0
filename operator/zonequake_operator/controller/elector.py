"""Stands for election until this process leads, and ends the process when it no longer leads."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from zonequake_operator.api_server.kube import NamespaceApi
from zonequake_operator.election.candidate import RENEW_SHARE, Ballot, Candidate
from zonequake_operator.election.lease_object import ballot_of, object_of
from zonequake_operator.errors import KubeConflict, KubeError, KubeNotFound

logger = logging.getLogger(__name__)

WATCH_S = 0.2


def boottime_s() -> float:
    """Goes on while the machine is suspended, where that is known."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Elector:
    """Runs the election of one process. Every call has a time-out, so a hung API server costs the
    leadership.
    """

    def __init__(self, kube: NamespaceApi, lease: str, candidate: Candidate) -> None:
        self._kube = kube
        self._lease = lease
        self._candidate = candidate
        self._renewing: asyncio.Task[None] | None = None

    @property
    def leads(self) -> bool:
        """Returns whether this process may act now; ask right before each act."""
        return self._candidate.leads(boottime_s())

    async def won(self) -> None:
        """Return once this process leads; it goes on renewing."""
        self._renewing = asyncio.create_task(self._run(), name="election")
        logger.info("%s stands by", self._candidate.name)
        while not self.leads:  # noqa: ASYNC110  it also ends by the clock alone
            await asyncio.sleep(WATCH_S)
        logger.info("%s leads", self._candidate.name)

    async def watch(self, lost: Callable[[], None]) -> None:
        """Calls `lost` once this process no longer leads."""
        while self.leads:  # noqa: ASYNC110  it ends by the clock alone
            await asyncio.sleep(WATCH_S)
        lost()

    async def resign(self) -> None:
        """Stops leading, and releases the Lease so that another operator can lead at once."""
        led = self.leads
        self._candidate.resigned()
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        if led:
            try:
                async with asyncio.timeout(self._candidate.duration_s * RENEW_SHARE):
                    found = await self._read()
                    if found.holder == self._candidate.name:
                        released = Ballot(
                            holder="", transitions=found.transitions, version=found.version
                        )
                        await self._write(released)
            except (KubeError, TimeoutError) as error:
                logger.info("the Lease %s runs out by itself: %s", self._lease, error)

    async def _run(self) -> None:
        pause_s = self._candidate.duration_s * RENEW_SHARE
        while True:
            try:
                async with asyncio.timeout(pause_s):
                    await self._step()
            except (KubeError, TimeoutError) as error:
                logger.warning("the Lease %s was not renewed: %r", self._lease, error)
            except Exception:
                # Otherwise a process that stands by would do so forever, and look well.
                logger.exception("the Lease %s was not renewed", self._lease)
            await asyncio.sleep(pause_s)

    async def _step(self) -> None:
        asked_s = boottime_s()
        found = await self._read()
        wanted = self._candidate.wants(found, boottime_s())
        if wanted is None:
            return
        try:
            await self._write(wanted)
        except (KubeConflict, KubeNotFound):
            return  # another operator was quicker
        self._candidate.wrote(asked_s)

    async def _read(self) -> Ballot:
        try:
            return ballot_of(await self._kube.get_lease(self._lease))
        except KubeNotFound:
            return Ballot(holder="", transitions=0, version=None)

    async def _write(self, ballot: Ballot) -> None:
        body = object_of(
            ballot,
            name=self._lease,
            duration_s=self._candidate.duration_s,
            now_ns=time.time_ns(),
        )
        if ballot.version is None:
            await self._kube.create_lease(body)
        else:
            await self._kube.replace_lease(body)
