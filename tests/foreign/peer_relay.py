"""Stands between the members of an etcd, so that one of them can be cut off from the others.

All members reach each other through the relays of their peer ports. Whom a connection comes from is
in the first request on it: etcd's peers name themselves in `X-Server-From`, and each keeps its
connections to itself. Clients don't come this way, so a member that is cut off still serves them.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field

_FROM = re.compile(rb"\r\nX-Server-From: ([0-9a-f]+)\r\n", re.IGNORECASE)


@dataclass
class PeerRelays:
    """One relay for each member; `cut` names members by their ids."""

    _servers: list[asyncio.Server] = field(default_factory=list)
    _open: dict[asyncio.Task[None], frozenset[int | str]] = field(default_factory=dict)
    _cut: frozenset[int | str] = frozenset()

    async def add(self, name: str, port: int, to_port: int) -> None:
        """Relay what comes to `port` to the peer port of member `name`."""

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._open[task] = frozenset({name})
            try:
                await self._relay(reader, writer, name, to_port, task)
            except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                pass  # an end of either side, or of the way between them
            finally:
                writer.transport.abort()
                del self._open[task]

        self._servers.append(await asyncio.start_server(accept, "127.0.0.1", port))

    async def _relay(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        name: str,
        to_port: int,
        task: asyncio.Task[None],
    ) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        found = _FROM.search(head)
        ends: frozenset[int | str] = frozenset({name, *([int(found[1], 16)] if found else [])})
        self._open[task] = ends
        if ends & self._cut:
            return
        onward, back = await asyncio.open_connection("127.0.0.1", to_port)
        try:
            back.write(head)
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(reader, back))
                both.create_task(_pump(onward, writer))
        except* OSError:
            pass
        finally:
            back.transport.abort()

    def cut(self, name: str, member_id: int) -> None:
        """Nothing passes to or from this member any more, also on connections that are open."""
        self._cut = frozenset({name, member_id})
        for task, ends in self._open.items():
            if ends & self._cut:
                task.cancel()

    def heal(self) -> None:
        """All may pass again."""
        self._cut = frozenset()

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while chunk := await source.read(65_536):
        sink.write(chunk)
        await sink.drain()
    raise ConnectionResetError("one side has ended")
