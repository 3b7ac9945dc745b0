"""A zone of many partitions moves onto a node that joins: time, writes of keys, memory.

    python -m benchmarks.operator.bench_scale                           # embedded cluster, as root
    python -m benchmarks.operator.bench_scale --on processes --partitions 64

Six data nodes hold a zone of three replicas, every partition as large as the next; a seventh joins.
From the topology that names it until the last stable switch, the bytes that had to move are divided
by the time and by the *limit*: `catchUpBytesPerSecond` holds for what one leader sends, so that all
partitions that move may together move as many times as much. With `--rate 0` there is no limit, and
no ratio to it. Key writes are counted by a watch of this program, not by the operator.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import aiohttp
import msgspec

from benchmarks.operator.grounds import Ground, Processes, on_embedded_cluster, on_processes
from benchmarks.operator.timeline import Timeline, Watcher
from benchmarks.store import figures
from benchmarks.store.bench_catch_up import Filler, WriteFailed
from benchmarks.store.figures import Limit, Result, Row
from zonequake_kube.client import Kube
from zonequake_kube.errors import ChaosError
from zonequake_operator.resources.model import group_name
from zonequake_protocol.admin import (
    DumpHeader,
    ReplicaRole,
    ReplicaSize,
    ReplicasReport,
    ReplicaStatus,
)
from zonequake_protocol.client import partition_of

ZONE = "scale"
BEFORE, AFTER, REPLICAS = 6, 7, 3
ADMIN_PORT, CLIENT_PORT = 8080, 7002
VALUE_BYTES = 16_000
FILL_AT_ONCE = 4
"""Partitions that are written at a time."""
COMPARED = 16
"""Partitions of whose copies the digests are compared afterwards."""
SETTLED_S = 10.0
"""So long the settled zone is watched: it writes nothing."""
LIMIT_S = 900.0
PLANS = re.compile(rb"^zonequake_operator_plan_seconds_(sum|count) (\S+)$", re.MULTILINE)
SENT = re.compile(rb"^zonequake_store_catch_up_bytes_total (\S+)$", re.MULTILINE)
SHARE_OF_LIMIT, KEY_WRITES, OPERATOR_MB = 0.8, 4, 250.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Of the zone: what is moved, and how fast it may."""

    partitions: int
    writes: int
    rate: int
    """Bytes per second, 0 for no limit."""


class Nodes:
    """The data nodes, at the addresses of their pods."""

    def __init__(self, kube: Kube, session: aiohttp.ClientSession) -> None:
        self._kube, self._session = kube, session
        self.addresses: dict[str, str] = {}

    async def find(self) -> None:
        """Read the pods' addresses."""
        pods = await self._kube.find("Pod", "app.kubernetes.io/component=store")
        self.addresses = {
            pod["metadata"]["name"]: pod["status"]["podIP"]
            for pod in pods
            if pod.get("status", {}).get("podIP")
        }

    async def get(self, node: str, path: str) -> bytes:
        url = f"http://{self.addresses[node]}:{ADMIN_PORT}{path}"
        async with self._session.get(url) as response:
            body = await response.read()
            if response.status != 200:
                raise SystemExit(f"{url}: {response.status} {body[:200]!r}")
            return body

    async def leaders(self) -> dict[int, tuple[str, ReplicaStatus]]:
        """By partition: the node that leads at the highest term, and its report."""
        found: dict[int, tuple[str, ReplicaStatus]] = {}
        for node in self.addresses:
            body = await self.get(node, "/admin/v1/replicas")
            for status in msgspec.json.decode(body, type=ReplicasReport).replicas:
                known = found.get(status.partition)
                if status.role is ReplicaRole.LEADER and (
                    known is None or known[1].term < status.term
                ):
                    found[status.partition] = (node, status)
        return found

    async def sent_bytes(self) -> float:
        """What all leaders have sent to catching-up peers since the nodes' start."""
        total = 0.0
        for node in self.addresses:
            found = SENT.search(await self.get(node, "/metrics"))
            assert found is not None
            total += float(found[1])
        return total

    async def copy_bytes(self, node: str, group: str) -> int:
        """What another copy of this replica takes."""
        body = await self.get(node, f"/admin/v1/replicas/{group}/size")
        return msgspec.json.decode(body, type=ReplicaSize).copy_bytes

    async def digest(self, node: str, group: str) -> tuple[int, str]:
        """How far this replica has applied, and what it holds then."""
        body = await self.get(node, f"/admin/v1/replicas/{group}/dump")
        header = msgspec.json.decode(body.split(b"\n", 1)[0], type=DumpHeader)
        return header.applied, header.digest


async def plans(session: aiohttp.ClientSession, ground: Ground) -> dict[bytes, float]:
    """How many plans the operator has made, and how long they took, `count` and `sum`."""
    async with session.get(ground.operator_metrics) as response:
        found = PLANS.findall(await response.read())
    return {name: float(value) for name, value in found}


async def until(
    what: str, condition: Callable[[], Awaitable[bool]], *, every_s: float = 0.5
) -> float:
    """Wait for it; returns the seconds that it took."""
    begun_s = time.monotonic()
    while not await condition():
        if time.monotonic() - begun_s > LIMIT_S:
            raise SystemExit(f"not within {LIMIT_S:.0f} s: {what}")
        await asyncio.sleep(every_s)
    took_s = time.monotonic() - begun_s
    print(f"{what}: {took_s:.1f} s", file=sys.stderr, flush=True)
    return took_s


async def is_whole(kube: Kube, nodes: int) -> bool:
    """Does the zone say that it is settled on so many data nodes?"""
    with contextlib.suppress(ChaosError):
        status = (await kube.get("DistributionZone", ZONE)).get("status", {})
        said = {c["type"]: c["status"] == "True" for c in status.get("conditions", [])}
        return (
            status.get("dataNodeCount") == nodes
            and said.get("Ready", False)
            and said.get("Synced", False)
            and not said.get("Progressing", True)
            and not said.get("Degraded", True)
        )
    return False


def keys_of(partitions: int, count: int) -> dict[int, list[str]]:
    """So many keys of each partition."""
    keys: dict[int, list[str]] = {number: [] for number in range(partitions)}
    open_partitions = partitions
    for number in itertools.count():
        key = f"key-{number}"
        found = keys[partition_of(key, partitions)]
        if len(found) < count:
            found.append(key)
            open_partitions -= len(found) == count
        if open_partitions == 0:
            return keys
    raise AssertionError("keys don't end")


async def fill(nodes: Nodes, groups: Mapping[int, str], writes: int) -> None:
    """As many values into each partition; a leader that goes meanwhile is followed."""
    keys = keys_of(len(groups), writes)
    left = set(groups)
    slots = asyncio.Semaphore(FILL_AT_ONCE)
    loop = asyncio.get_running_loop()

    async def one(number: int, leader: str) -> None:
        async with slots:
            _, filler = await loop.create_connection(
                lambda: Filler(groups[number], keys[number], VALUE_BYTES),
                nodes.addresses[leader],
                CLIENT_PORT,
            )
            with contextlib.suppress(WriteFailed):
                await filler.done
                left.discard(number)
            filler.close()

    async def all_filled() -> bool:
        leaders = await nodes.leaders()
        await asyncio.gather(*(one(n, leaders[n][0]) for n in sorted(left) if n in leaders))
        return not left

    await until("every partition is filled", all_filled)


def cpu_s(processes: Processes) -> dict[str, float]:
    """CPU time by who spent it, all data nodes as one."""
    spent: dict[str, float] = {}
    for name, pids in processes.items():
        part = name if name in ("operator", "kube-apiserver", "etcd") else "data nodes"
        spent[part] = spent.get(part, 0.0) + sum(map(figures.cpu_s, pids))
    return spent


def peak_mb(pids: list[int]) -> float:
    """The most memory that these processes ever had in use."""
    total_kib = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                total_kib += int(line.split()[1])
    return total_kib * 1024 / 1e6


async def measure(ground: Ground, size: Size) -> Result:
    """A zone on BEFORE nodes, filled; then one more node."""
    async with (
        await Kube.open(
            kubeconfig=ground.kubeconfig, context=None, namespace=ground.namespace
        ) as kube,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session,
    ):
        nodes = Nodes(kube, session)
        spec = {
            "partitions": size.partitions,
            "replicas": REPLICAS,
            "dataNodesAutoAdjustScaleUp": 0,
            "catchUpBytesPerSecond": size.rate,
        }
        zone = await kube.apply(
            {
                "apiVersion": "zonequake.io/v1alpha1",
                "kind": "DistributionZone",
                "metadata": {"name": ZONE},
                "spec": spec,
            }
        )
        row: Row = {"partitions": size.partitions}
        row["started after s"] = await until("the zone is there", partial(is_whole, kube, BEFORE))
        uid = zone["metadata"]["uid"]
        groups = {n: group_name(ZONE, uid, n) for n in range(size.partitions)}
        await nodes.find()
        await fill(nodes, groups, size.writes)
        await until("it is settled again", partial(is_whole, kube, BEFORE))
        await asyncio.sleep(SETTLED_S)  # flushed and compacted, and views written

        async with Watcher(kube, nodes=AFTER) as idle:
            before = cpu_s(await ground.processes())
            await asyncio.sleep(SETTLED_S)
            after = cpu_s(await ground.processes())
        for part, spent_s in before.items():
            row[f"idle {part} %"] = (after[part] - spent_s) / SETTLED_S * 100
        row["idle writes"] = idle.key_writes.total() + idle.view_writes.total()

        sent_before = await nodes.sent_bytes()
        planned_before = await plans(session, ground)
        before = cpu_s(await ground.processes())
        async with Watcher(kube, nodes=AFTER) as timeline:
            begun_s = time.monotonic()
            await ground.grow(AFTER)
            await until("the zone is on the new node", partial(is_whole, kube, AFTER))
            lasted_s = time.monotonic() - begun_s
        after = cpu_s(await ground.processes())
        await nodes.find()
        moved = sorted(timeline.stable_s)
        row |= await _figures(nodes, groups, timeline, size)
        row["MB sent"] = (await nodes.sent_bytes() - sent_before) / 1e6
        for part, spent_s in after.items():
            row[f"{part} %"] = (spent_s - before.get(part, 0.0)) / lasted_s * 100
        planned = await plans(session, ground)
        count = planned[b"count"] - planned_before[b"count"]
        row["plans/s"] = count / lasted_s
        row["ms per plan"] = (planned[b"sum"] - planned_before[b"sum"]) / count * 1000
        peaks = {name: peak_mb(pids) for name, pids in (await ground.processes()).items()}
        row["operator MB"] = peaks["operator"]
        row["largest data node MB"] = max(peaks[name] for name in nodes.addresses)
        await _compare(nodes, groups, moved)
    limits = [
        Limit(name="writes of keys per partition", found=row["key writes, most"], value=KEY_WRITES),
        Limit(name="operator's peak memory in MB", found=row["operator MB"], value=OPERATOR_MB),
    ]
    if size.rate:
        name = "bytes that had to move ÷ time ÷ sum of the limits"
        share = row["÷ limit"]
        limits.insert(0, Limit(name=name, found=share, value=SHARE_OF_LIMIT, at_least=True))
    return Result(rows=[{"what": key, "found": value} for key, value in row.items()], limits=limits)


async def _figures(nodes: Nodes, groups: Mapping[int, str], timeline: Timeline, size: Size) -> Row:
    assert timeline.joined_s is not None
    moved = sorted(timeline.stable_s)
    leaders = await nodes.leaders()
    sizes = [await nodes.copy_bytes(leaders[n][0], groups[n]) for n in moved]
    took_s = max(timeline.stable_s.values()) - timeline.joined_s
    writes = [timeline.key_writes[n] for n in moved]
    row: Row = {
        "partitions that moved": len(moved),
        "MB that had to move": sum(sizes) / 1e6,
        "join → last pending s": max(timeline.pending_s.values()) - timeline.joined_s,
        "join → first lock s": min(timeline.locked_s.values()) - timeline.joined_s,
        "join → last lock s": max(timeline.locked_s.values()) - timeline.joined_s,
        "join → last stable s": took_s,
        "MB/s": sum(sizes) / 1e6 / took_s,
    }
    if size.rate:
        row["limit MB/s, one partition"] = size.rate / 1e6
        row["limit MB/s, all that move"] = size.rate * len(moved) / 1e6
        row["÷ limit"] = sum(sizes) / took_s / (size.rate * len(moved))
    row["key writes, mean"] = sum(writes) / len(writes)
    row["key writes, most"] = max(timeline.key_writes.values())
    row["view writes, mean"] = timeline.view_writes.total() / len(moved)
    return row


async def _compare(nodes: Nodes, groups: Mapping[int, str], moved: list[int]) -> None:
    """Do the new copies hold what their leaders hold?"""
    newest = max(nodes.addresses)
    leaders = await nodes.leaders()
    for number in moved[:: max(1, len(moved) // COMPARED)]:
        group = groups[number]
        copy = await nodes.digest(newest, group)
        led = await nodes.digest(leaders[number][0], group)
        if copy != led:
            raise SystemExit(f"{group}: {newest} holds {copy}, its leader {led}")


async def _run(place: str, size: Size, folder: Path) -> Result:
    ground: AbstractAsyncContextManager[Ground]
    ground = on_processes(folder, BEFORE) if place == "processes" else on_embedded_cluster(BEFORE)
    async with ground as found:
        return await measure(found, size)


def main() -> None:
    parser = figures.options(__doc__)
    parser.add_argument("--on", choices=("cluster", "processes"), default="cluster")
    parser.add_argument("--partitions", type=int, default=1024)
    parser.add_argument("--writes", type=int, default=64, help="of 16 kB, into each partition")
    parser.add_argument("--rate", type=int, default=16_000, help="catchUpBytesPerSecond")
    given = parser.parse_args()
    size = Size(partitions=given.partitions, writes=given.writes, rate=given.rate)
    figures.show(lambda folder: _run(given.on, size, folder), given.json)


if __name__ == "__main__":
    main()
