"""Stands between a client and an S3 server: does what busy stores and bad networks do."""

from __future__ import annotations

import http.client
import http.server
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit


class Fault(StrEnum):
    """What happens to one request."""

    SLOW_DOWN = "slow down"  # 503, as a store that has too much to do says it
    DENIED = "denied"  # 403, as to credentials that don't reach so far
    RESET = "reset"  # the connection breaks before the server hears of it
    RESET_DONE = "reset, done"  # the server has done it, and the client doesn't hear of it
    CUT = "cut"  # the connection breaks in the middle of the answer
    SILENT = "silent"  # nothing ever comes back


Plan = Callable[[int, str, str], Fault | None]
"""(number from 0 on, method, path with query) → what happens to this request."""

_REFUSALS = {
    Fault.SLOW_DOWN: (503, "SlowDown", "Please reduce your request rate."),
    Fault.DENIED: (403, "AccessDenied", "Access Denied"),
}


def each_third(number: int, method: str, path: str) -> Fault | None:
    """Every third request meets a fault, one after another of those that are told at once."""
    told = (Fault.SLOW_DOWN, Fault.RESET, Fault.RESET_DONE, Fault.CUT)
    return told[number // 3 % len(told)] if number % 3 == 2 else None


@dataclass
class Relay:
    """`requests`, the bytes of their files, and `faults` in the order of their arrival."""

    endpoint: str
    plan: Plan
    requests: list[tuple[str, str]] = field(default_factory=list)
    sizes_bytes: list[int] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    over: threading.Event = field(default_factory=threading.Event)

    def next(self, method: str, path: str, size_bytes: int) -> Fault | None:
        with self.lock:
            fault = self.plan(len(self.requests), method, path)
            self.requests.append((method, path))
            self.sizes_bytes.append(size_bytes)
            if fault is not None:
                self.faults.append(fault)
        return fault


@contextmanager
def relayed(server: str, plan: Plan) -> Iterator[Relay]:
    """A relay to the server at this endpoint."""
    onward = urlsplit(server)
    assert onward.hostname is not None
    relay = Relay(endpoint="", plan=plan)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def relay(self) -> None:
            body = self._body()
            size_bytes = int(self.headers.get("x-amz-decoded-content-length") or len(body))
            fault = relay.next(self.command, self.path, size_bytes)
            if fault is Fault.SILENT:
                relay.over.wait()
                self._break()
            elif fault in _REFUSALS:
                status, code, message = _REFUSALS[fault]
                text = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
                self._answer(status, {"Content-Type": "application/xml"}, text.encode())
            elif fault is Fault.RESET:
                self._break()
            else:
                self._pass_on(body, fault)

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            chunks = []
            while size := int(self.rfile.readline(), 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass  # trailers
            return b"".join(chunks)

        def _pass_on(self, body: bytes, fault: Fault | None) -> None:
            link = http.client.HTTPConnection(str(onward.hostname), onward.port, timeout=60)
            try:
                link.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in ("transfer-encoding", "content-length", "expect"):
                        link.putheader(name, value)
                link.putheader("Content-Length", str(len(body)))
                link.endheaders(body or None)
                answer = link.getresponse()
                content = answer.read()
                headers = dict(answer.getheaders())
            finally:
                link.close()
            if fault is Fault.RESET_DONE:
                self._break()
                return
            cut = fault is Fault.CUT and len(content) > 1
            self._answer(answer.status, headers, content[: len(content) // 2] if cut else content)
            if cut:
                self._break()

        def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
            self.send_response_only(status)
            length = headers.get("Content-Length", str(len(content)))
            for name, value in headers.items():
                if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                    self.send_header(name, value)
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def _break(self) -> None:
            """Closes with a reset, as a machine that went away."""
            with suppress(OSError):
                self.wfile.flush()
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                os.close(self.connection.detach())  # its files would keep it open
            self.close_connection = True

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = relay

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass  # a connection that was broken on purpose

    with Server(("127.0.0.1", 0), Handler) as listening:
        relay.endpoint = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        try:
            yield relay
        finally:
            relay.over.set()
            listening.shutdown()
