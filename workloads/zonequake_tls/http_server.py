"""Limits for aiohttp's connections, which has none: their number, and how slow a request may be."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import cast

from aiohttp import web

from zonequake_tls.connection_limits import SILENT_S, ConnectionLimits
from zonequake_tls.listener import Admission, Listener, listen
from zonequake_tls.log_rate_limit import LogRateLimit

_log = logging.getLogger("zonequake_tls")
_LOGGED_PER_MINUTE = 10
_SHUTDOWN_S = 1.0
MOST_VISITORS = 256
"""Connections of an HTTP port: probes, Prometheus, the operator and a few people."""

IDLE_S = 75.0
"""A connection without a request is kept so long."""

PROXY_S = 120.0
"""The API server keeps an idle connection for 90 s, also one that it opened and did not use, as
another one was free first. A request that it sends while this side closes has no answer, and it
doesn't send a POST again.
"""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _HttpConnection(asyncio.Protocol):
    """Passes everything on to aiohttp's own protocol of one connection, and counts."""

    def __init__(self, inner: asyncio.Protocol, connections: HttpConnections) -> None:
        self._inner = inner
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._received = 0
        self.is_served = False

    @property
    def unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size() if self._transport else 0

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def asked(self, *, whole: bool) -> None:
        """Records that a request's head is here; with `whole` its body, too."""
        self.is_served = whole
        self._connections.limits.spoke(self)
        if whole:
            self._received = 0
            self._connections.limits.whole(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._connections.by_transport[transport] = self
        self._connections.limits.entered(self)
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._connections.by_transport.pop(self._transport, None)
        self._connections.limits.left(self)
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.is_served:
            self._received += len(data)
            self._connections.limits.holds(self, self._received)
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


class HttpConnections:
    """The connections of one HTTP port. `middleware` goes first in the application's."""

    def __init__(self, name: str, *, most: int, silent_s: float) -> None:
        self.limits = ConnectionLimits(name, most=most, silent_s=silent_s)
        self.by_transport: dict[asyncio.BaseTransport, _HttpConnection] = {}

    def counted(self, make: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """Returns the protocol factory of a listener."""
        return lambda: _HttpConnection(make(), self)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Knows when a request is here as a whole."""
        connection = self.by_transport.get(cast("asyncio.BaseTransport", request.transport))
        if connection is None:
            return await handler(request)  # its connection is gone already
        connection.asked(whole=not request.can_read_body)
        if request.can_read_body:
            await request.read()
            connection.asked(whole=True)
        try:
            return await handler(request)
        finally:
            connection.is_served = False


class HttpServer:
    """An HTTP port that is open."""

    def __init__(self, runner: web.AppRunner, listener: Listener, limits: ConnectionLimits) -> None:
        self._runner = runner
        self._listener = listener
        self.limits = limits

    @property
    def port(self) -> int:
        return self._listener.port

    async def close(self) -> None:
        """Take no further request, and give those that run a second."""
        self._listener.close()
        self.limits.close()
        await self._runner.cleanup()


async def serve(
    application: web.Application,
    host: str | None,
    port: int,
    *,
    name: str,
    most: int = MOST_VISITORS,
    admission: Admission | None = None,
    behind_proxy: bool = False,
) -> HttpServer:
    """Opens an HTTP port for an application that is not served yet. Raises OSError.

    `most`: connections. `behind_proxy`: the API server asks for others, also what must not be
    repeated, so that its connections are not closed before it closes them. A connection that
    `admission` refuses gets no HTTP.
    """
    silent_s, idle_s = (PROXY_S, PROXY_S) if behind_proxy else (SILENT_S, IDLE_S)
    connections = HttpConnections(name, most=most, silent_s=silent_s)
    application.middlewares.insert(0, connections.middleware)
    runner = web.AppRunner(
        application, access_log=None, shutdown_timeout=_SHUTDOWN_S, keepalive_timeout=idle_s
    )
    await runner.setup()
    assert runner.server is not None, "it is set up"
    _log_seldom()
    listener = await listen(connections.counted(runner.server), host, port, admission=admission)
    return HttpServer(runner, listener, connections.limits)


def _log_seldom() -> None:
    logger = logging.getLogger("aiohttp.server")
    if not any(isinstance(each, LogFilter) for each in logger.filters):
        logger.addFilter(LogFilter(now_s=time.monotonic))


class LogFilter(logging.Filter):
    """Lets few records a minute pass, without their traces: strangers could fill the log."""

    def __init__(self, *, now_s: Callable[[], float]) -> None:
        super().__init__()
        self._log_limit = LogRateLimit(_LOGGED_PER_MINUTE, now_s=now_s, held=_tell_held)

    def filter(self, record: logging.LogRecord) -> bool:
        if not self._log_limit.passes():
            return False
        if record.exc_info and record.exc_info[0] is not None:
            # The exception's text holds what a stranger sent: only its kind is logged.
            record.msg = f"{record.msg}: {record.exc_info[0].__name__}"
            record.exc_info = record.exc_text = None
        return True


def _tell_held(count: int) -> None:
    _log.warning("%d more requests that could not be answered", count)
