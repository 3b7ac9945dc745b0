"""Connections to the nodes of an Ignite: one to each address, with many requests at once.

Nothing of a request leaves before its connection has shaken hands: what goes wrong until then is
certain. A node answers requests for its partitions apart, so that one may wait for a dead primary
replica while others are served. Only a connection on which nothing at all came during a request's
time is replaced by a new one; what is outstanding on it may yet end.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from zonequake_load.errors import NotSent, OutcomeUnknown
from zonequake_target_ignite.client.protocol.errors import answered
from zonequake_target_ignite.client.protocol.messages import (
    LENGTH_BYTES,
    MAGIC,
    MOST_BYTES,
    ServerAnswer,
    ServerError,
    answer_of,
    handshake,
    node_of_handshake,
    request,
)
from zonequake_target_ignite.client.protocol.packed import Malformed, Unpacker

_T = TypeVar("_T")

CONNECT_TIMEOUT_S = 0.5
"""A dead node must not cost more than this."""

TLS_CONNECT_TIMEOUT_S = 2.0
"""The first handshakes of a node that has just started take longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireTls:
    """TLS to nodes: `host_of` gives the name by which a node of that address is verified."""

    context: ssl.SSLContext
    host_of: Callable[[str], str]


class NodeConnection:
    """One connection that has shaken hands. `node` is the name of the node at its other end."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, node: str, address: str
    ) -> None:
        self.node = node
        self.lost = ""
        self.received = 0
        self.is_retired = False
        self._address = address
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[ServerAnswer]] = {}
        self._receiving = asyncio.create_task(self._receive())

    @classmethod
    async def opened(cls, address: str, tls: WireTls | None = None) -> NodeConnection:
        """Connects and shakes hands. Raises NotSent."""
        host, _, port = address.rpartition(":")
        writer: asyncio.StreamWriter | None = None
        try:
            reader, writer = await asyncio.open_connection(
                host,
                int(port),
                ssl=None if tls is None else tls.context,
                server_hostname=None if tls is None else tls.host_of(address),
            )
            writer.write(handshake())
            found = await reader.readexactly(len(MAGIC))
            if found != MAGIC:
                raise Malformed(f"found {found!r}, expected {MAGIC!r}")
            node = node_of_handshake(await _message(reader))
        except (OSError, EOFError, Malformed) as error:
            _abort(writer)
            why = str(error) or type(error).__name__
            raise NotSent(f"cannot connect to {address}: {why}") from None
        except asyncio.CancelledError:
            _abort(writer)
            raise
        if isinstance(node, ServerError):
            _abort(writer)
            raise NotSent(f"{address} refused the connection: {node.message}")
        return cls(reader, writer, node=node, address=address)

    async def ask(self, operation: int, *values: bytes) -> ServerAnswer:
        """Sends one request and waits for its answer, which may be an error.

        Raises NotSent, OutcomeUnknown.
        """
        if not self._open:
            why = self.lost or "it is closed"
            raise NotSent(f"the connection to {self._address} is lost: {why}")
        number = next(self._numbers)
        waiting: asyncio.Future[ServerAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            self._writer.write(request(operation, number, *values))
            return await waiting
        finally:
            self._waiting.pop(number, None)
            if self.is_retired and self.idle:
                self.end("it was silent")

    @property
    def _open(self) -> bool:
        """Whether a request can be written: a transport that broke is closed before `lost` is set,
        and uvloop's raises.
        """
        return not self.lost and not self._writer.is_closing()

    def retire(self) -> None:
        """Closes the connection once nothing waits on it any more."""
        self.is_retired = True
        if self.idle:
            self.end("it was silent")

    @property
    def idle(self) -> bool:
        """Whether nothing waits for an answer."""
        return not self._waiting

    def tell(self, operation: int, *values: bytes) -> None:
        """Sends a request without waiting for its answer; does nothing without a connection."""
        if self._open:
            self._writer.write(request(operation, next(self._numbers), *values))

    def end(self, why: str) -> None:
        """Closes the connection; what is outstanding is unknown."""
        if self.lost:
            return
        self.lost = why
        self._receiving.cancel()
        _abort(self._writer)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(OutcomeUnknown(f"no answer from {self._address}: {why}"))
                waiting.exception()  # it may be that nothing waits for it any more

    async def _receive(self) -> None:
        try:
            while True:
                answer = answer_of(await _message(self._reader))
                self.received += 1
                waiting = self._waiting.get(answer.request)
                if waiting is not None and not waiting.done() and not answer.notification:
                    waiting.set_result(answer)
        except (OSError, EOFError, Malformed) as error:
            self.end(str(error) or type(error).__name__)


class IgniteWire:
    """Connections by address, each opened when it is needed."""

    def __init__(self, tls: WireTls | None = None) -> None:
        self._tls = tls
        self._connections: dict[str, asyncio.Task[NodeConnection]] = {}
        self._retired: list[NodeConnection] = []

    async def connection(self, address: str, *, timeout_s: float) -> NodeConnection:
        """Returns the connection to an address. Raises NotSent."""
        opening = self._connections.get(address)
        if opening is None or (opening.done() and not _usable(opening)):
            opening = asyncio.create_task(self._opened(address))
            self._connections[address] = opening
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(opening)
        except TimeoutError:
            raise NotSent(f"no connection to {address} in time") from None

    async def ask(
        self, connection: NodeConnection, operation: int, *values: bytes, timeout_s: float
    ) -> ServerAnswer:
        """Sends one request; a node's error is raised. Raises AttemptError."""
        received = connection.received
        try:
            async with asyncio.timeout(timeout_s):
                answer = await connection.ask(operation, *values)
        except TimeoutError:
            if connection.received == received:
                self._retire(connection)
            raise OutcomeUnknown(
                f"no answer from {connection.node} within {timeout_s * 1e3:.0f} ms"
            ) from None
        if answer.error is not None:
            raise answered(answer.error)
        return answer

    async def close(self) -> None:
        for retired in self._retired:
            retired.end("the client is closed")
        for opening in self._connections.values():
            if opening.done() and _usable(opening):
                opening.result().end("the client is closed")
            opening.cancel()
        await asyncio.gather(*self._connections.values(), return_exceptions=True)
        self._connections.clear()

    def _retire(self, silent: NodeConnection) -> None:
        """Sends nothing more on a silent connection, and closes it when nothing waits on it."""
        for address, opening in list(self._connections.items()):
            if opening.done() and _usable(opening) and opening.result() is silent:
                del self._connections[address]
                self._retired = [each for each in self._retired if not each.lost] + [silent]
                silent.retire()

    async def _opened(self, address: str) -> NodeConnection:
        try:
            async with asyncio.timeout(
                CONNECT_TIMEOUT_S if self._tls is None else TLS_CONNECT_TIMEOUT_S
            ):
                return await NodeConnection.opened(address, self._tls)
        except TimeoutError:
            raise NotSent(f"no connection to {address} in time") from None


def read_as(read: Callable[[Unpacker], _T], values: Unpacker) -> _T:
    """Reads the rest of an answer. Raises OutcomeUnknown if it isn't of the protocol."""
    try:
        return read(values)
    except Malformed as error:
        raise OutcomeUnknown(f"an answer can't be read: {error}") from None


def _usable(opening: asyncio.Task[NodeConnection]) -> bool:
    if opening.cancelled() or opening.exception() is not None:
        return False
    return not opening.result().lost


async def _message(reader: asyncio.StreamReader) -> bytes:
    length = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
    if not 0 < length <= MOST_BYTES:
        raise Malformed(f"found a message of {length} bytes")
    return await reader.readexactly(length)


def _abort(writer: asyncio.StreamWriter | None) -> None:
    if writer is not None:
        writer.transport.abort()
