"""Reads at followers that say how old their answer may be."""

from __future__ import annotations

import asyncio

import pytest

from tests.processes.store.local_nodes import LocalNodes, Zone, until
from tests.processes.store.store_client import Client
from zonequake_protocol.client import Read, ReplyStatus

pytestmark = pytest.mark.processes

THREE = ["n0", "n1", "n2"]
BOUND_MS = 2000


async def a_fresh_follower(nodes: LocalNodes) -> tuple[Zone, Client, str]:
    """A follower that answers within the bound, of a group whose key "k" is 1."""
    await nodes.start(*THREE)
    zone = await nodes.create("z", on=THREE)
    group, client = zone.groups[0], nodes.client()
    await client.write(group, "k", 1)
    leader = await nodes.leader(group)
    follower = next(name for name in THREE if name != leader)

    async def is_fresh() -> bool:
        reply = await client.once(follower, bounded(group))
        return reply.status is ReplyStatus.OK and reply.value == 1

    await until(is_fresh, "a follower knows how fresh it is")
    return zone, client, follower


def bounded(group: str) -> Read:
    return Read(group, "k", bounded=True, max_staleness_ms=BOUND_MS)


async def test_a_follower_answers_within_its_bound_and_not_beyond(nodes: LocalNodes) -> None:
    zone, client, follower = await a_fresh_follower(nodes)
    group = zone.groups[0]
    written = await client.write(group, "k", 2)
    for name in THREE:
        if name != follower:
            nodes.nodes[name].kill()
    await asyncio.sleep(BOUND_MS / 1000 + 0.5)
    assert (await client.once(follower, bounded(group))).status is ReplyStatus.STALE
    anyhow = await client.once(follower, Read(group, "k", bounded=True))
    assert anyhow.status is ReplyStatus.OK
    assert anyhow.index <= written.index


async def test_a_follower_that_was_paused_does_not_believe_that_no_time_has_passed(
    nodes: LocalNodes,
) -> None:
    """Its process stands still, then no leader is there to tell it anything."""
    zone, client, follower = await a_fresh_follower(nodes)
    group = zone.groups[0]
    nodes.nodes[follower].pause()
    await client.write(group, "k", 2)
    for name in THREE:
        if name != follower:
            nodes.nodes[name].kill()
    await asyncio.sleep(BOUND_MS / 1000 + 0.5)
    nodes.nodes[follower].resume()
    reply = await client.once(follower, bounded(group))
    assert reply.status is ReplyStatus.STALE or reply.value == 2
