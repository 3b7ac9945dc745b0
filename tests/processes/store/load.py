"""A load of appends to one partition, whose acknowledgements are held against what is there."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from types import TracebackType

from local_nodes import LocalNodes, Zone
from store_client import Client

from zonequake_store.client_protocol import Append, Status

WRITERS = 8
_LISTS = 8


class Load:
    """Runs while it is entered. Elements are unique; a list per writer.

    `attempt_s`: after so long without an answer another node is asked.
    """

    def __init__(self, nodes: LocalNodes, zone: Zone, *, attempt_s: float = 0.5) -> None:
        self._attempt_s = attempt_s
        self._nodes = nodes
        self.group = zone.groups[0]
        self.client: Client = nodes.client()
        self.acknowledged: dict[int, list[int]] = {writer: [] for writer in range(_LISTS)}
        self._elements = itertools.count(1)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Load:
        self._tasks = [asyncio.create_task(self._write(writer)) for writer in range(WRITERS)]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    async def goes_on(self, more: int = 100, *, within_s: float = 20.0) -> None:
        """Wait for so many more acknowledgements."""
        wanted, end_s = self.count + more, time.monotonic() + within_s
        while self.count < wanted:
            assert time.monotonic() < end_s, (
                f"{wanted - self.count} of {more} were not acknowledged"
            )
            await asyncio.sleep(0.02)

    async def nothing_is_lost(self) -> None:
        """Read all lists; also after the end of the load."""
        for writer, acknowledged in self.acknowledged.items():
            found = (await self.client.read(self.group, f"list-{writer}")).value or []
            assert isinstance(found, list)
            assert len(found) == len(set(found)), "an element is there twice"
            lost = set(acknowledged) - set(found)
            assert not lost, f"lost {sorted(lost)}"

    async def _write(self, writer: int) -> None:
        nodes = list(self._nodes.nodes)
        name = nodes[0]
        while True:
            element = next(self._elements)
            body = Append(self.group, f"list-{writer}", element, self.client.request_id())
            while True:
                with contextlib.suppress(OSError, TimeoutError):
                    reply = await self.client.once(name, body, timeout_s=self._attempt_s)
                    if reply.status is Status.OK:
                        break
                    if reply.leader in nodes:
                        name = reply.leader
                        await asyncio.sleep(0.002)
                        continue
                name = nodes[(nodes.index(name) + 1) % len(nodes)]
                await asyncio.sleep(0.01)
            self.acknowledged[writer].append(element)
