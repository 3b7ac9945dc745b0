"""A watch whose connection is dead without a word ends a little later than the server ends one."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from zonequake_kube import client
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError


class Anonymous(Kube):
    """A connection without credentials."""

    def __init__(self, session: aiohttp.ClientSession, host: str) -> None:
        self._session, self._host, self.namespace = session, host, "n"

    async def _credentials(self) -> dict[str, str]:
        return {}


async def test_a_watch_that_goes_silent_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "WATCH_TIMEOUT_S", 1)
    monkeypatch.setattr(client, "_WATCH_LATE_S", 0.2)
    over = asyncio.Event()

    async def pods(request: web.Request) -> web.StreamResponse:
        assert request.query["timeoutSeconds"] == "1"
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b'{"type": "ADDED", "object": {}}\n')
        await over.wait()
        return answer

    app = web.Application()
    app.router.add_get("/api/v1/namespaces/n/pods", pods)
    seen: list[str] = []
    async with (
        TestServer(app, host="127.0.0.1") as server,
        aiohttp.ClientSession() as session,
    ):
        kube = Anonymous(session, f"http://127.0.0.1:{server.port}")

        async def watch() -> None:
            async for event in kube.watch("Pod", labels="", resource_version="7"):
                seen.append(event.kind)  # noqa: PERF401 - what came before the error counts

        with pytest.raises(ClusterError, match="while reading"):
            await asyncio.wait_for(watch(), 60)
        over.set()
    assert seen == ["ADDED"]
