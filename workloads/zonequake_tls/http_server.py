"""aiohttp's connections in a crowd: it has neither a limit for them nor one for a slow request."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import cast

from aiohttp import web

from zonequake_tls.connection_limits import Crowd
from zonequake_tls.listener import Guard, Listener, listen
from zonequake_tls.log_rate_limit import Seldom

_log = logging.getLogger("zonequake_tls")
_LOGGED_PER_MINUTE = 10
_SHUTDOWN_S = 1.0
MOST_VISITORS = 256
"""Connections of an HTTP port: probes, Prometheus, the operator and a few people."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Visitor(asyncio.Protocol):
    """Passes everything on to aiohttp's own protocol of one connection, and counts."""

    def __init__(self, inner: asyncio.Protocol, visitors: Visitors) -> None:
        self._inner = inner
        self._visitors = visitors
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
        """A request's head is here; with `whole` its body, too."""
        self.is_served = whole
        self._visitors.crowd.spoke(self)
        if whole:
            self._received = 0
            self._visitors.crowd.whole(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._visitors.by_transport[transport] = self
        self._visitors.crowd.entered(self)
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._visitors.by_transport.pop(self._transport, None)
        self._visitors.crowd.left(self)
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.is_served:
            self._received += len(data)
            self._visitors.crowd.holds(self, self._received)
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


class Visitors:
    """The connections of one HTTP port. `middleware` goes first in the application's."""

    def __init__(self, name: str, *, most: int) -> None:
        self.crowd = Crowd(name, most=most)
        self.by_transport: dict[asyncio.BaseTransport, _Visitor] = {}

    def counted(self, make: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """Returns the protocol factory of a listener."""
        return lambda: _Visitor(make(), self)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Knows when a request is here as a whole."""
        visitor = self.by_transport.get(cast("asyncio.BaseTransport", request.transport))
        if visitor is None:
            return await handler(request)  # its connection is gone already
        visitor.asked(whole=not request.can_read_body)
        if request.can_read_body:
            await request.read()
            visitor.asked(whole=True)
        try:
            return await handler(request)
        finally:
            visitor.is_served = False


class Serving:
    """An HTTP port that is open."""

    def __init__(self, runner: web.AppRunner, listener: Listener, crowd: Crowd) -> None:
        self._runner = runner
        self._listener = listener
        self.crowd = crowd

    @property
    def port(self) -> int:
        return self._listener.port

    async def close(self) -> None:
        """Take no further request, and give those that run a second."""
        self._listener.close()
        self.crowd.close()
        await self._runner.cleanup()


async def serve(
    application: web.Application,
    host: str | None,
    port: int,
    *,
    name: str,
    most: int = MOST_VISITORS,
    guard: Guard | None = None,
) -> Serving:
    """Open an HTTP port for an application, which nobody serves yet. Raises OSError.

    `most`: connections. Whoever a guard refuses sees no HTTP.
    """
    visitors = Visitors(name, most=most)
    application.middlewares.insert(0, visitors.middleware)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN_S)
    await runner.setup()
    assert runner.server is not None, "it is set up"
    _log_seldom()
    listener = await listen(visitors.counted(runner.server), host, port, guard=guard)
    return Serving(runner, listener, visitors.crowd)


def _log_seldom() -> None:
    logger = logging.getLogger("aiohttp.server")
    if not any(isinstance(each, Terse) for each in logger.filters):
        logger.addFilter(Terse(now_s=time.monotonic))


class Terse(logging.Filter):
    """Lets few records a minute pass, without their traces: strangers could fill the log."""

    def __init__(self, *, now_s: Callable[[], float]) -> None:
        super().__init__()
        self._seldom = Seldom(_LOGGED_PER_MINUTE, now_s=now_s, held=_tell_held)

    def filter(self, record: logging.LogRecord) -> bool:
        if not self._seldom.passes():
            return False
        if record.exc_info and record.exc_info[0] is not None:
            # What a stranger sent is in the exception's words: only its kind is told.
            record.msg = f"{record.msg}: {record.exc_info[0].__name__}"
            record.exc_info = record.exc_text = None
        return True


def _tell_held(count: int) -> None:
    _log.warning("%d more requests that could not be answered", count)
