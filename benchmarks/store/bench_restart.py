"""How long a restart takes with 1 GB of data, and what memory a group with data needs.

    python -m benchmarks.store.bench_restart

1 GiB of values of 16 KiB in 16 groups, three nodes, fsync on. Then all three nodes
are killed at once and started again with their start orders, like a cluster after a power cut.
*Serves* means that every group has answered a linearizable read. The peer reads the files of one
node once, from one end to the other. An election time-out of 1 to 2 s is part of every restart: the
row with empty groups shows what is left without data.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from benchmarks.store import figures
from benchmarks.store.figures import NODES, Limit, Result, Row, create, heap_bytes, pid_of
from tests.processes.store.local_nodes import LocalNodes, Zone, key_of
from zonequake_protocol.client import ReplyStatus, Write, partition_of

GROUPS = 16
SIZE_BYTES = 1 << 30
VALUE_BYTES = 16 * 1024
IN_FLIGHT = 64
MAP_BYTES = 8 << 30
# The design sets no limit. A client's deadline for one operation is 15 s in the load.
LIMIT_S = 15.0


async def fill(nodes: LocalNodes, zone: Zone) -> None:
    """Write SIZE_BYTES under keys that spread over all groups."""
    client = nodes.client("filler")
    filler = bytes(VALUE_BYTES)
    numbers = iter(range(SIZE_BYTES // VALUE_BYTES))

    async def write() -> None:
        for number in numbers:
            key = str(number)
            group = zone.groups[partition_of(key, GROUPS)]
            reply = await client.at_leader(Write(group, key, number, filler))
            assert reply.status is ReplyStatus.OK, reply

    await asyncio.gather(*(write() for _ in range(IN_FLIGHT)))


async def restart(nodes: LocalNodes, zone: Zone) -> dict[str, float]:
    """Kill all nodes, start them; returns the seconds from the first start to each step."""
    for name in NODES:
        nodes.nodes[name].kill()
    begun_s = time.monotonic()
    await nodes.start(*NODES)
    ready_s = time.monotonic() - begun_s
    for name in NODES:
        await nodes.start_replicas(zone, name)
    started_s = time.monotonic() - begun_s
    client = nodes.client(f"reader-{begun_s}")
    keys = [key_of(partition, GROUPS, 0) for partition in range(GROUPS)]
    await asyncio.gather(
        *(client.read(group, key) for group, key in zip(zone.groups, keys, strict=True))
    )
    serves_s = time.monotonic() - begun_s
    return {"processes ready s": ready_s, "replicas started s": started_s, "serves s": serves_s}


def read_once(directory: Path) -> tuple[float, int]:
    """Read all files of a node; seconds and bytes."""
    begun_s, size_bytes = time.monotonic(), 0
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while piece := file.read(1 << 20):
                    size_bytes += len(piece)
    return time.monotonic() - begun_s, size_bytes


async def measure(directory: Path) -> Result:
    rows: list[Row] = []
    async with LocalNodes(directory) as nodes:
        await nodes.start(*NODES, ZQ_LOG_MAP_BYTES=str(MAP_BYTES), ZQ_DATA_MAP_BYTES=str(MAP_BYTES))
        empty_bytes = max(heap_bytes(pid_of(nodes, name)) for name in NODES)
        zone = await create(nodes, "zone", GROUPS)
        rows.append({"data": "none", **await restart(nodes, zone)})
        begun_s = time.monotonic()
        await fill(nodes, zone)
        filled_s = time.monotonic() - begun_s
        await asyncio.sleep(2.0)  # flushed
        heaps = [max(heap_bytes(pid_of(nodes, name)) for name in NODES)]
        with_data = await restart(nodes, zone)
        heaps.append(max(heap_bytes(pid_of(nodes, name)) for name in NODES))
        read_s, stored_bytes = read_once(nodes.nodes[NODES[0]].directory)
        rows.append(
            {
                "data": f"{SIZE_BYTES >> 20} MiB",
                **with_data,
                "reading its files once s": read_s,
                "ratio": with_data["serves s"] / read_s,
                "MiB on disk per node": stored_bytes / (1 << 20),
                "MiB/s written": SIZE_BYTES / (1 << 20) / filled_s,
                "MiB of memory per group, after writing": (heaps[0] - empty_bytes)
                / GROUPS
                / (1 << 20),
                "after restart": (heaps[1] - empty_bytes) / GROUPS / (1 << 20),
            }
        )
    limit = Limit(name="seconds until all groups serve", found=with_data["serves s"], value=LIMIT_S)
    return Result(rows=rows, limits=[limit])


if __name__ == "__main__":
    figures.run(__doc__, measure)
