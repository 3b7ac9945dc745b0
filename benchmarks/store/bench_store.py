"""What a write costs: CPU over all replicas, writes/s and latency, with fsync.

    python benchmarks/store/bench_store.py [--seconds 5] [--json result.json]

Three real data nodes on loopback, one partition, closed-loop clients in this process (whose CPU
does not count). The peer row beside them is raw LMDB in the same run: synced commits of one such
record, one after the other. The limit row is what the design asks for.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import lmdb
import msgspec
import uvloop

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "processes" / "store"))

from local_nodes import LocalNodes, Zone

from zonequake_store.client_protocol import Reply, Request, RequestId, Status, Write
from zonequake_store.framing import FrameConnection

NODES = ["n0", "n1", "n2"]
CLIENTS = (1, 64, 256)
VALUE_BYTES = 100
LIMIT_US_PER_WRITE = 120.0  # at 64 clients, all replicas together
LIMIT_IDLE_CORE_PERCENT = 1.0  # a node with 128 groups
IDLE_GROUPS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement."""

    name: str
    writes_per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us_per_write: float


class ClosedLoop(FrameConnection):
    """`clients` clients on one connection; each sends its next write when the last is answered."""

    def __init__(self, group: str, clients: int) -> None:
        super().__init__()
        self._group = group
        self._name = f"bench-of-{clients}"
        self._filler = bytes(VALUE_BYTES)
        self._sent_s = [0.0] * clients
        self._sequence = 0
        self._decode = msgspec.msgpack.Decoder(Reply).decode
        self.latencies_s: list[float] = []
        self.failed: Counter[str] = Counter()
        self.running = True

    def begin(self) -> None:
        for client in range(len(self._sent_s)):
            self._next(client)

    def frame_received(self, frame: memoryview) -> None:
        reply = self._decode(frame)
        if reply.status is Status.OK:
            self.latencies_s.append(time.perf_counter() - self._sent_s[reply.id])
        else:
            self.failed[f"{reply.status} {reply.error or ''}"] += 1
        if self.running:
            self._next(reply.id)

    def _next(self, client: int) -> None:
        self._sequence += 1
        request_id = RequestId(f"{self._name}-{client}", self._sequence)
        body = Write(
            self._group, f"key-{self._sequence % 10_000}", self._sequence, self._filler, request_id
        )
        self._sent_s[client] = time.perf_counter()
        self.send(msgspec.msgpack.encode(Request(client, body)))


async def measure(nodes: LocalNodes, zone: Zone, clients: int, seconds: float) -> Row:
    group = zone.groups[0]
    leader = nodes.nodes[await nodes.leader(group)]
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(
        lambda: ClosedLoop(group, clients), "127.0.0.1", leader.client_port
    )
    connection.begin()
    await asyncio.sleep(1.0)  # warm: caches, branch of the log in memory
    connection.latencies_s.clear()
    cpu_s, begun_s = sum(nodes.nodes[n].cpu_s() for n in NODES), time.perf_counter()
    await asyncio.sleep(seconds)
    lasted_s = time.perf_counter() - begun_s
    used_s = sum(nodes.nodes[n].cpu_s() for n in NODES) - cpu_s
    latencies_s = sorted(connection.latencies_s)
    connection.running = False
    await asyncio.sleep(0.2)
    connection.close()
    if connection.failed or not latencies_s:
        raise SystemExit(f"{len(latencies_s)} writes succeeded, others: {connection.failed}")
    return Row(
        name=f"{clients} clients",
        writes_per_s=len(latencies_s) / lasted_s,
        p50_ms=latencies_s[len(latencies_s) // 2] * 1e3,
        p99_ms=latencies_s[int(len(latencies_s) * 0.99)] * 1e3,
        cpu_us_per_write=used_s / len(latencies_s) * 1e6,
    )


def raw_lmdb(directory: Path, seconds: float) -> Row:
    """Synced commits of one record each, one after the other, by one thread."""
    environment = lmdb.open(str(directory / "raw"), map_size=1 << 30)
    latencies_s: list[float] = []
    begun_s, cpu_s = time.perf_counter(), time.process_time()
    record = bytes(VALUE_BYTES + 60)
    while time.perf_counter() - begun_s < seconds:
        before_s = time.perf_counter()
        with environment.begin(write=True) as txn:
            txn.put(len(latencies_s).to_bytes(8, "big"), record)
        latencies_s.append(time.perf_counter() - before_s)
    lasted_s, used_s = time.perf_counter() - begun_s, time.process_time() - cpu_s
    environment.close()
    latencies_s.sort()
    return Row(
        name="raw LMDB, one synced commit each",
        writes_per_s=len(latencies_s) / lasted_s,
        p50_ms=latencies_s[len(latencies_s) // 2] * 1e3,
        p99_ms=latencies_s[int(len(latencies_s) * 0.99)] * 1e3,
        cpu_us_per_write=used_s / len(latencies_s) * 1e6,
    )


async def idle_core_percent(directory: Path, seconds: float) -> float:
    """CPU of the busiest of three nodes with 128 groups that nobody asks anything."""
    async with LocalNodes(directory / "idle") as nodes:
        await nodes.start(*NODES)
        await nodes.create("idle", on=NODES, partitions=IDLE_GROUPS)
        await asyncio.sleep(2.0)
        before_s = [nodes.nodes[n].cpu_s() for n in NODES]
        await asyncio.sleep(seconds)
        after_s = [nodes.nodes[n].cpu_s() for n in NODES]
    used_s = [after - before for after, before in zip(after_s, before_s, strict=True)]
    return max(used_s) / seconds * 100


async def run(seconds: float, directory: Path) -> dict[str, object]:
    rows = [raw_lmdb(directory, seconds)]
    async with LocalNodes(directory / "busy") as nodes:
        await nodes.start(*NODES)
        zone = await nodes.create("bench", on=NODES)
        rows += [await measure(nodes, zone, clients, seconds) for clients in CLIENTS]
    idle_percent = await idle_core_percent(directory, max(seconds, 10.0))
    print(f"{'':34}{'writes/s':>10}{'p50 ms':>9}{'p99 ms':>9}{'CPU µs/write':>14}")
    for row in rows:
        print(
            f"{row.name:34}{row.writes_per_s:10.0f}{row.p50_ms:9.2f}{row.p99_ms:9.2f}"
            f"{row.cpu_us_per_write:14.0f}"
        )
    print(f"{'limit at 64 clients':34}{'':28}{LIMIT_US_PER_WRITE:14.0f}")
    print(
        f"idle, {IDLE_GROUPS} groups: {idle_percent:.2f} % of a core per node "
        f"(limit {LIMIT_IDLE_CORE_PERCENT:.0f} %)"
    )
    at_64 = next(row for row in rows if row.name == "64 clients")
    return {
        "rows": [asdict(row) for row in rows],
        "idle_core_percent": idle_percent,
        "limits": {
            "cpu_us_per_write_at_64": LIMIT_US_PER_WRITE,
            "idle_core_percent": LIMIT_IDLE_CORE_PERCENT,
        },
        "within_limits": at_64.cpu_us_per_write <= LIMIT_US_PER_WRITE
        and idle_percent <= LIMIT_IDLE_CORE_PERCENT,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each measurement")
    parser.add_argument("--json", type=Path, help="write the result here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        result = uvloop.run(run(arguments.seconds, Path(directory)))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
