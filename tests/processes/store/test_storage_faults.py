"""Three real nodes under load, and a disk of one that fails, fills up or is slow.

Each time: nothing acknowledged is lost, the node says what is wrong, the others go on, and it comes
back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.processes.store.disk_faults import FaultyDisk
from tests.processes.store.load import Load
from tests.processes.store.local_node import Node
from tests.processes.store.local_nodes import LocalNodes, Zone, until
from tests.processes.store.stalls import stood_still
from zonequake_protocol.admin import OrderStatus, ReplicaRole
from zonequake_protocol.client import Read, ReplyStatus, Write

pytestmark = pytest.mark.processes

THREE = ["n0", "n1", "n2"]
SMALL = 16 << 20
LARGE = 100_000


async def three(nodes: LocalNodes, library: Path, **environment: str) -> dict[str, FaultyDisk]:
    disks = {name: FaultyDisk(nodes.prepare(name, **environment), library) for name in THREE}
    await nodes.start(*THREE)
    return disks


async def problem(nodes: LocalNodes, name: str, kind: str) -> str:
    """Wait until a node reports such a problem of its storage; returns it."""
    found = ""

    async def is_reported() -> bool:
        nonlocal found
        found = (await nodes.report(name)).node.storage_problem or ""
        return found.startswith(kind)

    await until(is_reported, f"{name} reports that its storage is {kind}")
    return found


async def sound(nodes: LocalNodes, name: str) -> None:
    async def is_sound() -> bool:
        return (await nodes.report(name)).node.storage_problem is None

    await until(is_sound, f"{name} stores again")


async def stop(node: Node) -> int:
    """SIGTERM; returns the exit code."""
    assert node.process is not None
    node.signal_stop()
    return await asyncio.to_thread(node.process.wait, PATIENCE_S)


async def events(nodes: LocalNodes, name: str) -> list[str]:
    return [event.kind for event in await nodes.events(name)]


@pytest.mark.parametrize(
    ("begin", "environment", "said"),
    [
        (FaultyDisk.fail_syncs, "log", "Input/output error"),
        pytest.param(
            *(FaultyDisk.fail_syncs, "data", "Input/output error"), marks=pytest.mark.long
        ),
        (FaultyDisk.fail_metas, "log", "No space left on device"),
    ],
)
async def test_a_node_whose_commit_fails_stops_acknowledging_and_is_not_trusted_again(
    nodes: LocalNodes,
    disk_faults: Path,
    begin: Callable[[FaultyDisk, str], None],
    environment: str,
    said: str,
) -> None:
    disks = await three(nodes, disk_faults)
    zone = await nodes.create("z", on=THREE)
    group = zone.groups[0]
    async with Load(nodes, zone) as load:
        await load.goes_on()
        faulty = await nodes.leader(group)
        begin(disks[faulty], environment)
        reason = await problem(nodes, faulty, "failed")
        assert said in reason
        status = await nodes.status(faulty, group)
        assert status is not None
        assert (status.role, status.broken_reason) == (
            ReplicaRole.BROKEN,
            reason.removeprefix("failed: "),
        )
        code, text = await nodes.health(faulty)
        assert code == 503
        assert "the storage has failed" in text
        assert {"storage.failed", "replica.broken"} <= set(await events(nodes, faulty))
        assert "zonequake_store_storage_failed 1.0" in await nodes.metrics(faulty)
        await load.goes_on()
        # The disk is sound again; what it was told meanwhile is still not known.
        disks[faulty].behave()
        (refused,) = await nodes.order(faulty, nodes.start_order(zone, 0))
        assert refused.status is OrderStatus.FAILED
        assert await stop(nodes.nodes[faulty]) == 1
        await nodes.start(faulty)
        assert (await nodes.health(faulty))[0] == 200
        status = await nodes.status(faulty, group)
        assert status is not None
        assert status.role is ReplicaRole.BROKEN
        assert "not to be trusted" in (status.broken_reason or "")
        await load.goes_on()
        await nodes.begin_anew(zone, faulty)
        await load.goes_on()
    load.nothing_is_lost()
    assert await stop(nodes.nodes[faulty]) == 0
    await nodes.restart(zone, faulty)
    await nodes.until_equal(group, THREE)


async def test_a_volatile_zone_goes_on_where_the_disk_has_failed(
    nodes: LocalNodes, disk_faults: Path
) -> None:
    disks = await three(nodes, disk_faults)
    durable = await nodes.create("durable", on=THREE)
    volatile = await nodes.create("volatile", on=THREE, volatile=True)
    async with Load(nodes, durable) as one, Load(nodes, volatile) as other:
        await one.goes_on(50)
        disks["n0"].fail_syncs("log")
        await problem(nodes, "n0", "failed")
        await other.goes_on(200)
        status = await nodes.status("n0", volatile.groups[0])
        assert status is not None
        assert status.role is not ReplicaRole.BROKEN
    await nodes.until_equal(volatile.groups[0], THREE)


async def test_a_full_disk_is_waited_for_and_said_while_the_others_go_on(
    nodes: LocalNodes, disk_faults: Path
) -> None:
    disks = await three(nodes, disk_faults)
    zone = await nodes.create("z", on=THREE)
    group = zone.groups[0]
    async with Load(nodes, zone) as load:
        await load.goes_on()
        faulty = await nodes.leader(group)
        disks[faulty].take_all()
        reason = await problem(nodes, faulty, "full")
        assert "the disk of" in reason
        assert "free space on it" in reason
        await load.goes_on(300)
        # What is there is readable, and only that.
        reply = await load.client.once(faulty, Read(group, "l0", bounded=True))
        assert reply.status is ReplyStatus.OK
        assert isinstance(reply.value, list)
        assert (await nodes.health(faulty))[0] == 200
        created = await nodes.order(
            faulty, nodes.start_order(Zone("y", 1, ["y.00000000.0"], 1, [], {}), 0)
        )
        assert created[0].status is OrderStatus.FAILED
        assert "is full" in (created[0].error or "")
        assert "zonequake_store_storage_full 1.0" in await nodes.metrics(faulty)
        process = nodes.nodes[faulty].process
        disks[faulty].behave()
        await sound(nodes, faulty)
        await load.goes_on()
    load.nothing_is_lost()
    await nodes.until_equal(group, THREE)
    assert nodes.nodes[faulty].process is process, "it never ended"
    assert nodes.nodes[faulty].is_alive
    kinds = await events(nodes, faulty)
    assert kinds.index("storage.full") < kinds.index("storage.recovered")


async def test_a_node_that_starts_and_stops_on_a_full_disk_says_so_and_loses_nothing(
    nodes: LocalNodes, disk_faults: Path
) -> None:
    disks = await three(nodes, disk_faults)
    zone = await nodes.create("z", on=THREE)
    async with Load(nodes, zone) as load:
        await load.goes_on()
        for name in THREE:
            disks[name].fill()
        full: set[str] = set()

        async def is_reported() -> bool:
            for name in THREE:
                problem = (await nodes.report(name)).node.storage_problem
                if problem is not None and problem.startswith("full"):
                    full.add(name)
            return len(full) >= 2

        # Without a majority nothing is written that the third one would find no room for.
        await until(is_reported, "two of three report that they are full")
        stopped = full.pop()
        assert await stop(nodes.nodes[stopped]) == 0
        await nodes.start(stopped)
        reply = (await nodes.order(stopped, nodes.start_order(zone, 0)))[0]
        assert reply.status in (OrderStatus.FAILED, OrderStatus.RECEIVED), reply
        for name in THREE:
            disks[name].behave()
        await sound(nodes, stopped)
        await nodes.start_replicas(zone, stopped)
        await load.goes_on(200)
    load.nothing_is_lost()
    await nodes.until_equal(zone.groups[0], THREE)


async def write_large(
    load: Load,
    first: int,
    last: int,
    group: str | None = None,
    *,
    deadline_s: float = PATIENCE_S,
    attempt_s: float = 10.0,
) -> int:
    """Write large cells; returns how many were acknowledged. What waits behind a busy disk isn't
    sent again soon: it would wait even longer then."""
    client, taken = load.client, 0

    async def write(number: int) -> None:
        nonlocal taken
        body = Write(group or load.group, f"large-{number}", number, bytes(LARGE))
        with contextlib.suppress(TimeoutError):
            await client.at_leader(body, deadline_s=deadline_s, attempt_s=attempt_s)
            taken += 1

    for begin in range(first, last, 16):
        await asyncio.gather(*(write(number) for number in range(begin, min(begin + 16, last))))
    return taken


async def test_a_full_map_of_the_state_is_said_and_a_larger_one_ends_it(
    nodes: LocalNodes, disk_faults: Path
) -> None:
    nodes.prepare("n0", ZQ_DATA_MAP_BYTES=str(SMALL))
    await three(nodes, disk_faults)
    zone = await nodes.create("z", on=THREE)
    group = zone.groups[0]
    async with Load(nodes, zone) as load:
        await load.goes_on()
        # n0 alone has so little room; as a follower it cannot choose what it gets.
        assert await write_large(load, 0, 240) == 240
        reason = await problem(nodes, "n0", "full")
        assert "ZQ_DATA_MAP_BYTES" in reason
        await load.goes_on()

        async def leads_no_more() -> bool:
            return await nodes.leader(group) != "n0"

        await until(leads_no_more, "who has no room does not lead")
        node = nodes.nodes["n0"]
        assert await stop(node) == 0
        node.environment["ZQ_DATA_MAP_BYTES"] = str(8 * SMALL)
        await nodes.restart(zone, "n0")
        await load.goes_on()
    load.nothing_is_lost()
    await nodes.until_equal(group, THREE)
    assert (await nodes.report("n0")).node.storage_problem is None


@pytest.mark.long
async def test_a_full_map_of_the_log_is_said_and_a_larger_one_ends_it(
    nodes: LocalNodes, disk_faults: Path
) -> None:
    nodes.prepare("n0", ZQ_LOG_MAP_BYTES=str(SMALL))
    await three(nodes, disk_faults)
    zones = [await nodes.create(f"z{number}", on=THREE) for number in range(18)]
    async with Load(nodes, zones[0]) as load:
        await load.goes_on()
        written = 0

        async def was_full() -> bool:
            """Each log keeps a little for those who lag behind: together more than n0 has room for.
            One that is cut just then makes room again."""
            nonlocal written
            for zone in zones:
                await write_large(load, written, written + 32, zone.groups[0])
            written += 32
            told = [e.data["reason"] for e in await nodes.events("n0") if e.kind == "storage.full"]
            assert all("ZQ_LOG_MAP_BYTES" in str(reason) for reason in told)
            return bool(told)

        await until(was_full, "n0 tells that its logs are full")
        await load.goes_on()
        node = nodes.nodes["n0"]
        assert await stop(node) == 0
        node.environment["ZQ_LOG_MAP_BYTES"] = str(8 * SMALL)
        await nodes.start("n0")
        for zone in zones:
            await nodes.start_replicas(zone, "n0")
        await load.goes_on()
    load.nothing_is_lost()
    for zone in zones:
        await nodes.until_equal(zone.groups[0], THREE)


@pytest.mark.long
async def test_when_the_maps_of_all_nodes_run_short_writes_are_refused_and_reads_go_on(
    nodes: LocalNodes, disk_faults: Path
) -> None:
    await three(nodes, disk_faults, ZQ_DATA_MAP_BYTES=str(SMALL))
    zone = await nodes.create("z", on=THREE)
    group = zone.groups[0]
    load = Load(nodes, zone)
    # A node without room refuses until then.
    write_shortly = partial(write_large, load, deadline_s=2.0, attempt_s=2.0)
    written, taken = 300, await write_shortly(0, 300)

    async def are_short() -> bool:
        """Who has room left is given the leadership, and takes more."""
        nonlocal written, taken
        problems = [(await nodes.report(name)).node.storage_problem or "" for name in THREE]
        if all(each.startswith(("short", "full")) for each in problems):
            assert all("ZQ_DATA_MAP_BYTES" in each for each in problems)
            return True
        taken += await write_shortly(written, written + 16)
        written += 16
        return False

    await until(are_short, "every node says that it has no room")
    leader, error = "", ""

    async def is_refused() -> bool:
        """By the present leader: leaders hand over to each other."""
        nonlocal leader, error
        leader = await nodes.leader(group)
        reply = await load.client.once(leader, Write(group, "more", 1))
        assert reply.status is not ReplyStatus.OK
        error = reply.error or ""
        return reply.status is ReplyStatus.OVERLOADED

    await until(is_refused, "a write is refused for want of room")
    assert "ZQ_DATA_MAP_BYTES" in error
    assert (await load.client.read(group, "large-0")).value == 0
    assert {"storage.short", "storage.full"} & set(await events(nodes, leader))
    for name in THREE:
        node = nodes.nodes[name]
        await stop(node)
        node.environment["ZQ_DATA_MAP_BYTES"] = str(8 * SMALL)
    await nodes.restart(zone, *THREE)
    assert (await load.client.write(group, "more", 1)).status is ReplyStatus.OK
    present = [number for number in range(written) if await has(load, f"large-{number}")]
    assert len(present) >= taken
    await nodes.until_equal(group, THREE)


async def has(load: Load, key: str) -> bool:
    return (await load.client.read(load.group, key)).value is not None


async def test_a_log_map_much_smaller_than_what_is_written_makes_room_by_itself(
    nodes: LocalNodes,
) -> None:
    for name in THREE:
        nodes.prepare(name, ZQ_LOG_MAP_BYTES=str(3 * SMALL))
    await nodes.start(*THREE)
    zone = await nodes.create("z", on=THREE)
    load = Load(nodes, zone)
    # It forgets what is stored as state before it would for a map that is large enough.
    assert await write_large(load, 0, 1000) == 1000, "two maps full of entries"
    for name in THREE:
        await sound(nodes, name)
    await nodes.until_equal(zone.groups[0], THREE)


async def slow_commits(nodes: LocalNodes, name: str) -> tuple[float, float]:
    """How many commits of the log took 0.5 to 2 s, by the node's metrics, and how many longer."""
    metrics = (await nodes.metrics(name)).splitlines()
    slow = [line for line in metrics if 'seconds_bucket{environment="log"' in line]
    below = {line.split('le="')[1].split('"')[0]: float(line.split()[-1]) for line in slow}
    return below["2.0"] - below["0.5"], below["+Inf"] - below["2.0"]


async def keeps_its_leadership(nodes: LocalNodes, disk: FaultyDisk, name: str, group: str) -> bool:
    """Whether it does while its disk is slow for longer than any election time-out."""
    before = await nodes.status(name, group)
    slow, too_slow = await slow_commits(nodes, name)
    disk.slow_syncs("log", 700)

    async def was_slow() -> bool:
        return (await slow_commits(nodes, name))[0] >= slow + 6

    await until(was_slow, "six commits are slow")
    after = await nodes.status(name, group)
    disk.behave()
    assert before is not None
    assert after is not None
    if (after.role, after.term) == (ReplicaRole.LEADER, before.term):
        return True
    # An overloaded machine may have let a node or the disk stand still.
    assert await stood_still(nodes) or (await slow_commits(nodes, name))[1] > too_slow
    return False


async def test_a_slow_disk_costs_no_leadership_and_shows_in_the_metrics(
    nodes: LocalNodes, disk_faults: Path
) -> None:
    disks = await three(nodes, disk_faults)
    zone = await nodes.create("z", on=THREE)
    group = zone.groups[0]
    async with Load(nodes, zone, attempt_s=5) as load:
        for _ in range(3):
            await load.goes_on()
            leader = await nodes.leader(group)
            if await keeps_its_leadership(nodes, disks[leader], leader, group):
                break
        else:
            pytest.fail("the leadership was lost three times")
        assert "zonequake_store_commit_under_way_seconds" in await nodes.metrics(leader)
        disks[leader].slow_syncs("log", 700)
        await load.goes_on(10)
        disks[leader].behave()
        await load.goes_on()
    load.nothing_is_lost()
    await nodes.until_equal(group, THREE)


async def test_a_disk_that_hangs_costs_the_leadership(nodes: LocalNodes, disk_faults: Path) -> None:
    disks = await three(nodes, disk_faults)
    zone = await nodes.create("z", on=THREE)
    group = zone.groups[0]
    async with Load(nodes, zone) as load:
        await load.goes_on()
        leader = await nodes.leader(group)
        disks[leader].slow_syncs("log", 60_000)
        await load.goes_on()
        others = [name for name in THREE if name != leader]
        assert await nodes.leader(group, among=others) in others
        disks[leader].behave()
    load.nothing_is_lost()
    await nodes.until_equal(group, THREE)
