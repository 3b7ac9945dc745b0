"""What wishes that flip back and forth cost: bytes moved ÷ bytes that had to move.

    python -m benchmarks.operator.bench_flips

Five real data nodes on loopback, and the operator's planner in this process with the semantics of
its writes (one after the other, planned again after each) but no API server. A partition on n0, n1
and n2 has to get a copy on n3, and nothing else. While the data moves, the wish flips: the data
nodes between n3, n4 and n2, or the replicas between three and four. What had to move is measured:
the same wish once, and left alone.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.store import figures
from benchmarks.store.bench_catch_up import fill
from benchmarks.store.figures import Limit, Result, Row
from tests.processes.store.local_nodes import LocalNodes, Zone
from zonequake_operator.controller.pacing import Pacer
from zonequake_operator.planning.plan import (
    CreatePartition,
    WritePartition,
    WriteZone,
    ZonePlan,
    plan,
)
from zonequake_operator.resources import model
from zonequake_operator.resources.model import (
    ChangePeersMode,
    ZoneSnapshot,
    ZoneSpec,
    ZoneStatus,
    group_name,
)
from zonequake_protocol.admin import Order, ReplicasReport

NODES = [f"n{n}" for n in range(5)]
UID = "00000000-0000"
WRITES = 4000
"""Of 3 kB each."""
CATCH_UP_BYTES_PER_S = 4_000_000
FLIP_S = 1.0
"""A move takes about three times as long."""
ROUND_S = 0.1
LIMIT_S = 90.0
MOST = 2.5
"""At most so much more than had to: a wish that has gone may cost what it got until then."""
SENT = re.compile(rb"^zonequake_store_catch_up_bytes_total (\S+)$", re.MULTILINE)
SEQUENCES: tuple[tuple[str, ...], ...] = (
    ("n3",),
    ("n4", "n3"),
    ("n3", "n4", "n3"),
    ("n3", "n2", "n3"),
    ("n3", "n4", "n2", "n4", "n3"),
    ("n2+n3", "n2", "n2+n3"),
    ("n2+n3", "n2", "n2+n4", "n2", "n2+n3"),
)
"""Who holds a copy beside n0 and n1, wish after wish; two of them are four replicas."""


class Operator:
    """The planner around nodes that it asks and orders itself."""

    def __init__(self, nodes: LocalNodes, name: str, mode: ChangePeersMode) -> None:
        self._nodes = nodes
        self._pacer = Pacer()
        spec = ZoneSpec(
            partitions=1,
            change_peers=mode,
            catch_up_bytes_per_second=CATCH_UP_BYTES_PER_S,
        )
        self.zone = model.Zone(
            name=name,
            namespace="bench",
            uid=UID,
            generation=1,
            resource_version="1",
            spec=spec,
            status=ZoneStatus(),
        )
        self.partitions: dict[int, model.Partition] = {}
        self.key_writes = 0
        self.wish("n2")

    def wish(self, others: str) -> None:
        """The partition belongs on n0, n1 and these nodes."""
        assert isinstance(self.zone.spec, ZoneSpec)
        nodes = on(others)
        self.zone = replace(
            self.zone,
            generation=self.zone.generation + 1,
            spec=replace(
                self.zone.spec,
                replicas=len(nodes),
                filter=" || ".join(f'"{node}"' for node in nodes),
            ),
        )

    async def until_settled(self) -> None:
        """Go on until nothing is left to do, erasures included."""
        await self._until(lambda decided: decided.settled)

    async def until_moved(self, others: str) -> None:
        """Go on until the partition is where it belongs, and its leader runs no change."""
        await self._until(
            lambda decided: (
                self.partitions[0].keys.stable == model.AssignmentSet.of(*on(others))
                and not any(one.is_moving for one in decided.health.values())
            )
        )

    async def _until(self, is_done: Callable[[ZonePlan], bool]) -> None:
        begun_s = time.monotonic()
        while not is_done(await self.round()):
            if time.monotonic() - begun_s > LIMIT_S:
                raise SystemExit(f"it didn't settle within {LIMIT_S} s: {self.partitions}")
            await asyncio.sleep(ROUND_S)

    async def round(self) -> ZonePlan:
        """Hear all nodes once, write, order; returns the last plan."""
        found = await asyncio.gather(*(self._nodes.report(name) for name in NODES))
        reports = dict(zip(NODES, found, strict=True))
        decided = self._plan(reports)
        while decided.writes:
            self._write(decided)
            decided = self._plan(reports)
        sends = decided.orders
        orders: dict[str, list[Order]] = {}
        for send in self._pacer.due(sends, time.monotonic()):
            orders.setdefault(send.node, []).append(send.order)
        await asyncio.gather(*(self._nodes.order(node, *told) for node, told in orders.items()))
        return decided

    def _plan(self, reports: dict[str, ReplicasReport]) -> ZonePlan:
        topology = {
            name: model.TopologyNode(
                name=name,
                process_incarnation=report.node.process_incarnation,
                storage_incarnation=report.node.storage_incarnation,
                pod_uid="",
                restarts=0,
                attributes={},
                peer_address=self._nodes.nodes[name].peer_address,
                since=1,
            )
            for name, report in reports.items()
        }
        return plan(
            ZoneSnapshot(
                now_ms=time.time_ns() // 1_000_000,
                zone=self.zone,
                partitions=self.partitions,
                topology=model.Topology(version=1, nodes=topology),
                reports=reports,
            )
        )

    def _write(self, decided: ZonePlan) -> None:
        for action in decided.writes:
            if isinstance(action, WriteZone):
                self.zone = replace(
                    self.zone,
                    status=action.status,
                    conditions=action.conditions,
                    summary=action.summary,
                )
            elif isinstance(action, CreatePartition):
                self.partitions[action.number] = model.Partition(
                    number=action.number, resource_version="1"
                )
            elif isinstance(action, WritePartition):
                before = self.partitions[action.number]
                self.key_writes += before.keys != action.keys
                self.partitions[action.number] = replace(before, keys=action.keys, view=action.view)


def on(others: str) -> tuple[str, ...]:
    """All nodes that a wish names."""
    return ("n0", "n1", *others.split("+"))


async def sent_bytes(nodes: LocalNodes) -> float:
    """What all leaders have sent to catching-up peers since the nodes' start."""
    total = 0.0
    for node in nodes.nodes.values():
        async with nodes.session.get(f"{node.admin_url}/metrics") as response:
            found = SENT.search(await response.read())
        assert found is not None
        total += float(found[1])
    return total


async def flip(nodes: LocalNodes, name: str, mode: ChangePeersMode, wishes: Sequence[str]) -> Row:
    """A zone on n0, n1, n2, filled; then the wishes, one after the other."""
    operator = Operator(nodes, name, mode)
    await operator.until_settled()
    await fill(nodes, Zone(name, 1, [group_name(name, UID, 0)], 1, NODES[:3], {}), WRITES)
    await asyncio.sleep(2.0)  # flushed and compacted
    before_bytes, before_writes = await sent_bytes(nodes), operator.key_writes
    begun_s = time.monotonic()
    for number, others in enumerate(wishes):
        operator.wish(others)
        until_s = begun_s + FLIP_S * (number + 1)
        while number < len(wishes) - 1 and time.monotonic() < until_s:
            await operator.round()
            await asyncio.sleep(ROUND_S)
    await operator.until_moved(wishes[-1])
    took_s = time.monotonic() - begun_s
    await operator.until_settled()
    return {
        "changePeers": str(mode),
        "wishes": ", ".join(wishes),
        "MB moved": (await sent_bytes(nodes) - before_bytes) / 1e6,
        "moved after s": took_s,
        "writes of keys": operator.key_writes - before_writes,
    }


async def measure(folder: Path) -> Result:
    """Every sequence in every mode."""
    rows = []
    async with LocalNodes(folder) as nodes:
        await nodes.start(*NODES)
        for mode in ChangePeersMode:
            for number, wishes in enumerate(SEQUENCES):
                rows.append(await flip(nodes, f"{mode}{number}".lower(), mode, wishes))
    had_to = {row["changePeers"]: row["MB moved"] for row in rows if row["wishes"] == "n3"}
    for row in rows:
        row["÷ had to move"] = row["MB moved"] / had_to[row["changePeers"]]
    worst = {
        mode: max(row["÷ had to move"] for row in rows if row["changePeers"] == mode)
        for mode in map(str, ChangePeersMode)
    }
    limits = [
        Limit(name=f"{mode}: bytes moved ÷ bytes that had to move", found=found, value=MOST)
        for mode, found in worst.items()
    ]
    return Result(rows=rows, limits=limits)


if __name__ == "__main__":
    figures.run(__doc__, measure)
