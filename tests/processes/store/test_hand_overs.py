"""Every hand-over of a leadership succeeds, in the next term.

Also right after another node was killed, or came back: links to it back off then, and it may still
count as the one that lacks nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.processes.store.local_nodes import LocalNodes, Zone, until
from tests.processes.store.stalls import stood_still
from zonequake_protocol.admin import OrderStatus, TransferLeadership

pytestmark = pytest.mark.processes

NAMES = ("n0", "n1", "n2")
ROUNDS = 20
FEW_ROUNDS = 4
"""Of five hand-overs each."""


class HandOvers:
    """Hands one group's leadership over, again and again, and counts."""

    def __init__(self, nodes: LocalNodes, zone: Zone) -> None:
        self._nodes = nodes
        self._zone = zone
        self._group = zone.groups[0]
        self.done: Counter[str] = Counter()
        self.longest_s: dict[str, float] = {}
        """By the kind of hand-over; on an idle machine all are below an election time-out, 1 s."""
        self.failed: list[str] = []

    async def leader(self) -> str:
        return await self._nodes.leader(self._group)

    async def follower(self) -> str:
        leader = await self.leader()
        return next(name for name in NAMES[self.done.total() % 2 :] if name != leader)

    async def by_order(self, kind: str, to: str | None = None) -> None:
        """Order the leader to hand over."""
        leader, term, begun_s = "", 0, time.monotonic()
        order = TransferLeadership(group=self._group, token=self._zone.token, to=to)

        async def received() -> bool:
            nonlocal leader, term, begun_s
            leader = await self.leader()
            term = await self._term(leader)
            begun_s = time.monotonic()
            (reply,) = await self._nodes.order(leader, order)
            if reply.status is OrderStatus.RECEIVED:
                return True
            # It has not heard the successor's new process yet: nothing has begun.
            is_alone = "nobody to hand" in (reply.error or "")
            assert is_alone or await stood_still(self._nodes), reply
            return False

        await until(received, f"the leader hands over ({kind})")
        await self._judge(kind, leader, term, begun_s)

    async def by_restart(self) -> None:
        """Restart the leader, as a rolling restart does."""
        leader = await self.leader()
        term = await self._term(leader)
        begun_s = time.monotonic()
        node = self._nodes.nodes[leader]
        node.signal_stop()
        await self._judge("restart of the leader", leader, term, begun_s)
        assert node.process is not None
        await asyncio.to_thread(node.process.wait)
        await self._nodes.restart(self._zone, leader)

    async def kill(self, name: str) -> None:
        await asyncio.to_thread(self._nodes.nodes[name].kill)

    async def come_back(self, name: str) -> None:
        """Start a killed node, and wait no longer than until it follows."""
        await self._nodes.restart(self._zone, name)

        async def follows() -> bool:
            status = await self._nodes.status(name, self._group)
            return status is not None and status.leader is not None

        await until(follows, f"{name} follows")

    async def _term(self, name: str) -> int:
        status = await self._nodes.status(name, self._group)
        assert status is not None
        return status.term

    async def _judge(self, kind: str, before: str, term: int, begun_s: float) -> None:
        others = [name for name in NAMES if name != before and self._nodes.nodes[name].is_alive]
        self.done[kind] += 1
        try:
            after = await self._nodes.leader(self._group, among=others)
        except AssertionError:
            if not await stood_still(self._nodes):
                self.failed.append(f"{kind}: {before} leads on")
            return
        took_s = time.monotonic() - begun_s
        found = await self._term(after)
        self.longest_s[kind] = max(took_s, self.longest_s.get(kind, 0.0))
        if found != term + 1 and not await stood_still(self._nodes):
            self.failed.append(f"{kind}: {before} to {after}, {term} to {found}, {took_s:.2f} s")


@pytest.mark.parametrize("rounds", [FEW_ROUNDS, pytest.param(ROUNDS, marks=pytest.mark.long)])
async def test_all_hand_overs_in_a_row_succeed(tmp_path: Path, rounds: int) -> None:
    async with LocalNodes(tmp_path) as nodes:
        await nodes.start(*NAMES)
        zone = await nodes.create("z", on=list(NAMES))
        writing = asyncio.create_task(write_for_ever(nodes, zone))
        overs = HandOvers(nodes, zone)
        for _ in range(rounds):
            await overs.by_order("in peace")
            gone = await overs.follower()
            await overs.kill(gone)
            await overs.by_order("right after a follower was killed")
            await overs.come_back(gone)
            await overs.by_order("to a node that was killed and is back", to=gone)
            await overs.by_order("from a node that was killed and is back")
            await overs.by_restart()
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
    print(dict(overs.done), overs.longest_s)
    assert overs.done.total() == 5 * rounds
    assert not overs.failed, f"{len(overs.failed)} of {overs.done.total()}: {overs.failed}"


async def write_for_ever(nodes: LocalNodes, zone: Zone) -> None:
    """A leader has something to hand on."""
    client = nodes.client()
    number = 0
    while True:
        number += 1
        await client.write(zone.groups[0], f"key-{number % 20}", number)
        await asyncio.sleep(0.005)
