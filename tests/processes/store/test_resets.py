"""A group without its majority goes on with one node, and takes the others in again.

n2 is down for a while, so that it lacks the newest writes; then the other two are killed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.processes.store.local_nodes import MOSTLY_TLS, LocalNodes, Zone, until
from tests.processes.store.recorded_load import RecordedLoad, terms_on_disk, verdicts
from zonequake_protocol.admin import (
    CancelChangePeers,
    ChangePeers,
    Grant,
    InspectReplica,
    OrderReply,
    OrderStatus,
    PeerName,
    ReplicaRole,
    ReplicaStatus,
    ResetPeers,
    Stage,
)
from zonequake_protocol.client import Append, Read, ReplyStatus, Write
from zonequake_protocol.terms import lineage_of
from zonequake_simulation.judge import judged

pytestmark = pytest.mark.processes

THREE = ["n0", "n1", "n2"]
SURVIVOR = "n2"


async def lose_the_majority(nodes: LocalNodes) -> Zone:
    """n2 alone is alive, and lacks the last writes of the list."""
    await nodes.start(*THREE)
    zone = await nodes.create("z", on=THREE)
    group, client = zone.groups[0], nodes.client()
    for value in range(1, 31):
        await client.append(group, "list", value)
    await nodes.until_equal(group, THREE)
    nodes.nodes[SURVIVOR].kill()
    for value in range(31, 61):
        await client.append(group, "list", value)
    await nodes.until_equal(group, ["n0", "n1"])
    for name in ("n0", "n1"):
        nodes.nodes[name].kill()
    await nodes.restart(zone, SURVIVOR)
    return zone


async def status_of(nodes: LocalNodes, name: str, group: str) -> ReplicaStatus:
    status = await nodes.status(name, group)
    assert status is not None
    return status


async def ask_for_reset(
    nodes: LocalNodes, group: str, token: int, survivor: str = SURVIVOR
) -> OrderReply:
    """One ResetPeers, as the operator sends it."""
    status = await status_of(nodes, survivor, group)
    peers = [PeerName(survivor, status.incarnation)]
    order = ResetPeers(group=group, term=status.term, token=token, peers=peers)
    return (await nodes.order(survivor, order))[0]


async def reset(nodes: LocalNodes, zone: Zone, survivor: str = SURVIVOR) -> int:
    """Reset the survivor, as often as it takes; returns the new lineage."""
    group = zone.groups[0]
    zone.token += 1
    zone.settings["enforced_token"] = zone.token

    async def is_reset() -> bool:
        reply = await ask_for_reset(nodes, group, zone.token, survivor)
        assert reply.status in (OrderStatus.RECEIVED, OrderStatus.BUSY), reply
        status = await status_of(nodes, survivor, group)
        return status.role is ReplicaRole.LEADER and status.lineage == zone.token

    await until(is_reset, f"{survivor} leads alone")
    return zone.token


async def neither_leads_nor_answers(nodes: LocalNodes, group: str, *names: str) -> None:
    """What a replica of an older lineage does, now that it was told."""
    client = nodes.client()
    for name in names:
        status = await status_of(nodes, name, group)
        assert (status.role, status.abstains, status.leader) == (ReplicaRole.FOLLOWER, True, None)
        refused = await client.once(name, Write(group, "k", 1))
        assert refused.status is ReplyStatus.NOT_LEADER
        assert (
            await client.once(name, Read(group, "list", bounded=True))
        ).status is ReplyStatus.STALE


async def test_a_reset_goes_on_with_one_node_and_takes_the_others_in_again(
    nodes: LocalNodes,
) -> None:
    zone = await lose_the_majority(nodes)
    group, client = zone.groups[0], nodes.client()
    lineage = await reset(nodes, zone)
    appended = await client.append(group, "list", 100)
    assert appended.position[0] == lineage
    expected = [*range(1, 31), 100]
    assert (await client.read(group, "list")).value == expected

    # What the dead nodes still have on disk, before they may take part.
    await nodes.start("n0", "n1")
    (found,) = await nodes.order("n0", InspectReplica(group=group))
    assert found.replica is not None
    assert (found.replica.role, found.replica.is_alive) == (ReplicaRole.WAITING, False)
    survivor = await status_of(nodes, SURVIVOR, group)
    link = (survivor.last_configuration_term, survivor.last_configuration_index)
    assert not found.replica.has_user_inputs(*link), "its newest writes are of the older lineage"
    assert survivor.has_user_inputs(*link)

    # They know of the reset by their start orders: two of three, and no majority of anything.
    await nodes.start_replicas(zone, "n0", "n1")
    await asyncio.sleep(3)
    await neither_leads_nor_answers(nodes, group, "n0", "n1")
    for name in ("n0", "n1"):
        assert (await status_of(nodes, name, group)).enforced_lineage == lineage

    # As they are, with what they applied in the older lineage, they are caught up and follow.
    await nodes.change(zone, THREE)
    await nodes.finish_change(zone, THREE)
    await client.append(group, "list", 101)
    headers = await nodes.until_equal(group, THREE)
    assert {header.lineage for header in headers} == {lineage}
    assert (await client.read(group, "list")).value == [*expected, 101]
    for name in THREE:
        assert not (await status_of(nodes, name, group)).abstains

    # And all of it is on disk.
    for name in THREE:
        nodes.nodes[name].kill()
    await nodes.restart(zone, *THREE)
    await nodes.leader(group)
    assert (await client.read(group, "list")).value == [*expected, 101]
    await nodes.until_equal(group, THREE)


async def test_a_repeated_reset_is_harmless_and_one_with_an_older_token_is_refused(
    nodes: LocalNodes,
) -> None:
    zone = await lose_the_majority(nodes)
    group, client = zone.groups[0], nodes.client()
    lineage = await reset(nodes, zone)
    await client.append(group, "list", 100)
    before = await status_of(nodes, SURVIVOR, group)
    assert (await ask_for_reset(nodes, group, lineage)).status is OrderStatus.RECEIVED
    for older in range(1, lineage):
        reply = await ask_for_reset(nodes, group, older)
        assert reply.status is OrderStatus.STALE
        assert reply.error == f"the order's token is {older}, the replica has seen {lineage}"
    after = await status_of(nodes, SURVIVOR, group)
    assert after == before, "no entry, no term, no election"
    nodes.nodes[SURVIVOR].kill()
    await nodes.restart(zone, SURVIVOR)
    await nodes.leader(group)
    assert (await ask_for_reset(nodes, group, lineage)).status is OrderStatus.RECEIVED
    assert (await ask_for_reset(nodes, group, lineage - 1)).status is OrderStatus.STALE
    assert (await client.read(group, "list")).value == [*range(1, 31), 100]


async def test_an_old_majority_that_was_not_told_ends_when_it_meets_the_survivor(
    nodes: LocalNodes,
) -> None:
    """n0 and n1 are started without permission while the survivor hangs: they lead, and can't know
    better. Nothing but their own messages to the survivor, and its answers, ends that."""
    zone = await lose_the_majority(nodes)
    group, client = zone.groups[0], nodes.client()
    lineage = await reset(nodes, zone)
    await client.append(group, "list", 100)
    del zone.settings["enforced_token"]
    nodes.nodes[SURVIVOR].pause()
    await nodes.restart(zone, "n0", "n1")
    old = await nodes.leader(group, among=["n0", "n1"])
    assert lineage_of((await status_of(nodes, old, group)).term) == 0

    async def is_acknowledged_apart() -> bool:
        """By who leads now; it may have stood still meanwhile."""
        apart = await client.once(
            await nodes.leader(group, among=["n0", "n1"]), Append(group, "list", 61)
        )
        assert apart.lineage == 0
        return apart.status is ReplyStatus.OK

    await until(is_acknowledged_apart, "the old majority acknowledges")
    nodes.nodes[SURVIVOR].resume()

    async def both_know() -> bool:
        found = [await status_of(nodes, name, group) for name in ("n0", "n1")]
        return all(each.abstains and each.enforced_lineage == lineage for each in found)

    await until(both_know, "the old majority abstains")
    await asyncio.sleep(3)
    await neither_leads_nor_answers(nodes, group, "n0", "n1")
    assert (await nodes.leader(group)) == SURVIVOR

    # One of them is taken in, and what it acknowledged apart is gone.
    await nodes.change(zone, ["n0", SURVIVOR])
    await nodes.finish_change(zone, ["n0", SURVIVOR])
    await client.append(group, "list", 101)
    await nodes.until_equal(group, ["n0", SURVIVOR])
    assert (await client.read(group, "list")).value == [*range(1, 31), 100, 101]


async def test_each_lineage_explains_what_its_clients_were_told(
    nodes: LocalNodes, tmp_path: Path
) -> None:
    """The load runs all the time: while the majority is lost, the survivor is reset, the old
    majority comes back, is taken in, and leads."""
    await nodes.start(*THREE)
    zone = await nodes.create("z", on=THREE)
    group = zone.groups[0]
    load = await RecordedLoad.begin(nodes, zone, processes=4)
    await load.goes_on(0, 50)
    nodes.nodes[SURVIVOR].kill()
    await load.goes_on(0, 50)
    for name in ("n0", "n1"):
        nodes.nodes[name].kill()
    await nodes.restart(zone, SURVIVOR)
    lineage = await reset(nodes, zone)
    await load.goes_on(lineage, 50)
    before = load.acknowledged(0)
    await nodes.restart(zone, "n0", "n1")
    await asyncio.sleep(3)
    assert load.acknowledged(0) == before, "the old majority is back and acknowledges nothing"
    await nodes.change(zone, THREE)
    await nodes.finish_change(zone, THREE)
    nodes.nodes[SURVIVOR].kill()
    await nodes.leader(group, among=["n0", "n1"])
    await load.goes_on(lineage, 50)
    await nodes.restart(zone, SURVIVOR)
    history = await load.end()
    await nodes.until_equal(group, THREE)
    for name in THREE:
        nodes.nodes[name].kill()
    terms = terms_on_disk(nodes.nodes[SURVIVOR], group)
    assert verdicts(history, {0: {}, lineage: terms}, tmp_path) == {}
    assert judged({"both": history}, tmp_path), "as one, it shows what the reset sacrificed"


@pytest.mark.parametrize("nodes", MOSTLY_TLS, indirect=True)
async def test_a_half_done_joint_change_ends_with_a_reset(nodes: LocalNodes) -> None:
    """The leader has written the joint configuration and can't commit it: its old half hangs."""
    await nodes.start("n0", "n1", "n2", "n3", "n4")
    zone = await nodes.create("z", on=THREE)
    group, client = zone.groups[0], nodes.client()
    for value in range(20):
        await client.append(group, "list", value)
    leader = await nodes.change(zone, ["n0", "n3", "n4"])
    caught_up = await status_of(nodes, leader, group)

    async def is_caught_up() -> bool:
        nonlocal caught_up
        caught_up = await status_of(nodes, leader, group)
        return caught_up.caught_up

    await until(is_caught_up, "the new nodes are caught up")
    others = [name for name in nodes.nodes if name != leader]
    assert caught_up.configuration is not None
    old_peers, term, token = caught_up.configuration.peers, caught_up.term, zone.token + 1
    for name in others:
        nodes.nodes[name].pause()
    # All in one request: a leader that is alone soon leads no more.
    granted, cancelled, replaced = await nodes.order(
        leader,
        Grant(group=group, term=term, token=zone.token, peers=caught_up.stage_peers),
        CancelChangePeers(group=group, term=term, token=token),
        ChangePeers(group=group, term=term, token=token, peers=old_peers),
    )
    assert granted.status is OrderStatus.RECEIVED
    assert (cancelled.status, replaced.status) == (OrderStatus.BUSY, OrderStatus.BUSY)
    joint = await status_of(nodes, leader, group)
    assert joint.configuration is not None
    assert joint.configuration.old_peers == old_peers
    for name in others:
        nodes.nodes[name].kill()

    lineage = await reset(nodes, zone, leader)
    alone = await status_of(nodes, leader, group)
    assert alone.configuration is not None
    assert [peer.node for peer in alone.configuration.peers] == [leader]
    assert (alone.configuration.old_peers, alone.stage) == ([], Stage.NONE)
    assert (await client.append(group, "list", 100)).position[0] == lineage

    # Both halves come back, and neither finishes the change nor undoes the reset.
    await nodes.restart(zone, *others)
    await asyncio.sleep(3)
    await neither_leads_nor_answers(nodes, group, *(n for n in others if n in THREE))
    after = await status_of(nodes, leader, group)
    assert after.configuration == alone.configuration
    zone.members = [leader]
    await nodes.change(zone, THREE)
    await nodes.finish_change(zone, THREE)
    assert (await client.read(group, "list")).value == [*range(20), 100]
    await nodes.until_equal(group, THREE)
