"""Three data nodes: operations, leader kill, restart, drain, orders that are refused."""

from __future__ import annotations

import asyncio
import contextlib

import aiohttp
import msgspec
import pytest

from tests.patience import PATIENCE_S
from tests.processes.store.local_nodes import BOTH, LocalNodes, key_of, until
from tests.processes.store.stalls import again_after_a_stall
from zonequake_protocol.admin import Bootstrap, OrderStatus, ReplicaRole, StartReplica, StopReplica
from zonequake_protocol.client import (
    MAX_TEXT_BYTES,
    Append,
    Read,
    ReplyStatus,
    Request,
    RequestId,
    Route,
    Write,
)

pytestmark = pytest.mark.processes

THREE = ["n0", "n1", "n2"]


@pytest.mark.parametrize("nodes", BOTH, indirect=True)
async def test_reads_see_what_writes_cas_and_appends_did(nodes: LocalNodes) -> None:
    await nodes.start(*THREE)
    zone = await nodes.create("z", on=THREE)
    group, client = zone.groups[0], nodes.client()
    written = await client.write(group, "register", 1, b"x" * 1000)
    assert (written.status, written.lineage) == (ReplyStatus.OK, 0)
    unequal = await client.cas(group, "register", 5, 6)
    assert (unequal.applied, unequal.value) == (False, 1)
    equal = await client.cas(group, "register", 1, 2)
    assert equal.applied is True
    assert equal.index > unequal.index > written.index
    for element in (10, 11, 12):
        await client.append(group, "list", element)
    read = await client.read(group, "register")
    assert (read.value, read.term) == (2, equal.term)
    assert read.index >= equal.index
    assert (await client.read(group, "list")).value == [10, 11, 12]
    assert (await client.read(group, "absent")).value is None
    assert (await client.append(group, "register", 1)).status is ReplyStatus.INVALID


async def test_a_node_refuses_what_is_not_for_it(nodes: LocalNodes) -> None:
    await nodes.start(*THREE)
    await again_after_a_stall(nodes, refuses_what_is_not_for_it)


async def refuses_what_is_not_for_it(nodes: LocalNodes, name: str) -> None:
    zone = await nodes.create(name, on=THREE, partitions=2)
    client = nodes.client()
    leader = await nodes.leader(zone.groups[0])
    follower = next(name for name in THREE if name != leader)
    right, wrong = key_of(0, 2, 0), key_of(1, 2, 0)
    refused = await client.once(leader, Write(zone.groups[0], wrong, 1))
    assert refused.status is ReplyStatus.WRONG_PARTITION
    assert (await client.once(leader, Write("no.group.0", right, 1))).status is ReplyStatus.NOT_HERE

    async def is_hinted() -> bool:
        """Until the follower has heard of its leader it knows none."""
        hint = await client.once(follower, Write(zone.groups[0], right, 1))
        assert hint.status is ReplyStatus.NOT_LEADER
        if hint.leader is None:
            return False
        assert hint.leader == leader
        assert hint.leader_address == f"127.0.0.1:{nodes.nodes[leader].client_port}"
        return True

    await until(is_hinted, f"{follower} names {leader}")
    assert (await client.once(leader, Write(zone.groups[0], right, 1))).status is ReplyStatus.OK
    too_long = key_of(0, 1, 0) + "k" * 500
    invalid = await client.at_leader(Write(zone.groups[0], too_long, 1))
    assert invalid.status in (ReplyStatus.INVALID, ReplyStatus.WRONG_PARTITION)
    long_name = RequestId("c" * 600, 1)
    unnamed = await client.once(leader, Write(zone.groups[0], right, 2, request_id=long_name))
    assert unnamed.status is ReplyStatus.INVALID
    too_large = await client.once(leader, Write(zone.groups[0], right, "x" * (MAX_TEXT_BYTES + 1)))
    assert too_large.status is ReplyStatus.INVALID
    route = (await client.once(follower, Route(name))).route
    assert route is not None
    assert route.partitions == 2
    assert [sorted(each.members) for each in route.routes] == [THREE, THREE]
    assert leader in route.nodes, "of another follower it may not have heard yet"


async def test_bounded_reads_are_answered_by_followers(nodes: LocalNodes) -> None:
    await nodes.start(*THREE)
    zone = await nodes.create("z", on=THREE)
    group, client = zone.groups[0], nodes.client()
    await client.write(group, "k", 7)

    async def all_have_it() -> bool:
        replies = [await client.once(name, Read(group, "k", bounded=True)) for name in THREE]
        return all(reply.value == 7 for reply in replies)

    await until(all_have_it, "every replica applied the write")


async def test_a_repeated_append_is_applied_once_across_a_leader_change(nodes: LocalNodes) -> None:
    await nodes.start(*THREE)
    zone = await nodes.create("z", on=THREE)
    group, client = zone.groups[0], nodes.client()
    request = Append(group, "list", 5, client.request_id())
    first = await client.at_leader(request)
    leader = await nodes.leader(group)
    nodes.nodes[leader].kill()
    again = await client.at_leader(request)
    assert (again.term, again.index) == (first.term, first.index)
    assert (await client.read(group, "list")).value == [5]


@pytest.mark.parametrize("nodes", BOTH, indirect=True)
async def test_writes_go_on_after_the_leader_was_killed_and_it_catches_up_again(
    nodes: LocalNodes,
) -> None:
    await nodes.start(*THREE)
    zone = await nodes.create("z", on=THREE)
    group, client = zone.groups[0], nodes.client()
    for value in range(1, 51):
        await client.append(group, "list", value)
    killed = await nodes.leader(group)
    nodes.nodes[killed].kill()
    for value in range(51, 101):
        await client.append(group, "list", value)
    assert (await client.read(group, "list")).value == list(range(1, 101))
    before = await nodes.leader(group)
    assert before != killed
    await nodes.restart(zone, killed)
    await nodes.until_equal(group, THREE)
    kinds = [event.kind for event in await nodes.events(killed)]
    assert kinds.count("node.started") == 2
    assert "leader.change" in kinds


@pytest.mark.parametrize("nodes", BOTH, indirect=True)
async def test_a_graceful_stop_moves_every_leadership_first(nodes: LocalNodes) -> None:
    await nodes.start(*THREE)
    zone = await nodes.create("z", on=THREE, partitions=8)
    client = nodes.client()
    drained = await nodes.leader(zone.groups[0])
    assert await nodes.drain(drained) == 200
    report = await nodes.report(drained)
    assert report.node.draining
    assert all(status.role is not ReplicaRole.LEADER for status in report.replicas)
    for partition, group in enumerate(zone.groups):
        reply = await client.write(group, key_of(partition, 8, 0), 1)
        assert reply.status is ReplyStatus.OK
        assert await nodes.leader(group) != drained
    nodes.nodes[drained].signal_stop()
    process = nodes.nodes[drained].process
    assert process is not None
    assert await asyncio.to_thread(process.wait, PATIENCE_S) == 0


async def test_orders_may_be_repeated_and_old_ones_are_refused(nodes: LocalNodes) -> None:
    await nodes.start("n0")
    zone = await nodes.create("z", on=["n0"])
    group = zone.groups[0]
    status = await nodes.status("n0", group)
    assert status is not None
    peers = await nodes.peers(group, ["n0"])
    zone.token = 5
    (again,) = await nodes.order("n0", nodes.start_order(zone, 0))
    assert (again.status, again.incarnation) == (OrderStatus.RECEIVED, status.incarnation)
    old, other, repeated, absent = await nodes.order(
        "n0",
        Bootstrap(group=group, token=1, peers=peers),
        StopReplica(group=group, token=5, incarnation="00"),
        Bootstrap(group=group, token=5, peers=peers),
        Bootstrap(group="z.other.0", token=5, peers=peers),
    )
    assert old.status is OrderStatus.STALE
    assert other.status is OrderStatus.STALE
    assert repeated.status is OrderStatus.RECEIVED
    assert absent.status is OrderStatus.NOT_HERE
    (erased,) = await nodes.order(
        "n0", StopReplica(group=group, token=5, incarnation=status.incarnation)
    )
    assert erased.status is OrderStatus.RECEIVED
    assert await nodes.status("n0", group) is None
    (again,) = await nodes.order("n0", nodes.start_order(zone, 0))
    assert again.incarnation != status.incarnation


async def test_a_replica_on_disk_waits_for_its_start_order(nodes: LocalNodes) -> None:
    await nodes.start("n0")
    zone = await nodes.create("z", on=["n0"])
    client = nodes.client()
    await client.write(zone.groups[0], "k", 1)
    before = await nodes.status("n0", zone.groups[0])
    nodes.nodes["n0"].kill()
    await nodes.start("n0")
    waiting = await nodes.status("n0", zone.groups[0])
    assert waiting is not None
    assert before is not None
    assert (waiting.role, waiting.incarnation) == (ReplicaRole.WAITING, before.incarnation)
    refused = await client.once("n0", Read(zone.groups[0], "k"))
    assert refused.status is ReplyStatus.NOT_HERE
    await nodes.start_replicas(zone, "n0")
    assert (await client.read(zone.groups[0], "k")).value == 1


async def test_a_volatile_replica_comes_back_as_another_one(nodes: LocalNodes) -> None:
    await nodes.start("n0")
    zone = await nodes.create("z", on=["n0"], volatile=True)
    client = nodes.client()
    await client.write(zone.groups[0], "k", 1)
    before = await nodes.status("n0", zone.groups[0])
    nodes.nodes["n0"].kill()
    await nodes.start("n0")
    assert await nodes.status("n0", zone.groups[0]) is None
    (reply,) = await nodes.order("n0", nodes.start_order(zone, 0))
    assert before is not None
    assert reply.incarnation != before.incarnation
    after = await nodes.status("n0", zone.groups[0])
    assert after is not None
    assert after.configuration is None


async def test_a_start_order_with_a_partition_beyond_the_zone_says_so(nodes: LocalNodes) -> None:
    await nodes.start("n0")
    order = StartReplica(group="z.0.4", zone="z", partition=4, partitions=4, token=1)
    (reply,) = await nodes.order("n0", order)
    assert reply.status is OrderStatus.FAILED
    assert reply.error is not None
    assert "expected 0 to 3" in reply.error


async def test_metrics_name_every_replica(nodes: LocalNodes) -> None:
    await nodes.start(*THREE)
    zone = await nodes.create("z", on=THREE, partitions=2)
    client = nodes.client()
    await client.write(zone.groups[0], key_of(0, 2, 0), 1)
    text = await nodes.metrics(await nodes.leader(zone.groups[0]))
    assert 'zonequake_store_term{partition="0",zone="z"}' in text
    assert 'zonequake_store_rebalance_stage{partition="0",zone="z"} 0.0' in text
    assert "zonequake_store_commit_seconds_bucket" in text


async def test_a_frame_that_is_no_text_ends_its_connection_and_nothing_else(
    nodes: LocalNodes,
) -> None:
    await nodes.start("n0")
    zone = await nodes.create("z", on=["n0"])
    frame = msgspec.msgpack.encode(Request(1, Read(zone.groups[0], "key"))).replace(
        b"key", b"\xff\xfe\xfd"
    )
    for port in (nodes.nodes["n0"].client_port, nodes.nodes["n0"].peer_port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(len(frame).to_bytes(4, "big") + frame)
        assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
        writer.close()
        await writer.wait_closed()
    assert (await nodes.client().write(zone.groups[0], "key", 1)).status is ReplyStatus.OK


@pytest.mark.parametrize("nodes", BOTH, indirect=True)
async def test_a_node_that_is_stopped_reports_all_of_its_replicas_as_long_as_it_reports(
    nodes: LocalNodes,
) -> None:
    """Else its operator takes those that it has closed already for lost, and moves their data."""
    await nodes.start(*THREE)
    zone = await nodes.create("z", on=THREE, partitions=16)
    client = nodes.client()
    for partition, group in enumerate(zone.groups):
        await client.write(group, key_of(partition, 16, 0), 1)  # which has to be flushed
    # While no node can take its groups over it doesn't end: until it has reported once.
    for name in ("n1", "n2"):
        nodes.nodes[name].pause()
    nodes.nodes["n0"].signal_stop()
    reported = []
    while nodes.nodes["n0"].is_alive:
        with contextlib.suppress(aiohttp.ClientError):
            reported.append(len((await nodes.report("n0")).replicas))
        for name in ("n1", "n2"):
            nodes.nodes[name].resume()
    assert reported
    assert set(reported) == {16}
