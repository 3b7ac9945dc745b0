"""What a test that failed has left in a relay's loop ends with the relay."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests.kube.operator.api_server import UNVERIFIED
from tests.kube.operator.relay import Relay

pytestmark = pytest.mark.kube


def test_a_relay_that_closes_ends_whatever_still_writes_in_its_loop() -> None:
    relay = Relay("https://127.0.0.1:1", "", UNVERIFIED)
    left: list[asyncio.Task[None]] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        async def write_for_ever() -> None:
            _, writer = await asyncio.open_connection(*server.getsockname())

            async def close() -> None:
                writer.close()

            relay.at_close(close)
            while True:
                writer.write(b"x")
                await asyncio.sleep(0.01)

        async def begin() -> None:
            left.append(asyncio.create_task(write_for_ever()))

        relay.run(begin())
        near, _ = server.accept()
        relay.close()
        with near:
            while near.recv(100):
                pass
    assert left[0].cancelled()
