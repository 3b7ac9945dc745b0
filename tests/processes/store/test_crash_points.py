"""A node without peers dies at chosen commits of its LMDB files: nothing acknowledged is lost.

Alone, for then nothing can be healed by another replica.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
from pathlib import Path

import aiohttp
import pytest

from tests.processes.store.disk_faults import FaultyDisk
from tests.processes.store.local_nodes import LocalNodes, Zone, until
from tests.processes.store.store_client import Client
from zonequake_protocol.admin import ReplicaRole
from zonequake_protocol.client import Append, ReplyStatus

pytestmark = pytest.mark.processes

CRASHING = (str(Path(__file__).with_name("crashing_node.py")),)
WRITERS = 8

# Commits from the start on: of the log first what a start writes, then term and vote, then appends;
# of the data what flushes write.
MOMENTS = [
    *itertools.product(["log"], ["before", "during", "after"], [1, 2, 3, 5, 30, 301]),
    *itertools.product(["data"], ["before", "during", "after"], [1, 2]),
]
FEW = [
    *itertools.product(["log"], ["before", "during", "after"], [1, 30]),
    ("data", "during", 1),
    ("data", "after", 1),
]
"""Two for each of the nodes that run beside each other."""


class Alone:
    """One node, one zone with one partition, and what was acknowledged so far."""

    def __init__(self, nodes: LocalNodes, name: str) -> None:
        self._nodes = nodes
        self.name = name
        self.acknowledged: set[int] = set()
        self._tried = itertools.count(1)
        self.zone: Zone
        self.client: Client

    async def create(self) -> None:
        await self._nodes.start(self.name)
        self.zone = await self._nodes.create(f"z-{self.name}", on=[self.name])
        self.client = self._nodes.client(f"client-{self.name}")
        self._nodes.nodes[self.name].kill()

    async def crash(self, moment: tuple[str, str, int]) -> None:
        """Start the node so that it dies at `moment`, and write until it does."""
        node = self._nodes.nodes[self.name]
        node.program, node.environment["ZQ_CRASH"] = CRASHING, ":".join(map(str, moment))
        node.spawn()
        writers = [asyncio.create_task(self._write()) for _ in range(WRITERS)]

        async def is_dead() -> bool:
            with contextlib.suppress(aiohttp.ClientError, AssertionError):
                await self._nodes.start_replicas(self.zone, self.name)
            return not node.is_alive

        await until(is_dead, f"{self.name} dies at {moment}", every_s=0.2)
        for writer in writers:
            writer.cancel()
        await asyncio.gather(*writers, return_exceptions=True)
        assert node.process is not None
        assert node.process.returncode == -signal.SIGKILL, f"it died by itself at {moment}"

    async def crash_at_a_failed_sync(self, disk: FaultyDisk, moment: tuple[str, str, int]) -> None:
        """Write until no sync succeeds any more, and the node dies at `moment` over it."""
        node = self._nodes.nodes[self.name]
        node.program, node.environment["ZQ_CRASH"] = CRASHING, ":".join(map(str, moment))
        await self._nodes.restart(self.zone, self.name)
        writers = [asyncio.create_task(self._write()) for _ in range(WRITERS)]

        async def is_served() -> bool:
            return len(self.acknowledged) > 20

        await until(is_served, f"{self.name} serves")
        disk.fail_syncs("log")
        await self._dies(moment)
        for writer in writers:
            writer.cancel()
        await asyncio.gather(*writers, return_exceptions=True)
        disk.behave()

    async def crash_at_a_start(self, moment: tuple[str, str, int]) -> None:
        """Start the node, and let it die at `moment` before it is ready."""
        node = self._nodes.nodes[self.name]
        node.program, node.environment["ZQ_CRASH"] = CRASHING, ":".join(map(str, moment))
        node.spawn()
        await self._dies(moment)

    async def _dies(self, moment: tuple[str, str, int]) -> None:
        node = self._nodes.nodes[self.name]

        async def is_dead() -> bool:
            return not node.is_alive

        await until(is_dead, f"{self.name} dies at {moment}")
        assert node.process is not None
        assert node.process.returncode == -signal.SIGKILL, f"it died by itself at {moment}"

    async def is_distrusted(self) -> bool:
        """Start the node as it is shipped, see whether it trusts what it has, and kill it."""
        node = self._nodes.nodes[self.name]
        node.program = ("-m", "zonequake_store")
        await self._nodes.start(self.name)
        status = await self._nodes.status(self.name, self.zone.groups[0])
        assert status is not None
        node.kill()
        if status.role is not ReplicaRole.BROKEN:
            return False
        assert "not to be trusted" in (status.broken_reason or "")
        return True

    @property
    def mark(self) -> Path:
        return self._nodes.nodes[self.name].directory / "DISTRUSTED"

    async def lost(self) -> set[int]:
        """Start the node as it is shipped, read, kill it; returns what is missing."""
        node = self._nodes.nodes[self.name]
        node.program = ("-m", "zonequake_store")
        await self._nodes.restart(self.zone, self.name)
        reply = await self.client.read(self.zone.groups[0], "list")
        found = reply.value or []
        assert isinstance(found, list)
        assert len(found) == len(set(found)), "an element is there twice"
        node.kill()
        return self.acknowledged - {int(element) for element in found}

    async def _write(self) -> None:
        while True:
            element = next(self._tried)
            body = Append(self.zone.groups[0], "list", element, self.client.request_id())
            with contextlib.suppress(OSError, TimeoutError):
                reply = await self.client.once(self.name, body, timeout_s=1.0)
                if reply.status is ReplyStatus.OK:
                    self.acknowledged.add(element)
                    continue
            await asyncio.sleep(0.02)


async def lives_through(alone: Alone, moments: list[tuple[str, str, int]]) -> None:
    await alone.create()
    for moment in moments:
        await alone.crash(moment)
        lost = await alone.lost()
        assert not lost, f"killed at {moment}: lost {sorted(lost)}"


@pytest.mark.parametrize("moments", [FEW, pytest.param(MOMENTS, marks=pytest.mark.long)])
async def test_nothing_acknowledged_is_lost_at_any_commit(
    nodes: LocalNodes, moments: list[tuple[str, str, int]]
) -> None:
    everyone = [Alone(nodes, f"n{number}") for number in range(4)]
    async with asyncio.TaskGroup() as group:
        for number, alone in enumerate(everyone):
            group.create_task(lives_through(alone, moments[number :: len(everyone)]))
    acknowledged = sum(len(alone.acknowledged) for alone in everyone)
    assert acknowledged > 20 * len(moments), "the load must do something"


@pytest.mark.parametrize(
    ("moment", "is_written"),
    [
        (("file", "before", 1), False),
        (("file", "after", 1), False),
        (("file", "before", 2), True),
        (("file", "after", 2), True),
    ],
)
async def test_nothing_acknowledged_is_lost_by_a_kill_while_a_failed_sync_is_written_down(
    nodes: LocalNodes, disk_faults: Path, moment: tuple[str, str, int], is_written: bool
) -> None:
    alone = Alone(nodes, "n0")
    disk = FaultyDisk(nodes.prepare("n0"), disk_faults)
    await alone.create()
    await alone.crash_at_a_failed_sync(disk, moment)
    assert await alone.is_distrusted() is is_written
    if is_written:
        alone.mark.unlink()  # as is said of a replica that is the only copy
    assert not await alone.lost()


@pytest.mark.long
async def test_a_start_that_writes_a_distrusted_log_anew_may_be_killed_anywhere(
    nodes: LocalNodes, disk_faults: Path
) -> None:
    alone = Alone(nodes, "n0")
    disk = FaultyDisk(nodes.prepare("n0"), disk_faults)
    await alone.create()
    await alone.crash_at_a_failed_sync(disk, ("file", "after", 2))
    marked = alone.mark.read_bytes()
    # The copy, the folder that names it, the mark that says so, and the mark's folder.
    for when, sync in itertools.product(["before", "after"], [1, 2, 3, 4]):
        alone.mark.write_bytes(marked)
        await alone.crash_at_a_start(("file", when, sync))
        assert await alone.is_distrusted(), f"killed {when} sync {sync} of the start"
    alone.mark.unlink()
    assert not await alone.lost()


async def test_an_acknowledgement_before_the_commit_is_found_so(nodes: LocalNodes) -> None:
    """The check can fail: with the planted fault what was acknowledged is not yet on disk."""
    alone = Alone(nodes, "n0")
    await alone.create()
    nodes.nodes["n0"].environment |= {
        "ZQ_PLANTED_FAULT": "ack-before-commit",
        "ZQ_ALLOW_PLANTED_FAULTS": "yes-for-a-test",
    }
    for commit in range(30, 40):  # the answers may not have left the process when it dies
        await alone.crash(("log", "before", commit))
        if await alone.lost():
            return
    pytest.fail("nothing that was acknowledged was lost")
