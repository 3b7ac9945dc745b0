"""Connections to data nodes: one per address, many requests outstanding on each.

The one question this module must answer rightly is whether a request *certainly* never left
(`NotSent`) or may have (`OutcomeUnknown`): everything handed to an open socket counts as left.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

import msgspec

from zonequake_load.errors import NotSent, OutcomeUnknown
from zonequake_protocol.client import Body, Reply, Request
from zonequake_protocol.frames import FrameTooLong, header, split
from zonequake_tls.credentials import Credentials
from zonequake_tls.identity import TlsRole

CONNECT_TIMEOUT_S = 0.3
"""A node on the same network answers in milliseconds; a dead one must not cost more than this."""

REFUSED_PAUSE_S = 0.05
"""After a failed connect further requests fail at once for so long: a pod needs longer to start."""

HANDSHAKE_TIMEOUT_S = 1.0
"""A connection is taken by the node's kernel, a TLS handshake by its event loop, and as late as any
request. Given up too soon it has cost the node its work for nothing, and is begun again."""

LOOK_UP_TIMEOUT_S = 1.0

TCP_USER_TIMEOUT_MS = 1_000
"""The kernel gives a connection up when sent data stays unacknowledged for so long."""


class Connection(asyncio.Protocol):
    """One framed connection. Requests are numbered, replies may come in any order."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.received = 0
        self._ids = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Reply]] = {}
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(Reply)
        self._retiring = False

    @property
    def usable(self) -> bool:
        return (
            self._transport is not None and not self._transport.is_closing() and not self._retiring
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, TCP_USER_TIMEOUT_MS)

    def data_received(self, data: bytes) -> None:
        self.received += 1
        self._buffer += data
        try:
            split(self._buffer, self._take)
        except FrameTooLong as error:
            self.close(f"{self.address} sent {error}")
        except msgspec.MsgspecError as error:
            self.close(f"{self.address} sent what is no reply: {error}")
        else:
            self._close_if_idle()

    def _take(self, frame: memoryview) -> None:
        reply = self._decoder.decode(frame)
        waiting = self._pending.pop(reply.id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail_pending(f"connection to {self.address} lost: {exc or 'closed by the node'}")

    async def request(self, body: Body, timeout_s: float) -> Reply:
        """Send `body` and wait for its reply.

        Raises:
            NotSent: the connection was closed before.
            OutcomeUnknown: it was lost after, or no reply came within `timeout_s`.
        """
        if self._transport is None or not self.usable:
            raise NotSent(f"connection to {self.address} is closed")
        number = next(self._ids)
        payload = self._encoder.encode(Request(number, body))
        waiting: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._pending[number] = waiting
        received = self.received
        self._transport.write(header(len(payload)) + payload)
        try:
            async with asyncio.timeout(timeout_s):
                return await waiting
        except TimeoutError:
            if self.received == received:
                self.retire()
            message = f"no reply from {self.address} within {timeout_s * 1e3:.0f} ms"
            raise OutcomeUnknown(message) from None
        finally:
            self._pending.pop(number, None)
            self._close_if_idle()

    def retire(self) -> None:
        """Take no further request, because the node has gone silent or another connection takes
        this one's place. What is outstanding may yet end."""
        self._retiring = True
        self._close_if_idle()

    def close(self, why: str = "closed by the client") -> None:
        """Close at once; what is outstanding is `OutcomeUnknown`."""
        if self._transport is not None:
            self._transport.abort()
        self._fail_pending(why)

    def _close_if_idle(self) -> None:
        if self._retiring and not self._pending:
            self.close()

    def _fail_pending(self, why: str) -> None:
        pending, self._pending = self._pending, {}
        for waiting in pending.values():
            if not waiting.done():
                waiting.set_exception(OutcomeUnknown(why))


class Dialer(Protocol):
    """Opens a connection to an address; another one than TCP is the port-forward of `kv`."""

    def __call__(
        self, address: str, connection: Callable[[], Connection]
    ) -> Awaitable[Connection]: ...


def dialer(credentials: Credentials | None) -> Dialer:
    """Connects to `host:port`, with TLS if there are credentials; raises OSError."""

    async def dial(address: str, connection: Callable[[], Connection]) -> Connection:
        host, port = split_address(address)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            (family, kind, number, _, where), *_ = await loop.getaddrinfo(
                host, port, type=socket.SOCK_STREAM
            )
            raw = socket.socket(family, kind, number)
            try:
                raw.setblocking(False)
                await loop.sock_connect(raw, where)
            except BaseException:
                raw.close()
                raise
        async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
            _, opened = await loop.create_connection(connection, sock=raw, **tls_words(credentials))
        return opened

    return dial


def tls_words(credentials: Credentials | None) -> dict[str, Any]:
    """Returns the TLS arguments of `create_connection` to reach a data node."""
    if credentials is None:
        return {}
    return {
        "ssl": credentials.for_connecting(TlsRole.STORE),
        "server_hostname": credentials.name_of(TlsRole.STORE),
    }


def split_address(address: str) -> tuple[str, int]:
    """`host:port` in two. Raises ValueError."""
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdecimal() and 1 <= int(port) <= 65_535):
        raise ValueError(
            f"found address {address!r}, expected host:port with a port from 1 to 65535"
        )
    return host.strip("[]"), int(port)


async def addresses_of(seed: str) -> list[str]:
    """Returns every `host:port` of a seed's name. Raises ValueError, or OSError where it has
    none.
    """
    host, port = split_address(seed)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(LOOK_UP_TIMEOUT_S):
            infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError:
        raise OSError(f"no answer within {LOOK_UP_TIMEOUT_S:g} s") from None
    found = (str(name[0]) for *_, name in infos)
    return list(
        dict.fromkeys(f"[{one}]:{port}" if ":" in one else f"{one}:{port}" for one in found)
    )


class Connections:
    """At most one usable connection for each address, opened when first needed.

    `renew_s`: none is used for longer, but for those that are outstanding; None: forever.
    """

    def __init__(
        self,
        dial: Dialer | None = None,
        renew_s: float | None = None,
    ) -> None:
        self._dial = dial or dialer(None)
        self._renew_s = renew_s
        self._open: dict[str, Connection] = {}
        self._renewals: dict[str, asyncio.Task[None]] = {}
        self._opening: dict[str, asyncio.Task[Connection]] = {}
        self._refused: dict[str, tuple[float, str]] = {}

    async def request(self, address: str, body: Body, timeout_s: float) -> Reply:
        """One attempt at `address`; raises `NotSent` or `OutcomeUnknown`."""
        connection = self._open.get(address)
        if connection is None or not connection.usable:
            loop = asyncio.get_running_loop()
            before = loop.time()
            connection = await self._connect(address, timeout_s)
            timeout_s = max(0.001, timeout_s - (loop.time() - before))
        return await connection.request(body, timeout_s)

    async def _connect(self, address: str, timeout_s: float) -> Connection:
        loop = asyncio.get_running_loop()
        until, why = self._refused.get(address, (0.0, ""))
        if loop.time() < until:
            raise NotSent(why)
        opening = self._opening.get(address)
        if opening is None:
            opening = loop.create_task(self._open_one(address))
            self._opening[address] = opening
            opening.add_done_callback(lambda task: self._opened(address, task))
        try:
            # Shielded: others wait for the same connection.
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(opening)
        except TimeoutError:
            raise NotSent(f"no connection to {address} within {timeout_s * 1e3:.0f} ms") from None

    def _opened(self, address: str, task: asyncio.Task[Connection]) -> None:
        del self._opening[address]
        if not task.cancelled():
            task.exception()  # all waiting operations may have given up before it failed

    async def _open_one(self, address: str) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            connection = await self._dial(address, lambda: Connection(address))
        except (OSError, ValueError) as error:  # TimeoutError is an OSError
            why = f"cannot connect to {address}: {error or type(error).__name__}"
            self._refused[address] = (loop.time() + REFUSED_PAUSE_S, why)
            raise NotSent(why) from None
        self._refused.pop(address, None)
        self._open[address] = connection
        if self._renew_s is not None and address not in self._renewals:
            self._renewals[address] = loop.create_task(self._renew(address, self._renew_s))
        return connection

    async def _renew(self, address: str, renew_s: float) -> None:
        """Put a new connection in the place of the one that is open, again and again."""
        while True:
            await asyncio.sleep(renew_s * random.uniform(0.75, 1.0))  # noqa: S311 - not all at once
            if not self._open[address].usable:
                continue  # the next request opens one
            try:
                fresh = await self._dial(address, lambda: Connection(address))
            except OSError:
                continue  # this one is used as long as it lives
            self._open[address].retire()
            self._open[address] = fresh

    async def close(self) -> None:
        """Close all; what is outstanding is `OutcomeUnknown`."""
        opening = [*self._opening.values(), *self._renewals.values()]
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        for connection in self._open.values():
            connection.close()
        self._open.clear()
