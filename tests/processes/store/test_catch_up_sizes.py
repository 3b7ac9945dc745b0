"""What a node says that another copy would take is what it then sends, and counts."""

from __future__ import annotations

from functools import partial

import pytest

from tests.processes.store.local_nodes import LocalNodes
from tests.processes.store.stalls import again_after_a_stall
from tests.processes.store.test_catch_up import THREE, compacted, fill

pytestmark = pytest.mark.processes


async def counted_bytes(nodes: LocalNodes, node: str) -> float:
    name = "zonequake_store_catch_up_bytes_total "
    (line,) = [line for line in (await nodes.metrics(node)).splitlines() if line.startswith(name)]
    return float(line.removeprefix(name))


@pytest.mark.parametrize("by", ["log", "snapshot"])
async def test_a_copy_takes_the_bytes_that_were_promised(nodes: LocalNodes, by: str) -> None:
    await nodes.start(*THREE, "n3")
    await again_after_a_stall(nodes, partial(takes_what_was_promised, by=by))


async def takes_what_was_promised(nodes: LocalNodes, name: str, *, by: str) -> None:
    zone = await nodes.create(name, on=THREE)
    group, client = zone.groups[0], nodes.client()
    if by == "log":
        await fill(client, zone, 2000, 1000)
    else:
        for _ in range(3):
            await fill(client, zone, 8000, 300, at_once=400)
        await compacted(nodes, group)
    leader = await nodes.leader(group)
    promised = await nodes.size(leader, group)
    assert (promised.log_bytes is not None) == (by == "log")
    assert promised.copy_bytes > 2_000_000
    before = await counted_bytes(nodes, leader)
    await nodes.change(zone, [*THREE, "n3"])
    await nodes.finish_change(zone, [*THREE, "n3"])
    sent = await counted_bytes(nodes, leader) - before
    assert 0.9 * promised.copy_bytes < sent < 1.3 * promised.copy_bytes
    # The count stays when its replica goes, since a counter never falls.
    others = [name for name in (*THREE, "n3") if name != leader]
    await nodes.change(zone, others)
    await nodes.finish_change(zone, others)
    assert await nodes.status(leader, group) is None
    assert await counted_bytes(nodes, leader) >= before + sent
