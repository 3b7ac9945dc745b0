"""A zone's partitions over time, as a watch of the API server tells: who wrote which keys when."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field

from zonequake_kube.client import Kube
from zonequake_kube.objects import Json
from zonequake_operator.resources.model import PartitionKeys
from zonequake_operator.resources.parsing import parse_partition


@dataclass(slots=True)
class Timeline:
    """Since the watch began, in monotonic seconds. `joined_s`: the topology had this many nodes.

    `key_writes` and `view_writes` count by partition: a write that left all keys as they were is a
    view's.
    """

    nodes: int
    keys: dict[int, PartitionKeys]
    joined_s: float | None = None
    pending_s: dict[int, float] = field(default_factory=dict)
    locked_s: dict[int, float] = field(default_factory=dict)
    stable_s: dict[int, float] = field(default_factory=dict)
    key_writes: Counter[int] = field(default_factory=Counter)
    view_writes: Counter[int] = field(default_factory=Counter)

    def partition_written(self, partition: Json, now_s: float) -> None:
        """A Partition has another resourceVersion."""
        found = parse_partition(partition)
        number, before, after = found.number, self.keys[found.number], found.keys
        self.keys[number] = after
        if before == after:
            self.view_writes[number] += 1
            return
        self.key_writes[number] += 1
        if after.pending is not None and before.pending is None:
            self.pending_s[number] = now_s
        if after.pending_lock is not None and before.pending_lock is None:
            self.locked_s[number] = now_s
        if after.stable != before.stable:
            self.stable_s[number] = now_s

    def topology_written(self, topology: Json, now_s: float) -> None:
        """The LogicalTopology has another version."""
        if self.joined_s is None and len(topology["status"].get("nodes", [])) == self.nodes:
            self.joined_s = now_s


class Watcher:
    """Fills a Timeline until the block ends."""

    def __init__(self, kube: Kube, *, nodes: int) -> None:
        self._kube, self._nodes = kube, nodes
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Timeline:
        partitions, version = await self._kube.snapshot("Partition")
        parsed = [parse_partition(each) for each in partitions]
        timeline = Timeline(self._nodes, {each.number: each.keys for each in parsed})
        _, topology_version = await self._kube.snapshot("LogicalTopology")
        self._tasks = [
            asyncio.create_task(self._follow("Partition", version, timeline)),
            asyncio.create_task(self._follow("LogicalTopology", topology_version, timeline)),
        ]
        return timeline

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        for each in ended:
            if isinstance(each, Exception):
                raise each

    async def _follow(self, kind: str, version: str, timeline: Timeline) -> None:
        while True:
            async for event in self._kube.watch(kind, labels="", resource_version=version):
                version = event.object["metadata"]["resourceVersion"]
                if kind == "Partition":
                    timeline.partition_written(event.object, time.monotonic())
                else:
                    timeline.topology_written(event.object, time.monotonic())
