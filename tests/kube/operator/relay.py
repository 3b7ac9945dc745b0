"""All that the operator writes goes through here, and at a chosen write it is killed.

    operator ──http──▶ Relay ──https──▶ API server
                         └────http───▶ data nodes (orders; their pods' addresses are the relay's)

Everything passes, watches too. Each writing request is a moment, and there are four ways to die
at it:

    BEFORE   it was never sent
    AFTER    it was done, and the operator didn't hear of it
    LATE     it was under way, and is done once the successor has written something
    LAST     it was under way, and is done when all has ended

From the kill until the successor starts nothing of the dead operator passes any more.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

import aiohttp
from aiohttp import web

from tests.kube.operator.disturbances import Disturbance, Watches, passing

_T = TypeVar("_T")

HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "authorization"}
)
WATCHES_AND_LISTS = ("/api/", "/apis/")
READING = frozenset({"GET", "HEAD"})
REPORTS = "/admin/v1/replicas"


class Way(StrEnum):
    BEFORE = "before"
    AFTER = "after"
    LATE = "late"
    LAST = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The `number`-th write since the relay was armed; of this kind, if one is named."""

    number: int
    way: Way
    of: str | None = None

    def __str__(self) -> str:
        return f"{self.way} {self.of or 'write'} {self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A request as it is sent on."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    kind: str


@dataclass(slots=True)
class _Armed:
    """What happened since the relay was armed."""

    moment: Moment | None = None
    has_come: bool = False
    """The moment is there; `hit` follows once the operator is killed."""
    kill: Callable[[], None] = lambda: None
    kinds: list[str] = field(default_factory=list)
    hit: str | None = None
    reports: int = 0


class Relay:
    """Runs in a thread and loop of its own; `run` lends that loop to others."""

    def __init__(self, api_url: str, token: str, ssl_context: ssl.SSLContext) -> None:
        self._api_url, self._token, self._ssl = api_url, token, ssl_context
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._runners: list[web.AppRunner] = []
        self._endings = AsyncExitStack()
        self._armed = _Armed()
        self.watches = Watches()
        self._dead = False
        self._held: list[_Call] = []
        self._held_to_the_end = False
        self._last: dict[str, dict[str, Any]] = {}
        """The statuses that were written last, by path: a write's kind is what it changes."""
        self._thread.start()
        self._session: aiohttp.ClientSession = self.run(self._connect())

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run it in the relay's loop and wait."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)

    def serve_api(self) -> str:
        """Listen for requests to the API server; returns the URL."""
        port = self.run(self._listen("127.0.0.1", 0, self._api_url, self._token))
        return f"http://127.0.0.1:{port}"

    def serve_node(self, at: str, address: str, port: int = 8080) -> None:
        """Listen at `at` for what is meant for the data node at `address`."""
        self.run(self._listen(at, port, f"http://{address}:{port}", None))

    def at_close(self, ending: Callable[[], Awaitable[None]]) -> None:
        """Await this in the relay's loop when it closes: a failure before leaves nothing."""
        self._endings.push_async_callback(ending)

    def close(self) -> None:
        """Stop everything, whatever still runs in the loop."""
        try:
            self.run(self._close())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    # --------------------------------------------------------------------------------- the moments

    def arm(self, moment: Moment | None, kill: Callable[[], None] = lambda: None) -> None:
        """Count again, and call `kill` at `moment`."""
        self._armed = _Armed(moment=moment, kill=kill)

    def disarm(self) -> None:
        """Forget a moment that didn't come; what was counted and hit until now stays."""
        self.run(self._disarm())

    def disturb(self, disturbance: Disturbance | None) -> None:
        """Count events and answers again, and let this happen to one of them."""
        self.watches = Watches(disturbance=disturbance, before=self.watches.before)

    def revive(self) -> None:
        """A successor starts: let its requests pass."""
        self._dead = False

    def release(self) -> bool:
        """Send what is still held back; says whether there was anything."""
        return self.run(self._release())

    @property
    def hit(self) -> str | None:
        """The kind of write at which the operator was killed since the relay was armed."""
        return self._armed.hit

    @property
    def kinds(self) -> list[str]:
        """The writes since the relay was armed."""
        return list(self._armed.kinds)

    @property
    def reports(self) -> int:
        """How often a data node was asked for its replicas since the relay was armed."""
        return self._armed.reports

    # --------------------------------------------------------------------------------- forwarding

    async def _connect(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._ssl),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def _listen(self, at: str, port: int, upstream: str, token: str | None) -> int:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._handle(request, upstream, token)

        server = web.Application(client_max_size=1 << 26)
        server.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(
            server, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        self._runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, at, port).start()
        return int(runner.addresses[0][1])

    async def _close(self) -> None:
        # A coroutine that isn't waited for any more would open again what is closed here.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._endings.aclose()
        for runner in self._runners:
            await runner.cleanup()
        await self._session.close()
        # Transports close in later turns; one that never did would warn in some later test.
        open_files = self._loop._selector.get_map()  # type: ignore[attr-defined]
        async with asyncio.timeout(10):
            while len(open_files) > 1:  # noqa: ASYNC110  the loop's own pipe stays
                await asyncio.sleep(0.01)
        await asyncio.sleep(0)

    async def _handle(
        self, request: web.Request, upstream: str, token: str | None
    ) -> web.StreamResponse:
        body = await request.read()
        headers = {k: v for k, v in request.headers.items() if k.lower() not in HOP_BY_HOP}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        call = _Call(
            method=request.method,
            url=upstream + request.raw_path,
            headers=headers,
            body=body,
            kind="" if _reads(request) else self._kind(request, body),
        )
        if self._dead:
            return _dropped(request)
        if call.kind:
            return await self._write(request, call)
        self._armed.reports += request.path == REPORTS
        return await self._stream(request, call)

    async def _write(self, request: web.Request, call: _Call) -> web.StreamResponse:
        armed = self._armed
        armed.kinds.append(call.kind)
        moment = armed.moment
        way = None
        if moment is not None:
            same = [k for k in armed.kinds if moment.of in (None, k)]
            if moment.of in (None, call.kind) and len(same) == moment.number:
                way, armed.moment, armed.has_come = moment.way, None, True
        try:
            if way is None:
                response = await self._done(call)
                if not self._held_to_the_end:
                    await self._release()
                return response
            if way is Way.AFTER:
                await self._done(call)
            if way in (Way.LATE, Way.LAST):
                self._held.append(call)
                self._held_to_the_end = way is Way.LAST
        except aiohttp.ClientConnectionError:
            pass  # the data node is gone
        if way is not None:
            self._dead = True
            armed.kill()
            armed.hit = call.kind  # last: its waiter may revive at once
        return _dropped(request)

    async def _disarm(self) -> None:
        armed = self._armed
        armed.moment = None
        while armed.has_come and armed.hit is None:  # noqa: ASYNC110  it is killed just now
            await asyncio.sleep(0.01)

    async def _release(self) -> bool:
        held, self._held = self._held, []
        for call in held:
            await self._done(call)
        return bool(held)

    async def _done(self, call: _Call) -> web.Response:
        async with self._session.request(
            call.method, call.url, data=call.body, headers=call.headers
        ) as answer:
            data = await answer.read()
            if answer.status < 300:
                self._remember(call)
            return web.Response(status=answer.status, body=data, headers=_kept(answer))

    async def _stream(self, request: web.Request, call: _Call) -> web.StreamResponse:
        if "watch" in request.query:
            return await self._watch(request, call)
        if request.path.startswith(WATCHES_AND_LISTS):
            return await self._answer(request, call)
        try:
            async with self._session.request(
                call.method, call.url, data=call.body or None, headers=call.headers
            ) as answer:
                response = web.StreamResponse(status=answer.status, headers=_kept(answer))
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
        except aiohttp.ClientConnectionError:
            return _dropped(request)  # one of the two sides is gone
        return response

    async def _answer(self, request: web.Request, call: _Call) -> web.StreamResponse:
        try:
            async with self._session.request(call.method, call.url, headers=call.headers) as answer:
                body = await answer.read()
        except aiohttp.ClientConnectionError:
            return _dropped(request)
        if answer.status == 200:
            body = self.watches.answered(request.path, request.query_string, body)
        return web.Response(status=answer.status, body=body, headers=_kept(answer))

    async def _watch(self, request: web.Request, call: _Call) -> web.StreamResponse:
        if self.watches.refuses():
            return web.json_response({"kind": "Status", "code": 500}, status=500)
        try:
            async with self._session.request(call.method, call.url, headers=call.headers) as answer:
                response = web.StreamResponse(status=answer.status, headers=_kept(answer))
                await response.prepare(request)
                events = passing(lambda: self.watches, request.path, answer.content.iter_any())
                async for line in events:
                    await response.write(line)
        except aiohttp.ClientConnectionError:
            return _dropped(request)
        return response

    # --------------------------------------------------------------------------------- what it is

    def _remember(self, call: _Call) -> None:
        path = call.url.partition("?")[0]
        if call.method == "PUT" and path.endswith("/status"):
            self._last[path] = json.loads(call.body)["status"]

    def _kind(self, request: web.Request, body: bytes) -> str:
        path = request.path
        if path.endswith("/orders"):
            types = {order["type"] for order in json.loads(body)["orders"]}
            return "order " + "+".join(sorted(types))
        parts = path.removesuffix("/status").split("/")
        resource = parts[-1] if request.method == "POST" else parts[-2]
        if request.method != "PUT" or not path.endswith("/status"):
            return f"{request.method} {resource}"
        before = next((s for p, s in self._last.items() if p.endswith(path)), {})
        return f"{resource}: {_changed(before, json.loads(body)['status'])}"


def _reads(request: web.Request) -> bool:
    """Does it change nothing? Questions about rights are posted."""
    return request.method in READING or request.path.startswith("/apis/authorization.k8s.io/")


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The first of a status' fields that differs, in the order in which they matter."""
    for name in ("stable", "pending", "pendingLock", "configurationToken", "revision", "version"):
        if before.get(name) != after.get(name):
            return name
    if before.get("handledRevision") != after.get("handledRevision"):
        return "handledRevision"
    flipped = [
        c["type"]
        for c in after.get("conditions", [])
        if c["status"]
        not in {b["status"] for b in before.get("conditions", []) if b["type"] == c["type"]}
    ]
    return "+".join(flipped) or "view"


def _dropped(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)


def _kept(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {k: v for k, v in answer.headers.items() if k.lower() not in HOP_BY_HOP}
