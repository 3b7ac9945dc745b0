"""Three real nodes under load, and files of one that say something else than what was written.

Each time: it is found, the node says what, whatever isn't touched goes on, the replica comes back
from its peers, and what the clients saw is explained.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import lmdb
import pytest

from tests.patience import PATIENCE_S
from tests.processes.store.disk_faults import between_commits, flip_bit, places
from tests.processes.store.load import Load
from tests.processes.store.local_nodes import LocalNodes, Zone, until
from zonequake_protocol.admin import OrderStatus, ReplicaRole, ReplicaStatus
from zonequake_protocol.client import Read, ReplyStatus, Write

pytestmark = pytest.mark.processes

THREE = ["n0", "n1", "n2"]
PAGE_BYTES = os.sysconf("SC_PAGESIZE")
"""Of LMDB's, too."""
MARK = b"a-filler-to-be-found-again-" * 4


async def two_zones(nodes: LocalNodes) -> tuple[Zone, Zone]:
    """The one whose replica is hit, and one that shares its nodes."""
    await nodes.start(*THREE)
    hit = await nodes.create("hit", on=THREE)
    return hit, await nodes.create("spared", on=THREE)


async def follower(nodes: LocalNodes, zone: Zone) -> str:
    leader = await nodes.leader(zone.groups[0])
    return next(name for name in THREE if name != leader)


async def status_of(nodes: LocalNodes, name: str, zone: Zone) -> ReplicaStatus:
    status = await nodes.status(name, zone.groups[0])
    assert status is not None
    return status


async def starts_broken(nodes: LocalNodes, name: str, zone: Zone, *words: str) -> None:
    """A start order finds the damage, and says it; so does the report, and the journal."""
    (reply,) = await nodes.order(name, nodes.start_order(zone, 0))
    assert reply.status is OrderStatus.FAILED, reply
    await is_broken(nodes, name, zone, *words)


async def is_broken(nodes: LocalNodes, name: str, zone: Zone, *words: str) -> None:
    status = await status_of(nodes, name, zone)
    assert status.role is ReplicaRole.BROKEN
    for word in words:
        assert word in (status.broken_reason or "")
    told = [event for event in await nodes.events(name) if event.kind == "replica.broken"]
    assert told[-1].data["reason"] == status.broken_reason


def log_file(nodes: LocalNodes, name: str) -> Path:
    return nodes.nodes[name].directory / "log" / "data.mdb"


async def marked(load: Load, group: str) -> None:
    """Write something that can be found in a file."""
    body = Write(group, "marked", 1, MARK, load.client.request_id())
    assert (await load.client.at_leader(body)).status is ReplyStatus.OK


async def has_stored(name: str, file: Path) -> None:
    """Wait until it is in this node's file: a majority without it may have acknowledged it."""

    async def is_stored() -> bool:
        with between_commits(file):
            return bool(places(file, MARK))

    await until(is_stored, f"{name} has stored the marked record")


def flip_a_bit(file: Path) -> None:
    """One bit in the middle of a record, wherever LMDB has put it."""
    found = places(file, MARK)
    assert found, "the marked record is in the file"
    for at in found:  # older pages hold copies that nothing uses any more
        flip_bit(file, at + len(MARK) // 2)


def tear_the_tail(file: Path) -> None:
    """Of the newest record only the first half was written."""
    with lmdb.open(str(file.parent), max_dbs=3, map_size=1 << 30) as environment:
        log = environment.open_db(b"log")
        with environment.begin(write=True, db=log) as txn, txn.cursor() as cursor:
            newest: dict[bytes, bytes] = {}
            for key, _ in cursor:
                newest[bytes(key[:8])] = bytes(key)
            key = next(iter(newest.values()))  # the lowest number: the zone that began first
            record = txn.get(key)
            assert record is not None
            txn.put(key, bytes(record)[: len(record) // 2])


@pytest.mark.parametrize(
    "damage", [flip_a_bit, pytest.param(tear_the_tail, marks=pytest.mark.long)]
)
async def test_a_damaged_record_breaks_its_replica_alone_until_it_comes_back_from_its_peers(
    nodes: LocalNodes, damage: Callable[[Path], None]
) -> None:
    hit, spared = await two_zones(nodes)
    async with Load(nodes, hit) as load, Load(nodes, spared) as other:
        await load.goes_on()
        await marked(load, hit.groups[0])
        await load.goes_on(50)
        name = await follower(nodes, hit)
        await has_stored(name, log_file(nodes, name))
        nodes.nodes[name].kill()
        damage(log_file(nodes, name))
        await nodes.start(name)
        await starts_broken(nodes, name, hit, "record of index")
        await nodes.start_replicas(spared, name)
        await load.goes_on()
        await other.goes_on()
        assert (await status_of(nodes, name, spared)).role is not ReplicaRole.BROKEN
        await nodes.begin_anew(hit, name)
        await load.goes_on()
    load.nothing_is_lost()
    other.nothing_is_lost()
    for zone in (hit, spared):
        await nodes.until_equal(zone.groups[0], THREE)


async def test_a_torn_tail_of_a_zone_without_fsync_is_cut_off_and_said(nodes: LocalNodes) -> None:
    await nodes.start("n0")
    zone = await nodes.create("z", on=["n0"], fsync=False)
    group, client = zone.groups[0], nodes.client()
    for element in range(20):
        await client.append(group, "list", element)
    nodes.nodes["n0"].kill()
    tear_the_tail(nodes.nodes["n0"].directory / "log-unsynced" / "data.mdb")
    await nodes.restart(zone, "n0")
    assert (await client.append(group, "list", 20)).status is ReplyStatus.OK
    found = (await client.read(group, "list")).value
    assert isinstance(found, list)
    assert found[-1] == 20
    assert found[:-1] == list(range(len(found) - 1)), "the end is missing, and nothing else"
    told = [str(event.data.get("reason")) for event in await nodes.events("n0")]
    assert any("record of index" in reason for reason in told)


async def test_a_bit_that_flips_in_a_state_that_is_served_breaks_the_leader_and_others_take_over(
    nodes: LocalNodes,
) -> None:
    hit, spared = await two_zones(nodes)
    group = hit.groups[0]
    async with Load(nodes, hit) as load, Load(nodes, spared) as other:
        await marked(load, group)
        await load.goes_on()
        leader = await nodes.leader(group)
        file = nodes.nodes[leader].directory / "data" / "data.mdb"

        async def is_flushed() -> bool:
            return bool(places(file, MARK))

        await until(is_flushed, "the cell is in the file")
        flip_a_bit(file)
        # Also if it leads no more, as after a stop of the whole machine.
        for bounded in (False, True):
            await load.client.once(leader, Read(group, "marked", bounded=bounded))
        await is_broken(nodes, leader, hit, "damaged under", "CRC")
        assert (await load.client.read(group, "marked")).value == 1, "from a sound copy"
        await load.goes_on()
        await other.goes_on()
        await nodes.begin_anew(hit, leader)
    load.nothing_is_lost()
    other.nothing_is_lost()
    await nodes.until_equal(group, THREE)


async def cut_while_it_is_dead(nodes: LocalNodes, name: str, file: Path) -> None:
    """Half of a file may be pages that nothing uses any more; the marked record is used."""
    await has_stored(name, file)
    nodes.nodes[name].kill()
    os.truncate(file, min(places(file, MARK)) // PAGE_BYTES * PAGE_BYTES)


async def cut_while_it_runs(nodes: LocalNodes, name: str, file: Path) -> None:
    """The kernel ends the process at the first page that it touches and that is no more.

    What LMDB needs next may lie anywhere, for it uses old pages again, and a commit under way makes
    the file longer again, with holes instead of pages. So only the two pages stay that say where
    the trees begin, which every commit follows, and the cut is made between commits.
    """
    with between_commits(file):
        os.truncate(file, 2 * PAGE_BYTES)
    node = nodes.nodes[name]

    async def is_dead() -> bool:
        return not node.is_alive

    await until(is_dead, f"{name} dies of a file cut short")
    assert node.process is not None
    assert node.process.returncode in (-signal.SIGBUS, -signal.SIGSEGV)
    assert "Fatal Python error" in (node.directory / "CRASHED").read_text()


CUTS = pytest.mark.parametrize(
    "cut", [pytest.param(cut_while_it_is_dead, marks=pytest.mark.long), cut_while_it_runs]
)
Cut = Callable[[LocalNodes, str, Path], Awaitable[None]]


@CUTS
async def test_a_log_that_was_cut_short_ends_the_start_with_what_to_do(
    nodes: LocalNodes, cut: Cut
) -> None:
    hit, spared = await two_zones(nodes)
    async with Load(nodes, hit) as load, Load(nodes, spared) as other:
        await load.goes_on(200)
        await marked(load, hit.groups[0])
        name = await follower(nodes, hit)
        lost = [(zone, (await status_of(nodes, name, zone)).incarnation) for zone in (hit, spared)]
        await cut(nodes, name, log_file(nodes, name))
        node = nodes.nodes[name]
        node.spawn()
        assert node.process is not None
        assert await asyncio.to_thread(node.process.wait, PATIENCE_S) == 1
        said = (nodes.directory / f"{name}.log").read_text()
        assert "cut short" in said
        assert "erase the data directory" in said
        await load.goes_on()
        await other.goes_on()
        shutil.rmtree(node.directory)
        await nodes.start(name)
        for zone, incarnation in lost:
            await nodes.come_back(zone, name, was=incarnation)
    load.nothing_is_lost()
    other.nothing_is_lost()
    for zone in (hit, spared):
        await nodes.until_equal(zone.groups[0], THREE)


@CUTS
async def test_a_state_that_was_cut_short_is_made_again_from_the_log(
    nodes: LocalNodes, cut: Cut
) -> None:
    hit, spared = await two_zones(nodes)
    async with Load(nodes, hit) as load, Load(nodes, spared) as other:
        await load.goes_on(200)
        await marked(load, hit.groups[0])
        name = await follower(nodes, hit)
        await cut(nodes, name, nodes.nodes[name].directory / "data" / "data.mdb")
        await nodes.restart(hit, name)
        await nodes.start_replicas(spared, name)
        started = [e.data for e in await nodes.events(name) if e.kind == "node.started"][-1]
        assert "data.damaged" in str(started["reason"])
        await load.goes_on()
        await other.goes_on()
    load.nothing_is_lost()
    other.nothing_is_lost()
    for zone in (hit, spared):
        await nodes.until_equal(zone.groups[0], THREE)
