"""A plain client of the data nodes for tests: one request at a time, or retried at the leader."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from tests.patience import PATIENCE_S
from zonequake_protocol.client import (
    Append,
    Body,
    Cas,
    Read,
    Reply,
    ReplyStatus,
    Request,
    RequestId,
    Route,
    Write,
)
from zonequake_store.network.framing import FrameConnection
from zonequake_tls.credentials import Credentials
from zonequake_tls.identity import TlsRole


class _Connection(FrameConnection):
    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[int, asyncio.Future[Reply]] = {}
        self._decoder = msgspec.msgpack.Decoder(Reply)

    def frame_received(self, frame: memoryview) -> None:
        reply = self._decoder.decode(frame)
        future = self.waiting.pop(reply.id, None)
        if future is not None and not future.done():
            future.set_result(reply)

    def closed(self) -> None:
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(ConnectionError("the connection was closed"))
        self.waiting.clear()


class Client:
    """One client. `once` sends a request to one node; the rest goes to the leader, retrying."""

    def __init__(
        self,
        name: str,
        *,
        nodes: Collection[str],
        port_of: Callable[[str], int],
        credentials: Credentials | None = None,
    ) -> None:
        self._credentials = credentials
        self._nodes = nodes
        self._port_of = port_of
        self.name = name
        self._connections: dict[str, _Connection] = {}
        self._connecting: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._ids = itertools.count(1)
        self._sequences = itertools.count(1)
        self._leaders: dict[str, str] = {}

    async def once(self, node: str, body: Body, timeout_s: float = PATIENCE_S) -> Reply:
        """One request, one reply. Raises OSError or TimeoutError."""
        # Not wait_for: in Python 3.11 it can swallow a cancellation that meets the reply.
        async with asyncio.timeout(timeout_s):
            connection = await self._connection(node)
            id_ = next(self._ids)
            future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            connection.waiting[id_] = future
            connection.send(msgspec.msgpack.encode(Request(id_, body)))
            return await future

    async def _connection(self, node: str) -> _Connection:
        """The one open connection to a node, opened by the first caller."""
        async with self._connecting[node]:
            connection = self._connections.get(node)
            if connection is None or not connection.is_open:
                tls: dict[str, Any] = {}
                if self._credentials is not None:
                    tls["ssl"] = self._credentials.for_connecting(TlsRole.STORE)
                    tls["server_hostname"] = self._credentials.name_of(TlsRole.STORE)
                _, connection = await asyncio.get_running_loop().create_connection(
                    _Connection, "127.0.0.1", self._port_of(node), **tls
                )
                self._connections[node] = connection
            return connection

    async def at_leader(
        self, body: Body, *, deadline_s: float = PATIENCE_S, attempt_s: float = 2.0
    ) -> Reply:
        """Retry at the present leader until the request is answered with ok or invalid.

        `attempt_s`: after so long without an answer it is sent again.
        """
        assert not isinstance(body, Route)
        end_s = time.monotonic() + deadline_s
        names = itertools.cycle(list(self._nodes))
        reply: Reply | None = None
        while time.monotonic() < end_s:
            node = self._leaders.get(body.group) or next(names)
            try:
                reply = await self.once(node, body, attempt_s)
            except (OSError, TimeoutError):
                self._leaders.pop(body.group, None)
                await asyncio.sleep(0.02)
                continue
            if reply.status in (ReplyStatus.OK, ReplyStatus.INVALID, ReplyStatus.WRONG_PARTITION):
                self._leaders[body.group] = node
                return reply
            self._leaders.pop(body.group, None)
            if reply.leader is not None and reply.leader in self._nodes:
                self._leaders[body.group] = reply.leader
            await asyncio.sleep(0.02)
        raise TimeoutError(f"no answer for {body} within {deadline_s} s; the last was {reply}")

    def request_id(self) -> RequestId:
        return RequestId(self.name, next(self._sequences))

    async def write(self, group: str, key: str, value: int | str, filler: bytes = b"") -> Reply:
        return await self.at_leader(Write(group, key, value, filler, self.request_id()))

    async def append(self, group: str, key: str, value: int) -> Reply:
        return await self.at_leader(Append(group, key, value, self.request_id()))

    async def cas(self, group: str, key: str, expected: int | None, value: int) -> Reply:
        return await self.at_leader(Cas(group, key, expected, value, self.request_id()))

    async def read(self, group: str, key: str) -> Reply:
        return await self.at_leader(Read(group, key))

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
