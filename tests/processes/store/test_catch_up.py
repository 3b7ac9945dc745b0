"""A node joins: catch-up from the log and by snapshot, its progress, its limit, its events."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable

import pytest

from tests.patience import PATIENCE_S
from tests.processes.store.local_nodes import MOSTLY_TLS, LocalNodes, Zone, until
from tests.processes.store.stalls import again_after_a_stall
from tests.processes.store.store_client import Client
from zonequake_protocol.admin import CatchUpProgress, Stage
from zonequake_protocol.client import Write

pytestmark = pytest.mark.processes

THREE = ["n0", "n1", "n2"]


async def fill(
    client: Client, zone: Zone, count: int, filler_bytes: int, at_once: int = 64
) -> None:
    """Write so many keys. A burst that waits behind a busy disk isn't sent again: it would wait
    even longer then."""
    group = zone.groups[0]
    for first in range(0, count, at_once):
        writes = [
            Write(group, f"key-{n}", n + 1, b"f" * filler_bytes, client.request_id())
            for n in range(first, min(first + at_once, count))
        ]
        await asyncio.gather(*(client.at_leader(write, attempt_s=PATIENCE_S) for write in writes))


async def compacted(nodes: LocalNodes, group: str) -> None:
    async def is_compacted() -> bool:
        status = await nodes.status(await nodes.leader(group), group)
        return status is not None and status.first_index > 1

    await until(is_compacted, "the leader's log is compacted")


class Watched:
    """What the leader told of a catch-up, until it was caught up or something was seen."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float, CatchUpProgress]] = []
        """When it was asked for, when the answer was there, and what that was."""

    def keeps_to(self, bytes_per_second: int) -> bool:
        """Whether no more was sent between any two looks than the limit allows.

        What is under way may overdraw the limit by one message.
        """
        slack_bytes = 0.3 * bytes_per_second + 300_000
        return all(
            later.bytes_sent - earlier.bytes_sent
            <= bytes_per_second * (end_s - begin_s) * 1.1 + slack_bytes
            for (begin_s, _, earlier), (_, end_s, later) in itertools.combinations(self.seen, 2)
        )

    async def watch(
        self,
        nodes: LocalNodes,
        leader: str,
        group: str,
        *,
        until: Callable[[CatchUpProgress], bool] = lambda progress: False,
    ) -> None:
        while True:
            asked_s = time.monotonic()
            status = await nodes.status(leader, group)
            assert status is not None
            if status.progress:
                (progress,) = status.progress
                self.seen.append((asked_s, time.monotonic(), progress))
                if until(progress):
                    return
            if status.caught_up or status.stage is not Stage.CATCHING_UP:
                return
            await asyncio.sleep(0.05)


async def test_a_fourth_node_catches_up_from_the_log_and_replaces_one(nodes: LocalNodes) -> None:
    await nodes.start(*THREE, "n3")
    await again_after_a_stall(nodes, catches_up_and_replaces_one)


async def catches_up_and_replaces_one(nodes: LocalNodes, name: str) -> None:
    rate = 700_000
    zone = await nodes.create(name, on=THREE, catch_up_bytes_per_second=rate)
    group, client = zone.groups[0], nodes.client()
    await fill(client, zone, 3000, 1000)
    leader = await nodes.leader(group)
    target = [leader, next(n for n in THREE if n != leader), "n3"]
    await nodes.change(zone, target)
    watched = Watched()
    await watched.watch(nodes, leader, group)
    seen = [progress for *_, progress in watched.seen]
    assert {progress.by for progress in seen} == {"log"}
    assert watched.keeps_to(rate)
    fractions = [progress.fraction for progress in seen]
    assert fractions == sorted(fractions)
    assert any(0.1 < fraction < 0.9 for fraction in fractions)
    done = [progress.bytes_done for progress in seen]
    assert done == sorted(done)
    for progress in seen:
        assert progress.bytes_done <= progress.bytes_total
    assert done[-1] > 0.9 * seen[-1].bytes_total > 2_700_000
    await nodes.finish_change(zone, target)
    await client.write(group, "after", 1)
    headers = await nodes.until_equal(group, target)
    assert headers[0].keys == 3001
    told = [e for e in await nodes.events(leader) if e.zone == name]
    stages = [e for e in told if e.kind == "rebalance.stage"]
    events = [e.data for e in stages]
    assert [data["stage"] for data in events] == [
        "CATCHING_UP",
        "CAUGHT_UP",
        "JOINT",
        "STABLE",
        "NONE",
    ]
    assert stages[1].time - stages[0].time > 3e9, "3 MB at 0.7 MB/s"
    assert events[1]["progress"] == 1.0
    assert events[1]["adding"] == ["n3"]
    left = next(name for name in THREE if name not in target)
    assert await nodes.status(left, group) is None


async def test_the_log_and_a_snapshot_give_the_same_state_and_the_same_counters(
    nodes: LocalNodes,
) -> None:
    await nodes.start(*THREE, "n3", "n4")
    await again_after_a_stall(nodes, caught_up_both_ways)


async def caught_up_both_ways(nodes: LocalNodes, zone_name: str) -> None:
    zone = await nodes.create(zone_name, on=THREE)
    group, client = zone.groups[0], nodes.client()
    await fill(client, zone, 2000, 200)
    for number in range(200):
        await client.write(group, f"key-{number}", -number)
    ways = {}
    for name in ("n3", "n4"):
        target = [*zone.members, name]
        leader = await nodes.change(zone, target)
        watched = Watched()
        await watched.watch(nodes, leader, group)
        ways[name] = {progress.by for *_, progress in watched.seen if progress.bytes_sent}
        await nodes.finish_change(zone, target)
        if name == "n3":
            for _ in range(3):
                await fill(client, zone, 8000, 20, at_once=400)
            await compacted(nodes, group)
    assert ways["n3"] == {"log"}
    assert "snapshot" in ways["n4"]
    await client.write(group, "after", 1)
    headers = await nodes.until_equal(group, [*THREE, "n3", "n4"])
    assert len({header.digest for header in headers}) == 1
    assert len({(header.lwm, header.hwm, tuple(header.ranges)) for header in headers}) == 1
    assert headers[0].lwm == 2000 + 200 + 3 * 8000 + 1


@pytest.mark.parametrize("nodes", MOSTLY_TLS, indirect=True)
async def test_a_node_that_the_log_cannot_serve_gets_a_snapshot(nodes: LocalNodes) -> None:
    await nodes.start(*THREE, "n3")
    zone = await nodes.create("z", on=THREE)
    group, client = zone.groups[0], nodes.client()
    for _ in range(3):  # the same keys again, so that the state is smaller than the log
        await fill(client, zone, 8000, 20, at_once=400)
    await compacted(nodes, group)
    await nodes.change(zone, [*THREE, "n3"])
    await nodes.finish_change(zone, [*THREE, "n3"])
    await client.write(group, "after", 1)
    headers = await nodes.until_equal(group, [*THREE, "n3"])
    assert headers[0].keys == 8001
    joined = await nodes.status("n3", group)
    assert joined is not None
    assert joined.first_index > 1, "it began with a snapshot, not with entry 1"
    nodes.nodes["n3"].kill()
    await nodes.restart(zone, "n3")
    await nodes.until_equal(group, [*THREE, "n3"])


async def test_a_snapshot_that_was_interrupted_by_a_kill_goes_on_where_it_stopped(
    nodes: LocalNodes,
) -> None:
    await nodes.start(*THREE, "n3")
    await again_after_a_stall(nodes, goes_on_where_it_stopped)


async def goes_on_where_it_stopped(nodes: LocalNodes, name: str) -> None:
    rate = 300_000  # slow enough to hit the last fifth of it
    zone = await nodes.create(name, on=THREE, catch_up_bytes_per_second=rate)
    group, client = zone.groups[0], nodes.client()
    for _ in range(3):
        await fill(client, zone, 8000, 300, at_once=400)
    await compacted(nodes, group)
    target = [*THREE, "n3"]
    leader = await nodes.change(zone, target)
    watched = Watched()
    await watched.watch(nodes, leader, group, until=lambda progress: progress.fraction > 0.8)
    interrupted = watched.seen[-1][2]
    assert interrupted.by == "snapshot"
    nodes.nodes["n3"].kill()
    await nodes.restart(zone, "n3")
    await watched.watch(nodes, leader, group)
    assert watched.keeps_to(rate)
    after = [
        p for *_, p in watched.seen if p.by == "snapshot" and p.bytes_sent > interrupted.bytes_sent
    ]
    assert after
    assert min(progress.bytes_done for progress in after) > 0.4 * interrupted.bytes_total, (
        "it went on where it stopped, not from its start"
    )
    assert after[-1].bytes_sent < 1.6 * interrupted.bytes_total, "what was staged came only once"
    await nodes.finish_change(zone, target)
    await client.write(group, "after", 1)
    await nodes.until_equal(group, target)


@pytest.mark.parametrize("nodes", MOSTLY_TLS, indirect=True)
async def test_a_snapshot_whose_supplier_was_killed_comes_from_the_next_leader(
    nodes: LocalNodes,
) -> None:
    await nodes.start(*THREE, "n3")
    zone = await nodes.create("z", on=THREE, catch_up_bytes_per_second=2_000_000)
    group, client = zone.groups[0], nodes.client()
    for _ in range(3):
        await fill(client, zone, 8000, 300, at_once=400)
    await compacted(nodes, group)
    target = [*THREE, "n3"]
    leader = await nodes.change(zone, target)
    watched = Watched()
    await watched.watch(nodes, leader, group, until=lambda progress: progress.fraction > 0.4)
    assert watched.seen[-1][2].by == "snapshot"
    nodes.nodes[leader].kill()
    await nodes.leader(group)
    await nodes.restart(zone, leader)
    await nodes.finish_change(zone, target)
    await client.write(group, "after", 1)
    headers = await nodes.until_equal(group, target)
    assert headers[0].keys == 8001


async def test_the_catching_up_node_and_then_the_leader_are_killed_and_the_change_still_ends(
    nodes: LocalNodes,
) -> None:
    await nodes.start(*THREE, "n3")
    zone = await nodes.create("z", on=THREE, catch_up_bytes_per_second=500_000)
    group, client = zone.groups[0], nodes.client()
    await fill(client, zone, 3000, 1000)
    target = [*THREE, "n3"]
    leader = await nodes.change(zone, target)
    await asyncio.sleep(1.0)
    nodes.nodes["n3"].kill()
    await nodes.restart(zone, "n3")
    await asyncio.sleep(1.0)
    nodes.nodes[leader].kill()
    await nodes.restart(zone, leader)
    await nodes.finish_change(zone, target)
    await client.write(group, "after", 1)
    headers = await nodes.until_equal(group, target)
    assert headers[0].keys == 3001
