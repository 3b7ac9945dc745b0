"""A command in a container, through the API server's websocket."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import aiohttp

from zonequake_kube.errors import ClusterError

PROTOCOL = "v4.channel.k8s.io"
_STDIN, _STDOUT, _STDERR, _STATUS = 0, 1, 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """The output of a command in a container, and its exit code."""

    code: int
    stdout: str
    stderr: str


class Execution:
    """A command that runs. Each wait ends after `timeout_s`; every method raises ClusterError."""

    def __init__(
        self, socket: aiohttp.ClientWebSocketResponse, *, pod: str, container: str, timeout_s: float
    ) -> None:
        self._socket = socket
        self._pod, self._container, self._timeout_s = pod, container, timeout_s
        self._output = {_STDOUT: b"", _STDERR: b"", _STATUS: b""}

    async def line(self) -> str:
        """Takes the next line from what the command prints, and waits until there is one."""
        async with self._in_time():
            while b"\n" not in self._output[_STDOUT]:
                if not await self._receive():
                    raise ClusterError(
                        f"exec in pod {self._pod} ended without output, "
                        "expected a line: see the pod's logs"
                    )
        line, _, self._output[_STDOUT] = self._output[_STDOUT].partition(b"\n")
        return line.decode(errors="replace")

    async def say(self, text: str) -> None:
        """Writes to the command's standard input."""
        async with self._in_time():
            await self._socket.send_bytes(bytes([_STDIN]) + text.encode())

    async def result(self) -> ExecResult:
        """Waits for the command's end; lines that were taken are not in what it printed."""
        async with self._in_time():
            while await self._receive():
                pass
        return ExecResult(
            code=_exit_code(self._output[_STATUS], self._pod),
            stdout=self._output[_STDOUT].decode(errors="replace"),
            stderr=self._output[_STDERR].decode(errors="replace"),
        )

    @contextlib.asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        with named_errors(self._pod, self._container, self._timeout_s):
            async with asyncio.timeout(self._timeout_s):
                yield

    async def _receive(self) -> bool:
        """Returns whether anything came before the end."""
        message = await self._socket.receive()
        if message.type is aiohttp.WSMsgType.BINARY and message.data:
            self._output[message.data[0]] += message.data[1:]
        return message.type not in (
            aiohttp.WSMsgType.CLOSE,
            aiohttp.WSMsgType.CLOSING,
            aiohttp.WSMsgType.CLOSED,
            aiohttp.WSMsgType.ERROR,
        )


@contextlib.contextmanager
def named_errors(pod: str, container: str, timeout_s: float) -> Iterator[None]:
    """Turns what breaks a connection into a ClusterError that names the container."""
    try:
        yield
    except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
        raise ClusterError(
            f"exec in pod {pod}, container {container}: {error or 'no end'} within {timeout_s:g} s"
        ) from error


def _exit_code(status: bytes, pod: str) -> int:
    """Reads the exit code in exec's status channel (a metav1.Status)."""
    if not status:
        raise ClusterError(f"exec in pod {pod} ended without a status: the container is gone")
    found = json.loads(status)
    if found.get("status") == "Success":
        return 0
    for cause in (found.get("details") or {}).get("causes") or []:
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise ClusterError(f"exec in pod {pod}: {found.get('message')}")
