"""The one wrapper of the Kubernetes API: what it repeats, and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio import client
from tenacity import wait_none

from zonequake_operator.api_server.kube import MAX_RETRY_AFTER_S, NamespaceApi
from zonequake_operator.errors import KubeError
from zonequake_operator.resources.stored_shapes import Object


@asynccontextmanager
async def answering(*answers: web.Response) -> AsyncIterator[NamespaceApi]:
    waiting = list(answers)

    async def answer(_: web.Request) -> web.Response:
        return waiting.pop(0)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(application) as server:
        api = client.ApiClient(client.Configuration(host=str(server.make_url("")).rstrip("/")))
        kube = NamespaceApi(api, "n", "r")
        kube.pauses = wait_none()
        try:
            yield kube
        finally:
            await kube.close()


async def test_a_server_that_asks_to_be_left_alone_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept_s: list[float] = []
    really_sleep = asyncio.sleep

    async def sleep(seconds: float) -> None:
        slept_s.append(seconds)
        await really_sleep(0)

    monkeypatch.setattr("asyncio.sleep", sleep)
    throttled = [
        web.Response(status=429, headers={"Retry-After": "3"}),
        web.Response(status=503, headers={"Retry-After": "3600"}),
        web.Response(status=500),
    ]
    async with answering(*throttled, web.json_response({"metadata": {}})) as kube:
        await kube.get_zone("z")
    assert slept_s[:3] == [3.0, MAX_RETRY_AFTER_S, 0.0]


async def test_an_answer_that_is_no_json_is_an_error_of_the_api() -> None:
    async with answering(web.Response(text="<html>log in</html>")) as kube:
        with pytest.raises(KubeError, match="expected JSON; does something else answer there"):
            await kube.get_zone("z")


async def test_every_read_asks_for_the_most_recent(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a resourceVersion a server may answer from its watch cache (docs/operator.md)."""
    asked: list[tuple[str, dict[str, str]]] = []

    async def call_once(
        _: NamespaceApi, method: str, path: str, query: Mapping[str, str] | None, *__: object
    ) -> Object:
        asked.append((f"{method} {path}", dict(query or {})))
        return {"items": [], "metadata": {}}

    monkeypatch.setattr(NamespaceApi, "_call_once", call_once)
    kube = NamespaceApi(None, "n", "r")  # type: ignore[arg-type]
    kube.reads_nodes = True
    named = {"get_zone", "get_lease", "list_partitions"}
    unnamed = {name for name in vars(NamespaceApi) if name.startswith(("get_", "list_"))} - named
    for name in sorted(named):
        await getattr(kube, name)("z")
    for name in sorted(unnamed):
        await getattr(kube, name)()
    assert len(asked) == len(named | unnamed) >= 9
    for call, query in asked:
        assert call.startswith("GET ")
        assert not {"resourceVersion", "resourceVersionMatch"} & query.keys(), call
