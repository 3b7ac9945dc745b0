"""HTTP connections on which nothing was asked yet: a stranger's, and one of the API server's."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from zonequake_tls import connection_limits, http_server
from zonequake_tls.http_server import HttpServer, serve

ASKED = b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n"


async def served(*, behind_proxy: bool) -> HttpServer:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="here")

    app = web.Application()
    app.add_routes([web.get("/x", answer)])
    return await serve(app, "127.0.0.1", 0, name="made", behind_proxy=behind_proxy)


async def test_a_proxys_unused_connection_outlives_a_silent_strangers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The API server opens one while another becomes free, and may ask on it much later."""
    monkeypatch.setattr(http_server, "SILENT_S", 0.1)
    monkeypatch.setattr(connection_limits, "_SWEEP_S", 0.02)
    proxied, other = [await served(behind_proxy=each) for each in (True, False)]
    reader, writer = await asyncio.open_connection("127.0.0.1", proxied.port)
    stranger, its_writer = await asyncio.open_connection("127.0.0.1", other.port)
    async with asyncio.timeout(60):
        assert await stranger.read() == b""
        for _ in range(2):
            writer.write(ASKED)
            assert (await reader.readline()).endswith(b"200 OK\r\n")
            assert (await reader.readuntil(b"here")).endswith(b"here")
    assert (proxied.limits.cut["silent"], other.limits.cut["silent"]) == (0, 1)
    for each in (writer, its_writer):
        each.close()
    for server in (proxied, other):
        await server.close()
