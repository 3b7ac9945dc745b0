"""The client protocol's server: requests in, replies in any order (docs/interfaces.md)."""

from __future__ import annotations

import asyncio
from functools import partial
from time import monotonic
from typing import Protocol

import msgspec

from zonequake_protocol.client import Reply, ReplyStatus, Request, Route, RouteReply
from zonequake_store.network.decoding import checked
from zonequake_store.network.framing import FrameConnection, FrameFlush
from zonequake_store.replica.host import ReplicaHost
from zonequake_store.replica.replica import LOG_ERRORS
from zonequake_store.serving.counters import Counters
from zonequake_tls.connection_limits import ConnectionLimits
from zonequake_tls.listener import Admission, Listener, listen

_decode = checked(msgspec.msgpack.Decoder(Request).decode)
_encode = msgspec.msgpack.Encoder().encode

# A client that does not read its replies is cut off before it costs the node's memory; fewer bytes
# than this are nothing to count.
_UNREAD_BYTES = 1 << 20

# Clients come back all at once after a leader change. Beyond the backlog Linux drops the last step
# of a handshake, and the client holds a connection that answers nothing for many seconds.
_BACKLOG = 4096

MOST_CLIENTS = 4096
"""Connections. A load pod has one for each node; 1,500 at once are tested."""


class ServedHost(ReplicaHost, Protocol):
    """The host whose replicas clients ask."""

    @property
    def frame_flush(self) -> FrameFlush:
        """When the frames of a turn leave."""

    @property
    def counters(self) -> Counters:
        """The counts of requests and of their times."""

    def route(self, zone: str) -> RouteReply:
        """Returns the place of each partition of a zone, as far as it is known here."""


class ClientConnection(FrameConnection):
    """One client's connection."""

    def __init__(
        self,
        host: ServedHost,
        connections: set[ClientConnection],
        limits: ConnectionLimits,
        *,
        answer_delay_s: float,
        delayed_until_s: float,
    ) -> None:
        super().__init__(host.frame_flush, limits)
        self._own_limits = limits
        self._host = host
        self._connections = connections
        self._answer_delay_s = answer_delay_s
        self._delayed_until_s = delayed_until_s

    def opened(self) -> None:
        self._connections.add(self)

    def closed(self) -> None:
        self._connections.discard(self)

    def frame_received(self, frame: memoryview) -> None:
        answer = partial(self._answer, monotonic())
        request = _decode(frame)
        host, body = self._host, request.body
        host.counters.requests += 1
        if isinstance(body, Route):
            answer(Reply(request.id, ReplyStatus.OK, route=host.route(body.zone)))
            return
        replica = host.replicas.get(body.group)
        if replica is None:
            answer(Reply(request.id, ReplyStatus.NOT_HERE))
            return
        try:
            if replica.offer(request.id, body, answer):
                host.wake(replica)
        except LOG_ERRORS as error:
            host.break_down(replica, str(error))
            answer(Reply(request.id, ReplyStatus.NOT_HERE, error=f"the replica is broken: {error}"))

    def _answer(self, taken_s: float, reply: Reply) -> None:
        """Answers the request that came at `taken_s`, if the connection is still open."""
        if self._answer_delay_s:
            loop = asyncio.get_running_loop()
            if loop.time() < self._delayed_until_s:
                loop.call_later(self._answer_delay_s, self._send, taken_s, reply)
                return
        self._send(taken_s, reply)

    def _send(self, taken_s: float, reply: Reply) -> None:
        self._host.counters.request_times.add(monotonic() - taken_s)
        if not self.is_open:
            return
        self.send(_encode(reply))
        unsent_bytes = self.unsent_bytes
        if unsent_bytes > _UNREAD_BYTES:
            self._own_limits.owes(self, unsent_bytes)


class ClientServer:
    """The listener and its connections.

    `answer_delay_s` until `delayed_until_s` (of the loop's clock) is the planted fault
    `late-answers`.
    """

    def __init__(
        self, host: ServedHost, *, answer_delay_s: float = 0.0, delayed_until_s: float = 0.0
    ) -> None:
        self._host = host
        self._answer_delay_s = answer_delay_s
        self._delayed_until_s = delayed_until_s
        self.limits = ConnectionLimits("clients", most=MOST_CLIENTS)
        self._connections: set[ClientConnection] = set()
        self._listener: Listener | None = None

    async def listen(self, host: str, port: int, admission: Admission | None) -> int:
        """Open the listener; returns its port."""
        self._listener = await listen(
            lambda: ClientConnection(
                self._host,
                self._connections,
                self.limits,
                answer_delay_s=self._answer_delay_s,
                delayed_until_s=self._delayed_until_s,
            ),
            host,
            port,
            admission=admission,
            backlog=_BACKLOG,
        )
        return self._listener.port

    def close(self) -> None:
        """Close the listener and every connection, after what is answered left."""
        if self._listener is not None:
            self._listener.close()
        self.limits.close()
        for connection in list(self._connections):
            connection.close()
