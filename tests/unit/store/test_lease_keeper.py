"""The task that keeps a node's Lease: what it notes of it, and that it ends when the node does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from zonequake_protocol.admin import LeaseTrouble
from zonequake_store.lease.clock import boottime_s
from zonequake_store.lease.keeper import LeaseKeeper
from zonequake_store.lease.kubernetes import LeaseCallFailed
from zonequake_store.lease.rules.node_lease import LeaseRecord, NodeLease, PutLease


class NoApiServer:
    """Nothing is asked of it in this test."""

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("turns", range(5))
async def test_a_keeper_that_is_told_of_a_change_while_it_ends_ends_all_the_same(
    turns: int,
) -> None:
    """The last replicas close just before the keeper does: no replica needs a Lease any more."""
    lease = SimpleNamespace(
        session=1,
        unrenewed_since_s=None,
        problem=None,
        rest_s=lambda _: 3.0,
        next_call=lambda _: None,
    )
    host: Any = SimpleNamespace(lease=lease)
    objects: Any = NoApiServer()
    keeper = LeaseKeeper(host, objects)
    keeper.start()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    host.lease_wanted_changed()
    for _ in range(turns):
        await asyncio.sleep(0)
    closing = asyncio.create_task(keeper.close())
    ended, _ = await asyncio.wait({closing}, timeout=60)
    closing.cancel()
    assert ended


async def test_the_keeper_notes_since_when_the_lease_is_unrenewed_by_the_clock_on_the_wall(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Once per renewal: a time that moved with each report would make each of them new."""
    lease = NodeLease(holder="p", duration_s=0.2)
    host: Any = SimpleNamespace(
        lease=lease,
        lease_unrenewed_since_ms=0,
        journal=SimpleNamespace(add=lambda *_, **__: None),
    )
    api = FlakyApi()
    keeper = LeaseKeeper(host, api)  # type: ignore[arg-type]
    before_ms = time.time_ns() // 1_000_000
    lease.want(True)
    keeper.start()
    await until(lambda: api.puts >= 2)
    renewed_ms = host.lease_unrenewed_since_ms
    assert before_ms <= renewed_ms <= time.time_ns() // 1_000_000
    api.fails = True
    await until(lambda: lease.trouble(boottime_s()) is LeaseTrouble.EXPIRED)
    await until(lambda: lease.problem == "GET …: Cannot connect")  # behind a PUT that failed
    stopped_ms = host.lease_unrenewed_since_ms
    await asyncio.sleep(0.1)
    assert host.lease_unrenewed_since_ms == stopped_ms
    assert caplog.text.count("is not renewed") == 1
    api.fails = False
    await until(lambda: lease.trouble(boottime_s()) is None)
    assert host.lease_unrenewed_since_ms > stopped_ms
    await keeper.close()


class FlakyApi:
    """Holds one Lease; fails while it is told to."""

    def __init__(self) -> None:
        self.record: LeaseRecord | None = None
        self.puts = 0
        self.fails = False

    async def read(self, _timeout_s: float) -> tuple[LeaseRecord, str] | None:
        if self.fails:
            raise LeaseCallFailed("GET …: Cannot connect")
        return None if self.record is None else (self.record, str(self.puts))

    async def put(self, put: PutLease, _timeout_s: float) -> str | None:
        if self.fails:
            raise LeaseCallFailed("PUT …: Cannot connect")
        self.puts += 1
        self.record = put.record
        return str(self.puts)

    async def close(self) -> None:
        """Nothing is open."""


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110  there is no event to wait for
            await asyncio.sleep(0.005)
