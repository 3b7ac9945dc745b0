"""The cost of a node whose groups get no requests: CPU and memory, by number of groups.

    python -m benchmarks.store.bench_idle

Three real data nodes on loopback, every group on all of them, leaders spread evenly. CPU is in
percent of one core. The peer is measured at the same time: three bare processes with the same event
loop that send each other frames as large as the heartbeats of 128 groups, as often, and do nothing
else. Memory is what a replica adds to its process; pages of files don't count.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from benchmarks.store import figures
from benchmarks.store.figures import (
    NODES,
    Limit,
    Result,
    Row,
    bare_process,
    cpu_s,
    create,
    heap_bytes,
    pid_of,
)
from tests.processes.store.local_nodes import LocalNodes
from tests.processes.store.ports import free_ports

WATCHED_S = 20.0
LIMITS_CORE_PERCENT = {128: 1.0}
GROUPS = (128, 1024)


@contextlib.asynccontextmanager
async def bare_beats() -> AsyncIterator[list[int]]:
    """Three bare processes; yields their process ids."""
    ports = free_ports(3)
    processes = [
        bare_process("beat", str(port), *(str(other) for other in ports if other != port))
        for port in ports
    ]
    await asyncio.sleep(1.0)
    try:
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


async def percents(pids: list[int], seconds: float) -> list[float]:
    """CPU of each process, in percent of a core."""
    before_s = [cpu_s(pid) for pid in pids]
    begun_s = asyncio.get_running_loop().time()
    await asyncio.sleep(seconds)
    lasted_s = asyncio.get_running_loop().time() - begun_s
    after_s = [cpu_s(pid) for pid in pids]
    return [
        (after - before) / lasted_s * 100 for after, before in zip(after_s, before_s, strict=True)
    ]


async def measure(directory: Path) -> Result:
    rows: list[Row] = []
    limits: list[Limit] = []
    async with LocalNodes(directory) as nodes, bare_beats() as bare:
        await nodes.start(*NODES)
        pids = [pid_of(nodes, name) for name in NODES]
        await asyncio.sleep(2.0)
        empty_bytes = max(heap_bytes(pid) for pid in pids)
        created = 0
        for groups in GROUPS:
            await create(nodes, f"zone-{groups}", groups - created)
            created = groups
            await asyncio.sleep(3.0)
            both = await percents(pids + bare, WATCHED_S)
            node, peer = max(both[:3]), max(both[3:])
            heap = max(heap_bytes(pid) for pid in pids) - empty_bytes
            rows.append(
                {
                    "idle groups": groups,
                    "core %, busiest node": node,
                    "mean": sum(both[:3]) / 3,
                    "bare processes %": peer,
                    "ratio": node / peer,
                    "KiB per group": heap / groups / 1024,
                }
            )
            if groups in LIMITS_CORE_PERCENT:
                limits.append(
                    Limit(
                        name=f"core % of a node with {groups} idle groups",
                        found=node,
                        value=LIMITS_CORE_PERCENT[groups],
                    )
                )
    return Result(rows=rows, limits=limits)


if __name__ == "__main__":
    figures.run(__doc__, measure)
