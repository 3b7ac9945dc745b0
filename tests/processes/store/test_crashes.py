"""Every node is killed at once, at random moments of a write load: nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

from tests.processes.store.local_nodes import MOSTLY_TLS, LocalNodes, Zone, key_of, until
from tests.processes.store.store_client import Client
from zonequake_protocol.client import Append, ReplyStatus

pytestmark = pytest.mark.processes

THREE = ["n0", "n1", "n2"]
PARTITIONS = 4


class Writers:
    """Appends unique elements to one list per partition and notes which were acknowledged."""

    def __init__(self, client: Client, zone: Zone) -> None:
        self._client = client
        self._zone = zone
        self._next = 1
        self.acknowledged: dict[int, set[int]] = {p: set() for p in range(PARTITIONS)}
        self.tried: dict[int, set[int]] = {p: set() for p in range(PARTITIONS)}

    async def go_on(self, more: int) -> None:
        """Wait until so many more are acknowledged in each partition."""
        wanted = {partition: len(found) + more for partition, found in self.acknowledged.items()}

        async def have_gone_on() -> bool:
            return all(len(self.acknowledged[p]) >= count for p, count in wanted.items())

        await until(have_gone_on, f"{more} more in each partition")

    async def run(self, partition: int) -> None:
        """Append until cancelled; each attempt goes out once, without a retry."""
        group, key = self._zone.groups[partition], key_of(partition, PARTITIONS, 0)
        names = list(THREE)
        while True:
            element, self._next = self._next, self._next + 1
            self.tried[partition].add(element)
            body = Append(group, key, element, self._client.request_id())
            try:
                reply = await self._client.once(names[0], body, timeout_s=1.0)
            except (OSError, TimeoutError):
                names.append(names.pop(0))
                await asyncio.sleep(0.01)
                continue
            if reply.status is ReplyStatus.OK:
                self.acknowledged[partition].add(element)
            else:
                names.append(names.pop(0))
                await asyncio.sleep(0.005)


async def test_no_acknowledged_append_is_lost_when_all_nodes_are_killed(nodes: LocalNodes) -> None:
    await nodes.start(*THREE)
    zone = await nodes.create("z", on=THREE, partitions=PARTITIONS)
    client = nodes.client()
    writers = Writers(client, zone)
    moments = random.Random(20261121)
    for crash in range(6):
        tasks = [
            asyncio.create_task(writers.run(partition))
            for partition in range(PARTITIONS)
            for _ in range(4)
        ]
        await writers.go_on(25)
        await asyncio.sleep(moments.random())
        for name in moments.sample(THREE, 3):
            nodes.nodes[name].kill()
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await nodes.restart(zone, *THREE)
        for partition, group in enumerate(zone.groups):
            reply = await client.read(group, key_of(partition, PARTITIONS, 0))
            found = reply.value or []
            assert isinstance(found, list)
            assert len(set(found)) == len(found), f"crash {crash}: an element is there twice"
            lost = writers.acknowledged[partition] - set(found)
            assert not lost, f"crash {crash}, partition {partition}: lost {sorted(lost)}"
            assert set(found) <= writers.tried[partition]
    assert sum(map(len, writers.acknowledged.values())) > 500, "the load must do something"
    for group in zone.groups:
        await nodes.until_equal(group, THREE)


@pytest.mark.parametrize("nodes", MOSTLY_TLS, indirect=True)
async def test_one_node_after_the_other_is_killed_during_writes_without_loss(
    nodes: LocalNodes,
) -> None:
    await nodes.start(*THREE)
    zone = await nodes.create("z", on=THREE, partitions=PARTITIONS)
    client = nodes.client()
    writers = Writers(client, zone)
    tasks = [asyncio.create_task(writers.run(partition)) for partition in range(PARTITIONS)]
    for name in (*THREE, *THREE):
        await writers.go_on(10)
        nodes.nodes[name].kill()
        await nodes.restart(zone, name)
        for group in zone.groups:
            await nodes.leader(group)
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    for partition, group in enumerate(zone.groups):
        found = (await client.read(group, key_of(partition, PARTITIONS, 0))).value
        assert isinstance(found, list)
        assert writers.acknowledged[partition] <= set(found)
        await nodes.until_equal(group, THREE)
