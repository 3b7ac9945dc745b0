"""Strangers at a port: raw connections that say anything, and what that may cost a node."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE_S
from tests.processes.store.local_node import Node
from tests.processes.store.local_nodes import LocalNodes, until
from zonequake_tls.identity import TlsRole

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SLACK_BYTES = 48 << 20
"""How much a node may hold more than before: caches, the allocator's, a few frames."""
SLACK_FILES = 12
SLACK_THREADS = 8
"""Those that read are begun when they are needed, and stay."""
OPENS = {"peer_port": TlsRole.STORE, "client_port": TlsRole.LOAD, "orders_port": TlsRole.OPERATOR}
"""Whose certificate lets in where."""


def framed(frame: bytes) -> bytes:
    return struct.pack(">I", len(frame)) + frame


def showing(folder: Path | None) -> ssl.SSLContext:
    """Of whoever shows the certificate in this folder, or none, and would talk to anybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if folder is not None:
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context


def opening(nodes: LocalNodes, port: str) -> ssl.SSLContext | None:
    """Of a thief of the certificate that lets in at this port; None where nothing is shown."""
    if nodes.certificates is None or port not in OPENS:
        return None
    return showing(nodes.certificates.directory / OPENS[port])


async def say(
    port: int, data: bytes, *, listen_s: float = 0.05, context: ssl.SSLContext | None = None
) -> bytes:
    """Connects, says `data`, and returns what comes back within `listen_s`, or until it is cut."""
    heard = b""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        try:
            writer.write(data)
            await writer.drain()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(listen_s):
                    while chunk := await reader.read(1 << 16):
                        heard += chunk
        finally:
            writer.transport.abort()
    return heard


async def say_all(
    port: int,
    things: Iterable[bytes],
    *,
    at_once: int = 20,
    context: ssl.SSLContext | None = None,
    listen_s: float = 0.05,
) -> None:
    """Each on a connection of its own."""
    slots = asyncio.Semaphore(at_once)

    async def one(data: bytes) -> None:
        async with slots:
            await say(port, data, context=context, listen_s=listen_s)

    await asyncio.gather(*map(one, things))


async def opened(port: int, many: int) -> list[asyncio.StreamWriter]:
    """Connections on which nothing is said."""
    pairs = await asyncio.gather(
        *(asyncio.open_connection("127.0.0.1", port) for _ in range(many)), return_exceptions=True
    )
    return [pair[1] for pair in pairs if not isinstance(pair, BaseException)]


def as_it_is(said: bytes) -> bytes:
    return said


async def by_hand(
    port: int,
    context: ssl.SSLContext,
    words: bytes,
    *,
    flight: int = 0,
    changed: Callable[[bytes], bytes] = as_it_is,
    listen_s: float = PATIENCE_S,
) -> tuple[bytes, bytes]:
    """A TLS client whose bytes pass through the test's hands: what it said, and what it
    understood.

    It says hello (flight 0), shows its certificate (1) and says `words` (2); one of them is
    `changed`, and whatever comes of that is let be. A client that gives the node nothing to answer
    listens no longer than `listen_s` for it.
    """
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing)
    flights: list[bytes] = []
    understood = b""

    def speak() -> None:
        spoken = outgoing.read()
        if spoken:
            flights.append(changed(spoken) if len(flights) == flight else spoken)
            writer.write(flights[-1])

    async def done(act: Callable[[], Any]) -> Any:
        while True:
            try:
                result = act()
            except ssl.SSLWantReadError:
                speak()
                async with asyncio.timeout(listen_s):
                    heard = await reader.read(1 << 16)
                if not heard:
                    raise ConnectionError("the node has ended it") from None
                incoming.write(heard)
            else:
                speak()
                return result

    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            await done(tls.do_handshake)
            await done(lambda: tls.write(words))
            understood = await done(lambda: tls.read(1 << 16))
        finally:
            writer.transport.abort()
    return b"".join(flights), understood


def refusals_in(said: str) -> list[str]:
    """The reason of each refusal that stands in a log."""
    return re.findall(r"WARNING \w+: refused [\d.:]+: (.*)", said)


async def refused(nodes: LocalNodes, node: str) -> dict[tuple[str, str], int]:
    """How many a node has refused, by port and reason."""
    counted = re.findall(
        r'zonequake_connections_refused_total\{port="(\w+)",reason="([-\w]+)"\} (\S+)',
        await nodes.metrics(node),
    )
    return {(port, reason): int(float(count)) for port, reason, count in counted}


@dataclass(frozen=True)
class Cost:
    """What a node's process holds."""

    resident_bytes: int
    files: int
    threads: int
    logged_bytes: int


def cost(node: Node) -> Cost:
    assert node.process is not None
    folder = Path(f"/proc/{node.process.pid}")
    resident = int((folder / "statm").read_text().split()[1]) * PAGE_BYTES
    return Cost(
        resident_bytes=resident,
        files=len(os.listdir(folder / "fd")),
        threads=len(os.listdir(folder / "task")),
        logged_bytes=log_of(node).stat().st_size,
    )


def log_of(node: Node) -> Path:
    return node.directory.parent / f"{node.name}.log"


@asynccontextmanager
async def harmless(
    nodes: LocalNodes, *, logged_bytes: int = 4096, slack_bytes: int = SLACK_BYTES
) -> AsyncIterator[None]:
    """After what happens inside, each node lives as the same process, answers, has let go of what
    it held, and has logged little and no trace of a failure."""
    before = {name: cost(node) for name, node in nodes.nodes.items()}
    pids = {name: node.process.pid for name, node in nodes.nodes.items() if node.process}
    yield
    for name, node in nodes.nodes.items():
        said = log_of(node).read_text()[before[name].logged_bytes :]
        assert node.is_alive, f"{name} ended:\n{said[-3000:]}"
        assert node.process is not None
        assert node.process.pid == pids[name]
        assert (await nodes.health(name))[0] == 200
        assert "Traceback" not in said, said[-3000:]
        assert len(said) <= logged_bytes, said[-3000:]

        async def has_let_go(name: str = name, node: Node = node) -> bool:
            now = cost(node)
            grew = now.resident_bytes - before[name].resident_bytes
            return (
                now.files <= before[name].files + SLACK_FILES
                and now.threads <= before[name].threads + SLACK_THREADS
                and grew <= slack_bytes
            )

        await until(has_let_go, f"{name} lets go of {cost(node)}, {before[name]}")
