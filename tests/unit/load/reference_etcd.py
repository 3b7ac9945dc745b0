"""An etcd in memory behind gRPC, whose answers can be spoilt.

It keeps what a real one promises: one revision for each transaction that writes, compares and
ranges of one key. Each endpoint is a server of its own over the same state, behind a relay that can
break its connections as a killed process does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio

from zonequake_target_etcd.client.protocol.messages import METHODS, Method

CODES = {code.value[0]: code for code in grpc.StatusCode}
EQUAL, MOD, VALUE = 0, 2, 3


@dataclass
class Spoilt:
    """What happens to one request: is it carried out, and what is answered?

    `error`: (gRPC code, message). `silent`: nothing is, and the connection stays open. `raw`: bytes
    instead of an answer. None of these: the connection is broken.
    """

    applied: bool = False
    error: tuple[int, str] | None = None
    silent: bool = False
    raw: bytes | None = None


@dataclass
class Endpoint:
    port: int = 0
    member_id: int = 0
    seen: list[tuple[str, Any, bool]] = field(default_factory=list)
    """Name of the call, message, and whether a leader was asked for."""
    spoilt: deque[tuple[str, Spoilt]] = field(default_factory=deque)
    """For the next requests of that name, in this order."""
    always: Spoilt | None = None
    server: grpc.aio.Server | None = None
    relay: asyncio.Server | None = None
    connections: set[asyncio.Transport] = field(default_factory=set)
    connected: int = 0
    """So many connections were made to it."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def asked(self, name: str) -> list[Any]:
        return [message for called, message, _ in self.seen if called == name]

    def break_connections(self) -> None:
        for one in tuple(self.connections):
            one.abort()


class Relayed(asyncio.Protocol):
    """One side of a relayed connection."""

    def __init__(self, endpoint: Endpoint, other: Relayed | None = None) -> None:
        self.endpoint = endpoint
        self.other = other
        self.transport: asyncio.Transport | None = None
        self.early = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self.other is not None:
            # At once: what comes before `dial` goes on would be kept, and sent by nobody.
            self.other.other = self
            transport.write(self.other.early)
            return
        self.endpoint.connections.add(transport)
        self.endpoint.connected += 1

    def data_received(self, data: bytes) -> None:
        if self.other is None or self.other.transport is None:
            self.early += data
        else:
            self.other.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        assert self.transport is not None
        self.endpoint.connections.discard(self.transport)
        if self.other is not None and self.other.transport is not None:
            self.other.transport.abort()


class ReferenceEtcd:
    """Started and stopped by the test."""

    def __init__(self, endpoints: int, tls: grpc.ServerCredentials | None = None) -> None:
        self.tls = tls
        """What its next endpoint to start shows and demands."""
        self.revision = 1
        self.keys: dict[bytes, tuple[bytes, int]] = {}  # value, revision
        self.endpoints = [Endpoint(member_id=100 + n) for n in range(endpoints)]
        self._released = asyncio.Event()
        self._dialled: set[asyncio.Task[Any]] = set()

    @property
    def seeds(self) -> list[str]:
        return [one.address for one in self.endpoints]

    def value(self, key: str) -> str | None:
        found = self.keys.get(key.encode())
        return None if found is None else found[0].decode()

    async def start(self) -> None:
        for endpoint in self.endpoints:
            await self.start_one(endpoint)

    async def start_one(self, endpoint: Endpoint) -> None:
        endpoint.server = grpc.aio.server()
        endpoint.server.add_generic_rpc_handlers((_Calls(self, endpoint),))
        if self.tls is None:
            behind = endpoint.server.add_insecure_port("127.0.0.1:0")
        else:
            behind = endpoint.server.add_secure_port("127.0.0.1:0", self.tls)
        await endpoint.server.start()
        loop = asyncio.get_running_loop()

        def taken() -> Relayed:
            front = Relayed(endpoint)

            async def dial() -> None:
                _, back = await loop.create_connection(
                    lambda: Relayed(endpoint, front), "127.0.0.1", behind
                )
                if front.transport is None or front.transport.is_closing():
                    assert back.transport is not None
                    back.transport.abort()

            task = loop.create_task(dial())
            self._dialled.add(task)
            return front

        endpoint.relay = await loop.create_server(taken, "127.0.0.1", endpoint.port)
        endpoint.port = endpoint.relay.sockets[0].getsockname()[1]

    async def stop_one(self, endpoint: Endpoint) -> None:
        assert endpoint.relay is not None
        assert endpoint.server is not None
        endpoint.relay.close()
        endpoint.break_connections()
        await endpoint.relay.wait_closed()
        await endpoint.server.stop(None)
        endpoint.relay = endpoint.server = None

    async def stop(self) -> None:
        self._released.set()
        for endpoint in self.endpoints:
            if endpoint.server is not None:
                await self.stop_one(endpoint)
        await asyncio.gather(*self._dialled, return_exceptions=True)

    async def handle(
        self, endpoint: Endpoint, method: Method, message: Any, context: grpc.aio.ServicerContext
    ) -> bytes:
        name = name_of(method.path)
        metadata = dict(context.invocation_metadata() or ())
        endpoint.seen.append((name, message, metadata.get("hasleader") == "true"))
        spoilt = endpoint.always
        if endpoint.spoilt and name == endpoint.spoilt[0][0]:
            spoilt = endpoint.spoilt.popleft()[1]
        if spoilt is None:
            return self._answer(endpoint, method, message)
        if spoilt.applied:
            self._answer(endpoint, method, message)
        if spoilt.error is not None:
            code, words = spoilt.error
            await context.abort(CODES[code], words)
        if spoilt.raw is not None:
            return spoilt.raw
        if not spoilt.silent:
            endpoint.break_connections()
        await self._released.wait()
        return b""

    def _answer(self, endpoint: Endpoint, method: Method, message: Any) -> bytes:
        answers: dict[str, Callable[[Any], dict[str, Any]]] = {
            "range": lambda asked: {"kvs": self._kvs(asked.key)},
            "put": self._put,
            "txn": self._txn,
            "memberlist": lambda _: {
                "members": [
                    {"ID": one.member_id, "name": f"m{n}"} for n, one in enumerate(self.endpoints)
                ]
            },
        }
        content = answers[name_of(method.path)](message)
        header = {"member_id": endpoint.member_id, "revision": self.revision, "raft_term": 2}
        encoded: bytes = method.answer(header=header, **content).SerializeToString()
        return encoded

    def _put(self, put: Any) -> dict[str, Any]:
        self.revision += 1
        self.keys[put.key] = put.value, self.revision
        return {}

    def _txn(self, txn: Any) -> dict[str, Any]:
        holds = all(self._holds(one) for one in txn.compare)
        steps = txn.success if holds else txn.failure
        self.revision += any(step.HasField("request_put") for step in steps)
        responses: list[dict[str, Any]] = []
        for step in steps:
            if step.HasField("request_put"):
                self.keys[step.request_put.key] = step.request_put.value, self.revision
                responses.append({"response_put": {"header": {"revision": self.revision}}})
            else:
                kvs = self._kvs(step.request_range.key)
                responses.append(
                    {"response_range": {"header": {"revision": self.revision}, "kvs": kvs}}
                )
        return {"succeeded": holds, "responses": responses}

    def _holds(self, compare: Any) -> bool:
        assert compare.result == EQUAL
        value, revision = self.keys.get(compare.key, (None, 0))
        if compare.target == VALUE:
            return bool(value == compare.value)
        assert compare.target == MOD
        return bool(revision == compare.mod_revision)

    def _kvs(self, key: bytes) -> list[dict[str, Any]]:
        found = self.keys.get(key)
        return [{"key": key, "value": found[0], "mod_revision": found[1]}] if found else []


class _Calls(grpc.GenericRpcHandler):  # type: ignore[misc]  # it has no types
    """The calls of one endpoint."""

    def __init__(self, etcd: ReferenceEtcd, endpoint: Endpoint) -> None:
        self._handlers = {method.path: _handler(etcd, endpoint, method) for method in METHODS}

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return self._handlers.get(details.method)


def _handler(etcd: ReferenceEtcd, endpoint: Endpoint, method: Method) -> grpc.RpcMethodHandler:
    async def handle(message: Any, context: grpc.aio.ServicerContext) -> bytes:
        return await etcd.handle(endpoint, method, message, context)

    return grpc.unary_unary_rpc_method_handler(
        handle, request_deserializer=method.request.FromString
    )


def name_of(path: str) -> str:
    """The call's own name, in small letters."""
    return path.rsplit("/", 1)[1].lower()
