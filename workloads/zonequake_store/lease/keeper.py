"""Keeps the node's Lease: carries out what `NodeLease` wants, one call after the other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Protocol

from zonequake_store.lease.clock import boottime_s
from zonequake_store.lease.kubernetes import LeaseCallFailed, LeaseObjects
from zonequake_store.lease.rules.node_lease import RENEW_SHARE, NodeLease, PutLease
from zonequake_store.replica.host import EventSink

_log = logging.getLogger("zonequake_store")


class LeasedHost(Protocol):
    """The node whose Lease is kept.

    `lease_wanted_changed`: is called when the node begins or ceases to want its Lease.
    `lease_unrenewed_since_ms`: unix ms of the latest renewal's request.
    """

    lease_wanted_changed: Callable[[], None] | None
    lease_unrenewed_since_ms: int

    @property
    def lease(self) -> NodeLease:
        """The rule by which the node wants and renews its Lease."""

    @property
    def journal(self) -> EventSink:
        """The receiver of new sessions."""


class LeaseKeeper:
    """Keeps the Lease of one node; `start` it once its loop runs."""

    def __init__(self, host: LeasedHost, objects: LeaseObjects) -> None:
        self._host = host
        self._lease = host.lease
        self._objects = objects
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        host.lease_wanted_changed = self._wanted.set

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="lease")

    async def close(self) -> None:
        """End; the Lease stays as it is, and runs out."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._objects.close()

    async def _run(self) -> None:
        lease = self._lease
        while True:
            self._wanted.clear()
            rest_s = lease.rest_s(boottime_s())
            # Not wait_for: in Python 3.11 it forgets a cancellation that comes with its result.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest_s):
                    await self._wanted.wait()
            session, since_s, problem = lease.session, lease.unrenewed_since_s, lease.problem
            asked_ms = time.time_ns() // 1_000_000
            await self._step()
            if lease.unrenewed_since_s != since_s:
                self._host.lease_unrenewed_since_ms = asked_ms
            if lease.session != session:
                self._host.journal.add("lease.session", data={"session": lease.session})
            if lease.problem is not None and problem is None:
                _log.warning("the node's Lease is not renewed: %s", lease.problem)

    async def _step(self) -> None:
        lease = self._lease
        call = lease.next_call(boottime_s())
        if call is None:
            return
        timeout_s = RENEW_SHARE * lease.duration_s
        try:
            if isinstance(call, PutLease):
                version = await self._objects.put(call, timeout_s)
                if version is None:
                    lease.refused()
                else:
                    lease.stored(version)
            else:
                found = await self._objects.read(timeout_s)
                lease.found(*(found or (None, None)))
        except LeaseCallFailed as error:
            lease.failed(boottime_s(), str(error))
