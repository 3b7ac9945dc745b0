"""A node joins: catch-up from the log and by snapshot, its progress, its limit, its events."""

from __future__ import annotations

import asyncio
import time

import pytest
from local_nodes import LocalNodes, Zone, until
from store_client import Client

from zonequake_store.admin_protocol import Stage

pytestmark = pytest.mark.processes

THREE = ["n0", "n1", "n2"]


async def fill(
    client: Client, zone: Zone, count: int, filler_bytes: int, at_once: int = 64
) -> None:
    group = zone.groups[0]
    for first in range(0, count, at_once):
        await asyncio.gather(
            *(
                client.write(group, f"key-{n}", n + 1, b"f" * filler_bytes)
                for n in range(first, min(first + at_once, count))
            )
        )


async def compacted(nodes: LocalNodes, group: str) -> None:
    async def is_compacted() -> bool:
        status = await nodes.status(await nodes.leader(group), group)
        return status is not None and status.first_index > 1

    await until(is_compacted, "the leader's log is compacted", timeout_s=5)


async def test_a_fourth_node_catches_up_from_the_log_and_replaces_one(nodes: LocalNodes) -> None:
    await nodes.start(*THREE, "n3")
    zone = await nodes.create("z", on=THREE, catch_up_bytes_per_second=1_000_000)
    group, client = zone.groups[0], nodes.client()
    await fill(client, zone, 3000, 1000)
    leader = await nodes.leader(group)
    target = [leader, next(n for n in THREE if n != leader), "n3"]
    begun_s = time.monotonic()
    await nodes.change(zone, target)
    fractions: list[float] = []
    while True:
        status = await nodes.status(leader, group)
        assert status is not None
        if status.caught_up or status.stage is not Stage.CATCHING_UP:
            break
        fractions += [progress.fraction for progress in status.progress]
        assert all(progress.by == "log" for progress in status.progress)
        await asyncio.sleep(0.05)
    lasted_s = time.monotonic() - begun_s
    assert lasted_s > 1.0, "the limit of 1 MB/s must stretch the catch-up of 2 MB"
    assert fractions == sorted(fractions)
    assert any(0.1 < fraction < 0.9 for fraction in fractions)
    await nodes.finish_change(zone, target)
    await client.write(group, "after", 1)
    headers = await nodes.until_equal(group, target)
    assert headers[0].keys == 3001
    events = [e.data for e in await nodes.events(leader) if e.kind == "rebalance.stage"]
    assert [data["stage"] for data in events] == [
        "CATCHING_UP",
        "CAUGHT_UP",
        "JOINT",
        "STABLE",
        "NONE",
    ]
    assert events[1]["progress"] == 1.0
    assert events[1]["adding"] == ["n3"]
    left = next(name for name in THREE if name not in target)
    assert await nodes.status(left, group) is None


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
    zone = await nodes.create("z", on=THREE, catch_up_bytes_per_second=1_000_000)
    group, client = zone.groups[0], nodes.client()
    for _ in range(3):
        await fill(client, zone, 8000, 300, at_once=400)
    await compacted(nodes, group)
    target = [*THREE, "n3"]
    leader = await nodes.change(zone, target)
    interrupted = False
    sent_bytes = 0
    while True:
        status = await nodes.status(leader, group)
        assert status is not None
        if status.caught_up:
            break
        (progress,) = status.progress
        sent_bytes = max(sent_bytes, progress.bytes_sent)
        if progress.fraction > 0.8 and not interrupted:
            assert progress.by == "snapshot"
            interrupted = True
            nodes.nodes["n3"].kill()
            await nodes.restart(zone, "n3")
        await asyncio.sleep(0.05)
    assert interrupted
    state_bytes = 8000 * 330
    assert sent_bytes < 1.6 * state_bytes, "what was staged was not sent again"
    await nodes.finish_change(zone, target, timeout_s=60)
    await client.write(group, "after", 1)
    await nodes.until_equal(group, target)


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
    await nodes.finish_change(zone, target, timeout_s=60)
    await client.write(group, "after", 1)
    headers = await nodes.until_equal(group, target)
    assert headers[0].keys == 3001
