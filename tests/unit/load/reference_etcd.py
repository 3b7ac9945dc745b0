"""An etcd in memory behind the JSON gateway's paths, whose answers can be spoilt.

It keeps what a real one promises: one revision for each transaction that writes, compares and
ranges of one key. Each endpoint is a server of its own over the same state.
"""

from __future__ import annotations

import asyncio
import base64
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Json = Mapping[str, Any]


@dataclass
class Spoilt:
    """What happens to one request: is it carried out, and what is answered?

    `error`: (gRPC code, message). `silent`: nothing is, and the connection stays open. Neither: the
    connection is closed.
    """

    applied: bool = False
    error: tuple[int, str] | None = None
    silent: bool = False


@dataclass
class Endpoint:
    port: int = 0
    member_id: int = 0
    seen: list[tuple[str, Json, bool]] = field(default_factory=list)
    """Path, body, and whether a leader was asked for."""
    spoilt: deque[tuple[str, Spoilt]] = field(default_factory=deque)
    """For the next requests whose path ends so, in this order."""
    always: Spoilt | None = None
    runner: web.AppRunner | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def bodies(self, ending: str) -> list[Json]:
        return [body for path, body, _ in self.seen if path.endswith(ending)]


class ReferenceEtcd:
    """Started and stopped by the test."""

    def __init__(self, endpoints: int) -> None:
        self.revision = 1
        self.keys: dict[str, tuple[str, int]] = {}  # base64 of key -> base64 of value, revision
        self.endpoints = [Endpoint(member_id=100 + n) for n in range(endpoints)]
        self._released = asyncio.Event()

    @property
    def seeds(self) -> list[str]:
        return [one.address for one in self.endpoints]

    def value(self, key: str) -> str | None:
        found = self.keys.get(base64.b64encode(key.encode()).decode())
        return None if found is None else base64.b64decode(found[0]).decode()

    async def start(self) -> None:
        for endpoint in self.endpoints:
            await self.start_one(endpoint)

    async def start_one(self, endpoint: Endpoint) -> None:
        app = web.Application()

        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._handle(endpoint, request)

        app.router.add_post("/{path:.*}", handle)
        endpoint.runner = web.AppRunner(app, shutdown_timeout=0.01)
        await endpoint.runner.setup()
        site = web.TCPSite(endpoint.runner, "127.0.0.1", endpoint.port)
        await site.start()
        endpoint.port = endpoint.port or site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]

    async def stop_one(self, endpoint: Endpoint) -> None:
        assert endpoint.runner is not None
        await endpoint.runner.cleanup()
        endpoint.runner = None

    async def stop(self) -> None:
        self._released.set()
        for endpoint in self.endpoints:
            if endpoint.runner is not None:
                await self.stop_one(endpoint)

    async def _handle(self, endpoint: Endpoint, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        leader = request.headers.get("Grpc-Metadata-hasleader") == "true"
        endpoint.seen.append((request.path, body, leader))
        spoilt = endpoint.always
        if endpoint.spoilt and request.path.endswith(endpoint.spoilt[0][0]):
            spoilt = endpoint.spoilt.popleft()[1]
        if spoilt is None:
            return web.json_response(self._answer(endpoint, request.path, body))
        if spoilt.applied:
            self._answer(endpoint, request.path, body)
        if spoilt.error is not None:
            code, message = spoilt.error
            return web.json_response({"code": code, "message": message}, status=503)
        if spoilt.silent:
            await self._released.wait()
        if request.transport is not None:  # else the client has gone already
            request.transport.abort()
        return web.Response()

    def _answer(self, endpoint: Endpoint, path: str, body: Json) -> Json:
        if path == "/v3/cluster/member/list":
            members = [
                {"ID": str(one.member_id), "name": f"m{n}"} for n, one in enumerate(self.endpoints)
            ]
            return {"header": self._header(endpoint), "members": members}
        if path == "/v3/kv/range":
            return {"header": self._header(endpoint), "kvs": self._kvs(body["key"])}
        if path == "/v3/kv/put":
            self.revision += 1
            self.keys[body["key"]] = body["value"], self.revision
            return {"header": self._header(endpoint)}
        assert path == "/v3/kv/txn", path
        holds = all(self._compare(one) for one in body.get("compare", ()))
        steps = body["success"] if holds else body.get("failure", ())
        self.revision += any("request_put" in step for step in steps)
        responses: list[Json] = []
        for step in steps:
            if "request_put" in step:
                put = step["request_put"]
                self.keys[put["key"]] = put["value"], self.revision
                responses.append({"response_put": {"header": {"revision": str(self.revision)}}})
            else:
                kvs = self._kvs(step["request_range"]["key"])
                header = {"revision": str(self.revision)}
                responses.append({"response_range": {"header": header, "kvs": kvs}})
        answer: dict[str, Any] = {"header": self._header(endpoint), "responses": responses}
        return answer | ({"succeeded": True} if holds else {})

    def _compare(self, compare: Json) -> bool:
        assert compare["result"] == "EQUAL"
        value, revision = self.keys.get(compare["key"], (None, 0))
        if compare["target"] == "VALUE":
            return bool(value == compare["value"])
        assert compare["target"] == "MOD"
        return revision == int(compare["mod_revision"])

    def _kvs(self, key: str) -> list[Json]:
        found = self.keys.get(key)
        return [{"key": key, "value": found[0], "mod_revision": str(found[1])}] if found else []

    def _header(self, endpoint: Endpoint) -> Json:
        return {
            "member_id": str(endpoint.member_id),
            "revision": str(self.revision),
            "raft_term": "2",
        }
