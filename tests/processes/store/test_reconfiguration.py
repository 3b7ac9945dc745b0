"""Changes of peers that are replaced, cancelled or given up; who leads; who may look only."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.processes.store.local_nodes import MOSTLY_TLS, LocalNodes, Zone, until
from tests.processes.store.stalls import again_after_a_stall, stood_still
from zonequake_protocol.admin import (
    CancelChangePeers,
    InspectReplica,
    OrderStatus,
    ReconfigurationStatus,
    ReplicaRole,
    ReplicaStatus,
    Stage,
    TransferLeadership,
)
from zonequake_protocol.client import Append, Read, ReplyStatus, Route, RouteReply
from zonequake_protocol.terms import number_of

pytestmark = pytest.mark.processes

THREE = ["n0", "n1", "n2"]
GIVEN_UP_S = 15.0
"""Longer than a hand-over is tried."""


async def status_of(nodes: LocalNodes, name: str, group: str) -> ReplicaStatus:
    status = await nodes.status(name, group)
    assert status is not None
    return status


async def fill(nodes: LocalNodes, zone: Zone, count: int) -> None:
    """About `count` KB."""
    client = nodes.client()
    for first in range(0, count, 50):
        writes = (
            client.write(zone.groups[0], f"k{n}", n, b"f" * 1000) for n in range(first, first + 50)
        )
        await asyncio.gather(*writes)


async def left_behind(nodes: LocalNodes, name: str, group: str) -> int:
    """The index of the last entry that a node has, once no more come: some were on their way."""
    last_index = -1

    async def is_steady() -> bool:
        nonlocal last_index
        before, last_index = last_index, (await status_of(nodes, name, group)).last_index
        return last_index == before

    await until(is_steady, f"{name} gets no more", every_s=1.0)
    return last_index


async def hand_over(nodes: LocalNodes, zone: Zone, to: str) -> None:
    """Order it, and again only if a node stood still, so that it was given up."""
    group, ordered_s = zone.groups[0], 0.0

    async def leads() -> bool:
        nonlocal ordered_s
        if (await status_of(nodes, to, group)).role is ReplicaRole.LEADER:
            return True
        if time.monotonic() > ordered_s + GIVEN_UP_S:
            assert ordered_s == 0 or await stood_still(nodes), "nothing came of it"
            ordered_s = time.monotonic()
            order = TransferLeadership(group=group, token=zone.token, to=to)
            (reply,) = await nodes.order(await nodes.leader(group), order)
            assert reply.status is OrderStatus.RECEIVED or await stood_still(nodes), reply
        return False

    await until(leads, f"{to} leads")


async def cancel(nodes: LocalNodes, zone: Zone, leader: str) -> OrderStatus:
    group = zone.groups[0]
    term = (await status_of(nodes, leader, group)).term
    order = CancelChangePeers(group=group, term=term, token=zone.token)
    return (await nodes.order(leader, order))[0].status


async def test_a_change_that_moves_data_is_replaced_then_cancelled_and_leaves_no_entry(
    nodes: LocalNodes,
) -> None:
    await nodes.start(*THREE, "n3", "n4")
    await again_after_a_stall(nodes, replaced_then_cancelled)


async def replaced_then_cancelled(nodes: LocalNodes, name: str) -> None:
    zone = await nodes.create(name, on=THREE, catch_up_bytes_per_second=200_000)
    group = zone.groups[0]
    await fill(nodes, zone, 3000)
    leader = await nodes.change(zone, [*THREE, "n3"])
    before = await status_of(nodes, leader, group)
    await nodes.change(zone, [*THREE, "n4"])
    replaced = await status_of(nodes, leader, group)
    assert (replaced.stage, replaced.stage_token) == (Stage.CATCHING_UP, zone.token)
    assert [each.peer.node for each in replaced.progress] == ["n4"]
    assert await left_behind(nodes, "n3", group) < before.last_index

    async def begins() -> bool:
        return (await status_of(nodes, "n4", group)).last_index > 0

    await until(begins, "n4 gets entries")

    assert await cancel(nodes, zone, leader) is OrderStatus.RECEIVED
    cancelled = await status_of(nodes, leader, group)
    assert (cancelled.stage, cancelled.progress) == (Stage.NONE, [])
    assert cancelled.reconfiguration_status is ReconfigurationStatus.CANCELLED
    assert cancelled.configuration == before.configuration
    assert cancelled.last_index == before.last_index, "no entry was written all the while"
    assert await cancel(nodes, zone, leader) is OrderStatus.RECEIVED, "nothing runs"
    events = [e for e in await nodes.events(leader) if e.zone == name]
    told = [e.data for e in events if e.kind == "rebalance.stage"]
    assert [(data["stage"], data["status"]) for data in told] == [
        ("CATCHING_UP", None),
        ("CATCHING_UP", None),
        ("NONE", "CANCELLED"),
    ]
    assert await left_behind(nodes, "n4", group) < before.last_index

    zone.settings["catch_up_bytes_per_second"] = 0
    await nodes.start_replicas(zone, leader)
    await nodes.change(zone, [*THREE, "n3"])
    await nodes.finish_change(zone, [*THREE, "n3"])
    await nodes.until_equal(group, [*THREE, "n3"])


async def test_a_peer_that_does_not_answer_ends_the_change_and_the_status_says_so(
    nodes: LocalNodes,
) -> None:
    await nodes.start(*THREE, "n3")
    zone = await nodes.create("z", on=THREE)
    group, client = zone.groups[0], nodes.client()
    await nodes.order("n3", nodes.start_order(zone, 0))
    joins = await nodes.peers(group, [*THREE, "n3"])
    nodes.nodes["n3"].pause()
    zone.token += 1
    ordered = error = ""

    async def is_given_up() -> bool:
        """By the leader that was told of it: a change ends with a leadership, and is told again."""
        nonlocal ordered, error
        assert (await client.append(group, "list", 1)).status is ReplyStatus.OK, (
            "it serves meanwhile"
        )
        leader = await nodes.leader(group, among=THREE)
        status = await status_of(nodes, leader, group)
        if (now := f"{leader} in term {status.term}") != ordered:
            is_taken = await nodes.takes_change(leader, status, token=zone.token, peers=joins)
            ordered = now if is_taken else ""
        elif (status.role, status.stage) == (ReplicaRole.LEADER, Stage.NONE):
            assert status.reconfiguration_status is ReconfigurationStatus.CATCH_UP_TIMEOUT
            error = status.reconfiguration_error or ""
        return bool(error)

    await until(is_given_up, "the change is given up", every_s=0.5)
    assert "n3" in error
    nodes.nodes["n3"].resume()
    await nodes.finish_change(zone, [*THREE, "n3"])
    await nodes.until_equal(group, [*THREE, "n3"])


async def test_a_newcomer_is_known_to_all_its_peers_and_not_only_to_the_leader(
    nodes: LocalNodes,
) -> None:
    """Else the next leader could not find it, where nodes have no names."""
    await nodes.start(*THREE)
    zone = await nodes.create("z", on=THREE)
    await nodes.start("n3")
    await nodes.order("n3", nodes.start_order(zone, 0))
    client = nodes.client()

    async def is_known() -> bool:
        answers = [(await client.once(name, Route(zone.name))).route for name in THREE]
        return all(isinstance(a, RouteReply) and "n3" in a.nodes for a in answers)

    await until(is_known, "each node knows the newcomer's address")


@pytest.mark.parametrize("nodes", MOSTLY_TLS, indirect=True)
async def test_leadership_goes_where_it_is_ordered_while_clients_write(nodes: LocalNodes) -> None:
    await nodes.start(*THREE)
    zone = await nodes.create("z", on=THREE)
    group, client = zone.groups[0], nodes.client()
    ending = False
    written = 0

    async def write_on() -> None:
        nonlocal written
        while not ending:
            written += 1
            await client.append(group, "list", written)

    writing = asyncio.create_task(write_on())
    for target in ("n1", "n2", "n0"):
        term = (await status_of(nodes, await nodes.leader(group), group)).term
        await hand_over(nodes, zone, target)
        after = (await status_of(nodes, target, group)).term
        assert number_of(after) <= number_of(term) + 1 or await stood_still(nodes), (
            "one election, won at once"
        )
        await asyncio.sleep(0.3)
    ending = True
    await writing
    stranger = TransferLeadership(group=group, token=zone.token, to="n9")
    (refused,) = await nodes.order("n0", stranger)
    assert (refused.status, refused.error) == (
        OrderStatus.FAILED,
        f"n9 is no member of {group}",
    )
    assert (await client.read(group, "list")).value == list(range(1, written + 1))


async def test_replicas_are_looked_at_without_taking_part(nodes: LocalNodes) -> None:
    """All nodes were stopped: what each has is asked for before any of them is started."""
    await nodes.start(*THREE)
    zone = await nodes.create("z", on=THREE)
    group, client = zone.groups[0], nodes.client()
    for value in range(20):
        await client.append(group, "list", value)
    await nodes.until_equal(group, THREE)
    ran = {name: await status_of(nodes, name, group) for name in THREE}
    assert all(status.is_alive for status in ran.values())
    nodes.nodes["n2"].kill()
    newest = await client.append(group, "list", 20)
    await nodes.until_equal(group, ["n0", "n1"])
    term = (await status_of(nodes, await nodes.leader(group), group)).term
    for name in ("n0", "n1"):
        nodes.nodes[name].kill()
    await nodes.start(*THREE)
    for looks_again in (False, True):
        if looks_again:
            await asyncio.sleep(2.5)  # longer than any election time-out
        for name in THREE:
            (reply,) = await nodes.order(name, InspectReplica(group=group))
            found = reply.replica
            assert found is not None
            assert (found.role, found.is_alive, found.leader) == (ReplicaRole.WAITING, False, None)
            last = ran[name].last_user_index if name == "n2" else newest.index
            assert (found.last_user_index, found.commit) == (last, found.applied)
            link = ran[name].last_configuration_term, ran[name].last_configuration_index
            assert found.has_user_inputs(*link)
            if name == "n2":
                assert not found.has_user_inputs(newest.term, newest.index)
                assert found.term == ran[name].term
            else:
                assert found.term == term
    await nodes.start_replicas(zone, *THREE)
    await nodes.leader(group)
    assert (await client.read(group, "list")).value == list(range(21))


async def test_a_restarted_volatile_replica_counts_only_after_it_was_taken_in_again(
    nodes: LocalNodes,
) -> None:
    await nodes.start(*THREE)
    zone = await nodes.create("z", on=THREE, volatile=True)
    group, client = zone.groups[0], nodes.client()
    await client.append(group, "list", 1)
    leader = await nodes.leader(group)
    lost, other = (name for name in THREE if name != leader)
    before = await status_of(nodes, lost, group)
    nodes.nodes[lost].kill()
    await nodes.start(lost)
    assert await nodes.status(lost, group) is None, "nothing of it was stored"
    await nodes.start_replicas(zone, lost)
    again = await status_of(nodes, lost, group)
    assert again.incarnation != before.incarnation
    assert (again.configuration, again.term, again.last_index) == (None, 0, 0)
    assert (await client.append(group, "list", 2)).status is ReplyStatus.OK, "two of three go on"

    # The leader hangs: the other one and the newcomer are no majority of anything.
    nodes.nodes[leader].pause()
    await asyncio.sleep(3)  # longer than any election time-out
    for name in (lost, other):
        assert (await status_of(nodes, name, group)).role is not ReplicaRole.LEADER
        refused = await client.once(name, Append(group, "list", 99))
        assert refused.status is ReplyStatus.NOT_LEADER
        assert (await client.once(name, Read(group, "list"))).status is ReplyStatus.NOT_LEADER
    assert (await status_of(nodes, lost, group)).last_index == 0
    nodes.nodes[leader].resume()
    assert (await client.append(group, "list", 3)).status is ReplyStatus.OK

    # Removed, and added again under its new incarnation.
    both = [name for name in THREE if name != lost]
    zone.members = both
    await nodes.change(zone, both)
    await nodes.finish_change(zone, both)
    await nodes.change(zone, THREE)
    await nodes.finish_change(zone, THREE)
    leader = await nodes.leader(group)
    silent = next(name for name in both if name != leader)
    nodes.nodes[silent].pause()
    assert (await client.append(group, "list", 4)).status is ReplyStatus.OK, "it counts"
    nodes.nodes[silent].resume()
    await nodes.until_equal(group, THREE)
    assert (await client.read(group, "list")).value == [1, 2, 3, 4]
