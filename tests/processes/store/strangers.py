"""Whoever reaches a port: raw connections that say anything, and what that may cost a node."""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from local_node import Node
from local_nodes import LocalNodes, until

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SLACK_BYTES = 48 << 20
"""How much a node may hold more than before: caches, the allocator's, a few frames."""
SLACK_FILES = 12


def framed(frame: bytes) -> bytes:
    return struct.pack(">I", len(frame)) + frame


async def say(port: int, data: bytes, *, listen_s: float = 0.05) -> bytes:
    """Connects, says `data`, and returns what comes back within `listen_s`, or until it is cut."""
    heard = b""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
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


async def say_all(port: int, things: Iterable[bytes], *, at_once: int = 20) -> None:
    """Each on a connection of its own."""
    slots = asyncio.Semaphore(at_once)

    async def one(data: bytes) -> None:
        async with slots:
            await say(port, data)

    await asyncio.gather(*map(one, things))


@dataclass(frozen=True)
class Cost:
    """What a node's process holds."""

    resident_bytes: int
    files: int
    logged_bytes: int


def cost(node: Node) -> Cost:
    assert node.process is not None
    folder = Path(f"/proc/{node.process.pid}")
    resident = int((folder / "statm").read_text().split()[1]) * PAGE_BYTES
    return Cost(resident, len(os.listdir(folder / "fd")), log_of(node).stat().st_size)


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
            return now.files <= before[name].files + SLACK_FILES and grew <= slack_bytes

        await until(has_let_go, f"{name} lets go of {cost(node)}, {before[name]}", timeout_s=25)
