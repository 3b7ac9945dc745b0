"""Many clients that come at once."""

from __future__ import annotations

import asyncio

import pytest

from tests.patience import PATIENCE_S
from tests.processes.store.local_nodes import MOSTLY_TLS, LocalNodes

pytestmark = pytest.mark.processes

CLIENTS = 600


@pytest.mark.parametrize("nodes", MOSTLY_TLS, indirect=True)
async def test_clients_can_connect_while_a_node_is_busy(nodes: LocalNodes) -> None:
    """A short backlog leaves the late ones with connections that answer nothing for long."""
    await nodes.start("n0")
    node = nodes.nodes["n0"]
    node.pause()
    async with asyncio.timeout(PATIENCE_S):
        opened = await asyncio.gather(
            *(asyncio.open_connection("127.0.0.1", node.client_port) for _ in range(CLIENTS))
        )
    node.resume()
    for _, writer in opened:
        writer.close()
