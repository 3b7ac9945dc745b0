"""Planted faults do what they are named for, and only with both variables set."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.processes.store.local_nodes import LocalNodes, until
from zonequake_agent import wall_clock
from zonequake_protocol.admin import Stage
from zonequake_protocol.client import Append, Read, ReplyStatus, Write
from zonequake_store.node.app import _PLANTED_YOUTH_S

pytestmark = pytest.mark.processes

THREE = ["n0", "n1", "n2"]


def planted(fault: str) -> dict[str, str]:
    return {"ZQ_PLANTED_FAULT": fault, "ZQ_ALLOW_PLANTED_FAULTS": "yes-for-a-test"}


def test_a_fault_without_the_second_variable_stops_the_start(tmp_path: object) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "ZQ_NODE": "n0",
        "ZQ_DATA_DIR": str(tmp_path),
        "ZQ_PLANTED_FAULT": "local-reads",
    }
    ended = subprocess.run(
        [sys.executable, "-m", "zonequake_store"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 254
    assert "ZQ_ALLOW_PLANTED_FAULTS" in ended.stderr


async def test_acknowledge_before_commit_loses_writes_with_the_leader(nodes: LocalNodes) -> None:
    await nodes.start(*THREE, **planted("ack-before-commit"))
    zone = await nodes.create("z", on=THREE)
    group, client = zone.groups[0], nodes.client()
    leader = ""

    async def has_acknowledged() -> bool:
        """Without a follower that learns of it; a leader that was alone for too long refuses."""
        nonlocal leader
        leader = await nodes.leader(group)
        others = [name for name in THREE if name != leader]
        for name in others:
            nodes.nodes[name].kill()
        reply = await client.once(leader, Append(group, "list", 5))
        if reply.status is ReplyStatus.OK:
            nodes.nodes[leader].kill()
        await nodes.restart(zone, *others)
        return reply.status is ReplyStatus.OK

    await until(has_acknowledged, "a leader acknowledges what no other node has")
    assert not (await client.read(group, "list")).value, "what was acknowledged has gone with it"


async def test_local_reads_are_answered_by_a_follower_that_lags(nodes: LocalNodes) -> None:
    await nodes.start(*THREE, **planted("local-reads"))
    zone = await nodes.create("z", on=THREE)
    group, client = zone.groups[0], nodes.client()
    await client.write(group, "k", 1)
    leader = await nodes.leader(group)
    follower = next(name for name in THREE if name != leader)
    reply = await client.once(follower, Read(group, "k"))
    assert reply.status is ReplyStatus.OK


async def test_dropping_the_log_tail_loses_writes_when_all_are_killed(nodes: LocalNodes) -> None:
    await nodes.start(*THREE, **planted("drop-log-tail"))
    zone = await nodes.create("z", on=THREE)
    group, client = zone.groups[0], nodes.client()
    for element in range(1, 101):
        assert (await client.append(group, "list", element)).status is ReplyStatus.OK
    await asyncio.sleep(1.5)
    for name in THREE:
        nodes.nodes[name].kill()
    await nodes.restart(zone, *THREE)
    found = (await client.read(group, "list")).value
    assert isinstance(found, list)
    assert 0 < len(found) < 100
    assert found == list(range(1, len(found) + 1))


async def test_forgetting_request_ids_applies_a_retry_twice(nodes: LocalNodes) -> None:
    await nodes.start("n0", **planted("forget-request-id"))
    zone = await nodes.create("z", on=["n0"])
    group, client = zone.groups[0], nodes.client()
    request = Append(group, "list", 5, client.request_id())
    for _ in range(2):  # not by `at_leader`, which sends again what is answered late
        assert (await client.once("n0", request)).status is ReplyStatus.OK
    assert (await client.read(group, "list")).value == [5, 5]


@pytest.mark.parametrize("fault", ["order-by-wall-clock", ""])
@pytest.mark.parametrize("step_s", [3600, -86_400])
async def test_ordering_by_the_wall_clock_loses_writes_when_it_steps(
    nodes: LocalNodes, fault: str, step_s: int
) -> None:
    """Forward: what is written after the clock is right again. Back: what is written meanwhile."""
    await nodes.start("n0", **(planted(fault) if fault else {}))
    zone = await nodes.create("z", on=["n0"])
    group, client = zone.groups[0], nodes.client()
    process = nodes.nodes["n0"].process
    assert process is not None
    for element, off_s in enumerate((0, step_s, 0), 1):
        wall_clock.step(process.pid, off_s)
        assert (await client.append(group, "list", element)).status is ReplyStatus.OK
    lost = {3600: [1, 2], -86_400: [1, 3]}[step_s] if fault else [1, 2, 3]
    assert (await client.read(group, "list")).value == lost


async def test_joint_comes_before_the_new_node_has_caught_up(nodes: LocalNodes) -> None:
    await nodes.start(*THREE, "n3", **planted("joint-before-caught-up"))
    zone = await nodes.create("z", on=THREE, catch_up_bytes_per_second=200_000)
    group, client = zone.groups[0], nodes.client()
    for n in range(300):
        await client.at_leader(Write(group, f"k{n}", n, b"f" * 1000))
    leader = await nodes.change(zone, [*THREE, "n3"])
    stages: list[object] = []

    async def is_joint() -> bool:
        told = [each.data for each in await nodes.events(leader) if each.kind == "rebalance.stage"]
        stages[:] = [data["stage"] for data in told]
        return Stage.JOINT.value in stages

    await until(is_joint, "the configuration is joint")
    assert "CAUGHT_UP" not in stages[: stages.index(Stage.JOINT.value)]


async def test_late_answers_are_late_while_the_process_is_young(nodes: LocalNodes) -> None:
    names = map("n{}".format, itertools.count())
    sound_s = await quickest_of_a_young_process(nodes, names)
    late_s = await quickest_of_a_young_process(nodes, names, **planted("late-answers"))
    # The node's uvloop counts in milliseconds: a timer of 0.25 s may fire one early.
    assert late_s > 0.248 > sound_s


async def quickest_of_a_young_process(
    nodes: LocalNodes, names: Iterator[str], **fault: str
) -> float:
    """The shortest of some answers, in seconds; on a busy machine more than one process may have
    grown old before they were all there."""
    while True:
        name, started_s = next(names), time.monotonic()
        await nodes.start(name, **fault)
        zone = await nodes.create(f"z-{name}", on=[name])
        group, client = zone.groups[0], nodes.client()
        await client.write(group, "k", 1)
        took_s = []
        for _ in range(4):
            begun_s = time.monotonic()
            assert (await client.once(name, Read(group, "k"))).value == 1
            took_s.append(time.monotonic() - begun_s)
        if time.monotonic() - started_s < _PLANTED_YOUTH_S:
            return min(took_s)


@pytest.mark.parametrize("fault", ["", "late-hand-over"])
async def test_a_late_hand_over_leaves_its_group_without_a_leader_who_answers(
    nodes: LocalNodes, fault: str
) -> None:
    await nodes.start(*THREE, **(planted(fault) if fault else {}))
    zone = await nodes.create("z", on=THREE)
    group, client = zone.groups[0], nodes.client()
    await client.write(group, "k", 1)

    async def longest_s() -> float:
        """How long a write took at most while the leader was stopped."""
        leader = await nodes.leader(group)
        node = nodes.nodes[leader]
        node.signal_stop()
        found_s, end_s = 0.0, time.monotonic() + 4
        while time.monotonic() < end_s:
            begun_s = time.monotonic()
            assert (await client.write(group, "k", 2)).status is ReplyStatus.OK
            found_s = max(found_s, time.monotonic() - begun_s)
        assert await nodes.leader(group, among=[n for n in THREE if n != leader]) != leader
        assert node.process is not None
        await asyncio.to_thread(node.process.wait)
        await nodes.restart(zone, leader)
        return found_s

    if fault:
        assert await longest_s() >= 1.2
        return

    async def is_quick() -> bool:
        """Each hand-over is, unless the machine stands still meanwhile."""
        return await longest_s() < 1.2

    await until(is_quick, "a sound node hands over sooner")
