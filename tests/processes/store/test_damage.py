"""Damaged and volatile replicas: what a node says of them, and how they come back."""

from __future__ import annotations

from pathlib import Path

import lmdb
import pytest

from tests.processes.store.local_nodes import LocalNodes
from tests.processes.store.test_catch_up import compacted, fill
from zonequake_protocol.admin import OrderStatus, ReplicaRole, StopReplica
from zonequake_protocol.client import ReplyStatus

pytestmark = pytest.mark.processes

THREE = ["n0", "n1", "n2"]


def damage_first_record(path: Path) -> None:
    environment = lmdb.open(str(path), max_dbs=3, map_size=1 << 30)
    database = environment.open_db(b"log")
    with environment.begin(write=True, db=database) as txn, txn.cursor() as cursor:
        assert cursor.first()
        value = bytearray(cursor.value())
        value[-1] ^= 0xFF
        cursor.put(bytes(cursor.key()), bytes(value))
    environment.close()


async def test_a_replica_with_a_rotten_log_is_broken_until_it_is_erased_and_the_rest_goes_on(
    nodes: LocalNodes,
) -> None:
    await nodes.start(*THREE)
    zone = await nodes.create("z", on=THREE)
    group, client = zone.groups[0], nodes.client()
    for element in range(20):
        await client.append(group, "list", element)
    leader = await nodes.leader(group)
    rotten = next(name for name in THREE if name != leader)
    nodes.nodes[rotten].kill()
    damage_first_record(nodes.nodes[rotten].directory / "log")
    await nodes.start(rotten)
    (reply,) = await nodes.order(rotten, nodes.start_order(zone, 0))
    assert reply.status is OrderStatus.FAILED
    status = await nodes.status(rotten, group)
    assert status is not None
    assert status.role is ReplicaRole.BROKEN
    assert status.broken_reason is not None
    assert "CRC" in status.broken_reason
    assert "replica.broken" in [event.kind for event in await nodes.events(rotten)]
    assert (await client.append(group, "list", 20)).status is ReplyStatus.OK
    (erased,) = await nodes.order(
        rotten, StopReplica(group=group, token=zone.token, incarnation=status.incarnation)
    )
    assert erased.status is OrderStatus.RECEIVED
    (again,) = await nodes.order(rotten, nodes.start_order(zone, 0))
    assert again.status is OrderStatus.RECEIVED
    assert again.incarnation != status.incarnation
    # Another incarnation is another peer: it comes in by a change of the configuration.
    await nodes.change(zone, THREE)
    await nodes.finish_change(zone, THREE)
    await nodes.until_equal(group, THREE)


async def test_a_zone_without_fsync_survives_the_kill_of_all_processes(nodes: LocalNodes) -> None:
    await nodes.start(*THREE)
    zone = await nodes.create("z", on=THREE, fsync=False)
    group, client = zone.groups[0], nodes.client()
    for element in range(100):
        await client.append(group, "list", element)
    for name in THREE:
        nodes.nodes[name].kill()
    await nodes.restart(zone, *THREE)
    assert (await client.read(group, "list")).value == list(range(100))


async def test_a_volatile_zone_brings_a_new_node_up_by_snapshot(nodes: LocalNodes) -> None:
    await nodes.start(*THREE, "n3")
    zone = await nodes.create("z", on=THREE, volatile=True)
    group, client = zone.groups[0], nodes.client()
    for _ in range(3):
        await fill(client, zone, 8000, 20, at_once=400)
    await compacted(nodes, group)
    await nodes.change(zone, [*THREE, "n3"])
    await nodes.finish_change(zone, [*THREE, "n3"])
    await client.write(group, "after", 1)
    headers = await nodes.until_equal(group, [*THREE, "n3"])
    assert headers[0].keys == 8001


async def test_a_node_whose_unsynced_logs_are_damaged_starts_without_them_and_says_so(
    nodes: LocalNodes,
) -> None:
    await nodes.start("n0")
    synced = await nodes.create("synced", on=["n0"])
    unsynced = await nodes.create("unsynced", on=["n0"], fsync=False)
    client = nodes.client()
    for zone in (synced, unsynced):
        await client.append(zone.groups[0], "list", 1)
    nodes.nodes["n0"].kill()
    path = nodes.nodes["n0"].directory / "log-unsynced" / "data.mdb"
    path.write_bytes(b"rotten" * 1000)
    await nodes.restart(synced, "n0")
    assert (await client.read(synced.groups[0], "list")).value == [1]
    assert await nodes.status("n0", unsynced.groups[0]) is None
    last = [e.data for e in await nodes.events("n0") if e.kind == "node.started"][-1]
    assert "log-unsynced" in str(last["reason"])
    assert "log-unsynced" in (nodes.directory / "n0.log").read_text()
