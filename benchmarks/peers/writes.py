"""What a write costs beside etcd: CPU over all three replicas and p99 at equal load, with fsync.

    python -m benchmarks.peers.writes

Both are three processes on loopback that sync their logs; values of 100 bytes, 10,000 keys. Closed:
64 clients at the leader on one connection, each sends its next write when it has its answer; ours
by the driver of `benchmarks/store/bench_writes.py`, etcd by etcd's own benchmark tool. *Equal
load*: the same number of writes a second at both, half of what the slower one reached; our driver
counts from when a write was due, etcd's from when it was sent, which hides what waited. *By the
load*: the load's own targets, as a chaos run uses them, at a rate that both take easily; etcd is
spoken to through its JSON gateway there, whose CPU is etcd's. Drivers don't count, but they share
the two cores.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

from benchmarks.peers import systems
from benchmarks.peers.etcd import Tool, local_etcd, pids_of
from benchmarks.peers.failover import row
from benchmarks.peers.systems import System
from benchmarks.store import bench_writes, figures
from benchmarks.store.figures import NODES, Limit, Result, Row, cpu_s, create, leaders, pid_of
from tests.foreign.local_etcd import LocalEtcd
from tests.processes.store.local_nodes import LocalNodes
from zonequake_load.operation import Function, Limits, OnceId, Operation, Type

CLIENTS = 64
VALUE_BYTES = 100
SECONDS = 10.0
LOAD_PER_S = 300
P99_LIMIT_MS = 20.0


async def ours(nodes: LocalNodes, rate_per_s: float | None) -> Row:
    """Closed, or at a rate."""
    zone = await create(nodes, f"z{int(time.time() * 1000)}", 1, fsync=True)
    group = zone.groups[0]
    leader = nodes.nodes[(await leaders(nodes, [group]))[group]]
    pids = [pid_of(nodes, name) for name in NODES]
    connection = await bench_writes.connect(bench_writes.Clients, group, leader.client_port)
    if rate_per_s is None:
        return await bench_writes.closed_loop("", connection, pids, CLIENTS, SECONDS)
    return await bench_writes.open_loop("", connection, pids, rate_per_s, SECONDS)


async def theirs(etcd: LocalEtcd, tool: Tool, rate_per_s: float | None) -> Row:
    """The same by etcd's own tool."""

    async def put(total: int) -> tuple[float, float, float]:
        used_s = sum(map(cpu_s, pids_of(etcd)))
        found = await tool.put(
            etcd,
            clients=CLIENTS,
            total=total,
            value_bytes=VALUE_BYTES,
            rate=int(rate_per_s or 0),
        )
        used_s = sum(map(cpu_s, pids_of(etcd))) - used_s
        return found.writes_per_s, found.p99_ms, used_s / total * 1e6

    warm_per_s, _, _ = await put(5_000)
    writes_per_s, p99_ms, cpu_us = await put(int(SECONDS * (rate_per_s or warm_per_s)))
    return {"writes/s": writes_per_s, "p99 ms": p99_ms, "CPU us/write": cpu_us}


async def by_the_load(system: System) -> Row:
    """At a fixed rate through the load's target; each write is timed from when it was due."""
    target = await system.target()
    latencies_s: list[float] = []
    failed: list[str] = []

    async def write(number: int, due_s: float) -> None:
        outcome = await target.execute(
            Operation(
                f=Function.WRITE,
                key=f"key-{number % 10_000}",
                value=number,
                filler=bytes(VALUE_BYTES),
            ),
            Limits(
                deadline_ns=time.monotonic_ns() + 5_000_000_000,
                attempt_ns=5_000_000_000,
                retry=True,
            ),
            OnceId(f"bench-{number}", 1),
        )
        if outcome.type is Type.OK:
            latencies_s.append(time.perf_counter() - due_s)
        else:
            failed.append(f"{outcome.type}: {outcome.error}")

    await at_rate(write, LOAD_PER_S, seconds=2.0)
    latencies_s.clear()
    used_s = sum(map(cpu_s, system.pids))
    await at_rate(write, LOAD_PER_S, seconds=SECONDS)
    used_s = sum(map(cpu_s, system.pids)) - used_s
    await target.close()
    if failed:
        raise SystemExit(f"{len(failed)} writes failed, the first: {failed[0]}")
    return bench_writes.summary("", sorted(latencies_s), SECONDS, used_s)


_numbers = itertools.count(1)


async def at_rate(
    write: Callable[[int, float], Coroutine[None, None, None]], per_s: float, *, seconds: float
) -> None:
    """Begin writes on schedule, however late answers are; return when all have ended."""
    async with asyncio.TaskGroup() as group:
        begun_s = time.perf_counter()
        for step in range(int(seconds * per_s)):
            due_s = begun_s + step / per_s
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
            group.create_task(write(next(_numbers), due_s))


async def measure(folder: Path) -> Result:
    tool = Tool.build()
    async with (
        LocalNodes(folder / "closed") as nodes,
        local_etcd(folder / "closed-etcd") as cluster,
    ):
        await nodes.start(*NODES)
        our_closed, their_closed = await ours(nodes, None), await theirs(cluster, tool, None)
        rate = min(our_closed["writes/s"], their_closed["writes/s"]) / 2
        our_equal, their_equal = await ours(nodes, rate), await theirs(cluster, tool, rate)
    async with systems.zonequake(folder / "ours") as system:
        our_load = await by_the_load(system)
    async with systems.etcd(folder / "etcd") as system:
        their_load = await by_the_load(system)
    rows = [
        *compared(f"closed, {CLIENTS} clients", our_closed, their_closed),
        *compared(f"equal load, {rate:.0f}/s", our_equal, their_equal),
        *compared(f"by the load, {LOAD_PER_S}/s", our_load, their_load),
    ]
    limits = [Limit(name="p99 ms at equal load", found=our_equal["p99 ms"], value=P99_LIMIT_MS)]
    return Result(rows=rows, limits=limits)


def compared(case: str, ours: Row, theirs: Row) -> list[Row]:
    """A line for each figure, with its ratio."""
    return [row(f"{case}: {name}", ours[name], theirs[name]) for name in _FIGURES]


_FIGURES = ("writes/s", "p99 ms", "CPU us/write")


if __name__ == "__main__":
    figures.run(__doc__, measure)
