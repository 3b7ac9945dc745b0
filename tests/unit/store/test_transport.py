"""Links between nodes, on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import pytest

from zonequake_store.framing import Departures
from zonequake_store.peer_protocol import Hello
from zonequake_store.transport import Transport


def transport(name: str) -> Transport:
    """`name` at a port of its own, which it tells once it listens."""

    def hello() -> Hello:
        assert made._listener is not None
        return Hello(name, f"{name}-1", f"127.0.0.1:{made._listener.port}", "")

    made = Transport(
        domain="", port=0, hello=hello, received=lambda *_: None, departures=Departures()
    )
    return made


@pytest.fixture
def silent_address() -> Iterator[str]:
    """Where nobody answers a SYN, as at a pod's old address: a listener whose backlog is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(2):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"


async def is_connected(link: Transport, node: str, within_s: float) -> bool:
    for _ in range(round(within_s / 0.01)):
        if link._connection_to(node) is not None:
            return True
        await asyncio.sleep(0.01)
    return False


async def test_a_peer_that_calls_from_a_new_address_is_called_back_though_the_old_one_still_waits(
    silent_address: str,
) -> None:
    a, b = transport("a"), transport("b")
    await a.listen("127.0.0.1", 0, None)
    await b.listen("127.0.0.1", 0, None)
    try:
        a.told({"b": silent_address})
        a.greet("b")
        await asyncio.sleep(0.1)  # the attempt is under way; it would take two seconds
        b.told({"a": a.hello().peer_address})
        b.greet("a")
        assert await is_connected(a, "b", 1.0)
    finally:
        await a.close()
        await b.close()


async def test_an_attempt_that_leads_where_the_peer_says_it_is_goes_on_when_it_calls() -> None:
    """Else two nodes that call each other at once give up each other's attempts for ever."""
    accepted = 0

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        await reader.read()
        writer.close()
        await writer.wait_closed()

    a = transport("a")
    await a.listen("127.0.0.1", 0, None)
    server = await asyncio.start_server(late, "127.0.0.1", 0)
    async with server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        a.told({"b": address})
        a.greet("b")
        for _ in range(5):
            await asyncio.sleep(0.05)
            a.learn(Hello("b", "b-1", address, ""))
        await a.close()
        await asyncio.sleep(0.1)  # for the other ends to close, too
    assert accepted == 1
