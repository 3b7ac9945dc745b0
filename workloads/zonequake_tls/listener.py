"""Listeners, with or without TLS.

A listener of asyncio's has one context forever, and doesn't report which peer failed at its
handshake. Here each connection is accepted by hand, gets the context of that moment, and ends when
its time is up: a certificate that was renewed, has expired or isn't trusted any more is out of use
after that.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from zonequake_tls.certificate_check import IdentityRefused
from zonequake_tls.credentials import Credentials
from zonequake_tls.log_rate_limit import LogRateLimit
from zonequake_tls.memory_trim import MemoryTrim

_log = logging.getLogger("zonequake_tls")

HANDSHAKE_TIMEOUT_S = 5.0
_SHUTDOWN_TIMEOUT_S = 1.0
# If more than this are under way, strangers hold connections open: the oldest gives way. Each costs
# 55 kB before its identity is known, and a pod has three ports.
_MOST_HANDSHAKES = 512
# At most so many refusals of one port are logged each minute; all are counted.
_LOGGED_PER_MINUTE = 50
_SWEEP_S = 1.0
_NO_MORE_FILES_PAUSE_S = 0.5


class Listener(Protocol):
    """An open port."""

    @property
    def port(self) -> int: ...

    def close(self) -> None:
        """Take no further connection; those that are open stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The admission rules of one port. `name` is the port's in logs and metrics."""

    name: str
    credentials: Credentials
    allowed: tuple[str, ...]
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Refused connections by port and reason."""


async def listen(
    factory: Callable[[], asyncio.BaseProtocol],
    host: str | None,
    port: int,
    *,
    admission: Admission | None,
    backlog: int = 100,
) -> Listener:
    """Open a listener; without `admission` it accepts every client. Raises OSError."""
    loop = asyncio.get_running_loop()
    if admission is None:
        return _Unguarded(await loop.create_server(factory, host, port, backlog=backlog))
    (family, _, _, _, address), *_ = await loop.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    listener = socket.create_server(address[:2], family=family, backlog=backlog)
    listener.setblocking(False)
    return _Guarded(factory, listener, admission)


class _Unguarded:
    def __init__(self, server: asyncio.Server) -> None:
        self._server = server

    @property
    def port(self) -> int:
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def close(self) -> None:
        self._server.close()


class _Guarded:
    def __init__(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        listener: socket.socket,
        admission: Admission,
    ) -> None:
        self._factory = factory
        self._listener = listener
        self._admission = admission
        self._handshakes: dict[asyncio.Task[None], tuple[str, int]] = {}
        """Handshakes under way, the oldest first, and their addresses."""
        self._let_in: list[tuple[float, asyncio.BaseTransport]] = []
        now_s = asyncio.get_running_loop().time
        self._said = LogRateLimit(_LOGGED_PER_MINUTE, now_s=now_s, held=self._tell_held)
        self._memory_trim = MemoryTrim(now_s=now_s)
        self._tasks = [
            asyncio.create_task(self._accept(), name=f"accepting {admission.name}"),
            asyncio.create_task(self._end_in_time(), name=f"ending {admission.name}"),
        ]
        self.port: int = listener.getsockname()[1]

    def close(self) -> None:
        for task in (*self._tasks, *self._handshakes):
            task.cancel()
        asyncio.get_running_loop().call_soon(self._listener.close)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                raw, address = await loop.sock_accept(self._listener)
            except OSError as error:
                _log.error("%s: no connection can be accepted now: %s", self._admission.name, error)
                await asyncio.sleep(_NO_MORE_FILES_PAUSE_S)
                continue
            if len(self._handshakes) >= _MOST_HANDSHAKES:
                # Not the new one: a client that keeps them all under way would keep every other
                # out.
                oldest = next(iter(self._handshakes))
                whom = self._handshakes.pop(oldest)
                oldest.cancel()
                self._refuse(whom, "busy", f"{_MOST_HANDSHAKES} handshakes are under way")
            self._memory_trim.used()
            task = asyncio.create_task(self._admit(raw, address))
            self._handshakes[task] = address
            task.add_done_callback(lambda done: self._handshakes.pop(done, None))
            # One after the other: of many that come at once the first could be through by now.
            await asyncio.sleep(0)

    async def _admit(self, raw: socket.socket, address: tuple[str, int]) -> None:
        admission, loop = self._admission, asyncio.get_running_loop()
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            transport, _ = await loop.connect_accepted_socket(
                self._factory,
                raw,
                ssl=admission.credentials.for_accepting(*admission.allowed),
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
                ssl_shutdown_timeout=_SHUTDOWN_TIMEOUT_S,
            )
        except OSError as error:
            self._refuse(address, *reason_of(error))
        else:
            ends_s = loop.time() + admission.credentials.settings.longest_s
            self._let_in.append((ends_s, transport))

    async def _end_in_time(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP_S)
            self._said.tick()
            self._memory_trim.tick()
            now_s = loop.time()
            for ends_s, transport in self._let_in:
                if ends_s <= now_s:
                    transport.close()
            self._let_in = [each for each in self._let_in if not each[1].is_closing()]

    def _refuse(self, address: tuple[str, int], reason: str, text: str) -> None:
        name = self._admission.name
        self._admission.refused[name, reason] += 1
        if self._said.passes():
            _log.warning("%s: refused %s:%d: %s", name, address[0], address[1], text)

    def _tell_held(self, count: int) -> None:
        _log.warning("%s: refused %d more within a minute", self._admission.name, count)


_REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": ("no-certificate", "it showed no certificate"),
    "HTTP_REQUEST": ("no-tls", "it speaks HTTP without TLS"),
    "WRONG_VERSION_NUMBER": ("no-tls", "it doesn't speak TLS"),
    "UNSUPPORTED_PROTOCOL": ("no-tls", "it doesn't speak TLS 1.3"),
}


def reason_of(error: OSError) -> tuple[str, str]:
    """Returns why a handshake failed, as a label of metrics and in words."""
    if isinstance(error, IdentityRefused):
        return "identity", f"its identity is not allowed: {error}"
    if isinstance(error, ssl.SSLCertVerificationError):
        message = str(getattr(error, "verify_message", "") or error)
        reason = "expired" if "expired" in message else "certificate"
        return reason, f"its certificate can't be trusted: {message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        if "ALERT" in error.reason:
            return "refused-us", f"it refused our certificate: {error.reason}"
        return _REASONS.get(error.reason, ("no-tls", f"no handshake: {error.reason}"))
    text = str(error) or type(error).__name__
    return "no-handshake", f"it closed the connection before or during the handshake: {text}"
