"""The task that keeps a node's Lease ends when the node does."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from zonequake_store.lease_keeper import LeaseKeeper


class NoApiServer:
    """Nothing is asked of it in this test."""

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("turns", range(5))
async def test_a_keeper_that_is_told_of_a_change_while_it_ends_ends_all_the_same(
    turns: int,
) -> None:
    """The last replicas close just before the keeper does: nobody wants a Lease any more."""
    lease = SimpleNamespace(session=1, rest_s=lambda _: 3.0, next_call=lambda _: None)
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
    ended, _ = await asyncio.wait({closing}, timeout=1)
    closing.cancel()
    assert ended
