"""What a write costs: CPU over all replicas, writes/s and latency, with and without fsync.

    python -m benchmarks.store.bench_writes

Three real data nodes on loopback, one partition, clients in this process, whose CPU does not count.
Closed loop: each client sends its next write when the last is answered. Open loop: writes leave at
half the rate that 64 closed clients reached, whether or not they are answered, and latency counts
from the moment when each was due. Peers in the same run: commits of one such record to LMDB, one
after the other, and an echo of the same frames by a bare process with the same event loop. *Driver*
is this process's share of all CPU used: above 40 % the clients set the rate, not the store.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from ssl import SSLContext

import lmdb
import msgspec

from benchmarks.store import figures
from benchmarks.store.figures import (
    NODES,
    Limit,
    Result,
    Row,
    bare_process,
    cpu_s,
    create,
    leaders,
    pid_of,
)
from tests.processes.store.local_nodes import LocalNodes, Zone
from tests.processes.store.ports import free_ports
from zonequake_protocol.client import Reply, ReplyStatus, Request, RequestId, Write
from zonequake_store.network.framing import FrameConnection

CLIENTS = (1, 8, 64, 256)
MOST_CLIENTS = max(CLIENTS)
VALUE_BYTES = 100
LIMIT_US_PER_WRITE = 120.0  # at 64 clients with fsync, all replicas together
LIMIT_P99_MS = 20.0  # at half load, with fsync
CLIENT_BOUND = 0.4
SECONDS = 5.0

_sequences = itertools.count(1)


class Clients(FrameConnection):
    """Clients of one group on one connection. `answered(client)` is called for each reply."""

    def __init__(self, group: str, answered: Callable[[int], None] | None = None) -> None:
        super().__init__()
        self._group = group
        self._filler = bytes(VALUE_BYTES)
        self._decode = msgspec.msgpack.Decoder(Reply).decode
        self.due_s: dict[int, float] = {}
        self.latencies_s: list[float] = []
        self.refused = 0
        self.failed: Counter[str] = Counter()
        self.answered = answered

    def frame_received(self, frame: memoryview) -> None:
        reply = self._decode(frame)
        if reply.status is ReplyStatus.OK:
            self.latencies_s.append(time.perf_counter() - self.due_s.pop(reply.id))
        elif reply.status is ReplyStatus.OVERLOADED:
            self.refused += 1
        else:
            self.failed[f"{reply.status} {reply.error or ''}"] += 1
        if self.answered is not None:
            self.answered(reply.id)

    def write(self, client: int, due_s: float) -> None:
        """Send a client's next write, which was due then."""
        sequence = next(_sequences)
        request_id = RequestId(f"bench-{client % MOST_CLIENTS}", sequence)
        body = Write(self._group, f"key-{sequence % 10_000}", sequence, self._filler, request_id)
        self.due_s[client] = due_s
        self.send(msgspec.msgpack.encode(Request(client, body)))


class EchoClients(Clients):
    """The same, at a process that gives each frame back."""

    def frame_received(self, frame: memoryview) -> None:
        request = msgspec.msgpack.decode(frame, type=Request)
        self.latencies_s.append(time.perf_counter() - self.due_s.pop(request.id))
        if self.answered is not None:
            self.answered(request.id)


async def connect(
    kind: type[Clients],
    group: str,
    port: int,
    *,
    ssl: SSLContext | None = None,
    server_hostname: str | None = None,
) -> Clients:
    _, connection = await asyncio.get_running_loop().create_connection(
        lambda: kind(group), "127.0.0.1", port, ssl=ssl, server_hostname=server_hostname
    )
    return connection


async def measured(
    name: str, connection: Clients, pids: list[int], begin: Callable[[], None], seconds: float
) -> Row:
    """Let it run for a second, then measure."""
    begin()
    await asyncio.sleep(1.0)
    connection.latencies_s.clear()
    connection.refused = 0
    used_s, own_s, begun_s = sum(map(cpu_s, pids)), time.process_time(), time.perf_counter()
    await asyncio.sleep(seconds)
    lasted_s = time.perf_counter() - begun_s
    used_s, own_s = sum(map(cpu_s, pids)) - used_s, time.process_time() - own_s
    latencies_s = sorted(connection.latencies_s)
    connection.answered = None
    await asyncio.sleep(0.3)
    connection.close()
    if connection.failed or not latencies_s:
        raise SystemExit(f"{len(latencies_s)} writes succeeded, others: {connection.failed}")
    return summary(name, latencies_s, lasted_s, used_s) | {
        "driver %": 100 * own_s / (own_s + used_s),
        "refused": connection.refused,
        "client-bound": "yes" if own_s > CLIENT_BOUND * (own_s + used_s) else "no",
    }


def summary(name: str, latencies_s: list[float], lasted_s: float, used_s: float) -> Row:
    """`latencies_s` ascend."""
    return {
        "case": name,
        "writes/s": len(latencies_s) / lasted_s,
        "p50 ms": latencies_s[len(latencies_s) // 2] * 1e3,
        "p99 ms": latencies_s[int(len(latencies_s) * 0.99)] * 1e3,
        "CPU us/write": used_s / len(latencies_s) * 1e6,
    }


async def closed_loop(
    name: str, connection: Clients, pids: list[int], clients: int, seconds: float
) -> Row:
    def write(client: int) -> None:
        connection.write(client, time.perf_counter())

    def begin() -> None:
        connection.answered = write
        for client in range(clients):
            write(client)

    return await measured(name, connection, pids, begin, seconds)


async def open_loop(
    name: str, connection: Clients, pids: list[int], rate_per_s: float, seconds: float
) -> Row:
    loop = asyncio.get_running_loop()
    begun_s = time.perf_counter() + 0.1
    ends_s = begun_s + seconds + 1.0
    numbers = itertools.count()
    due_s = begun_s

    def send_due() -> None:
        nonlocal due_s
        now_s = time.perf_counter()
        while due_s <= now_s:
            number = next(numbers)
            connection.write(number, due_s)
            due_s = begun_s + (number + 1) / rate_per_s
        if now_s < ends_s:
            loop.call_later(max(due_s - time.perf_counter(), 0.001), send_due)

    return await measured(name, connection, pids, send_due, seconds)


def raw_lmdb(directory: Path, seconds: float, *, fsync: bool) -> Row:
    """Commits of one record each, one after the other, by one thread."""
    environment = lmdb.open(str(directory / f"raw-{fsync}"), map_size=1 << 30, sync=fsync)
    latencies_s: list[float] = []
    begun_s, own_s = time.perf_counter(), time.process_time()
    record = bytes(VALUE_BYTES + 60)
    while time.perf_counter() - begun_s < seconds:
        before_s = time.perf_counter()
        with environment.begin(write=True) as txn:
            txn.put(len(latencies_s).to_bytes(8, "big"), record)
        latencies_s.append(time.perf_counter() - before_s)
    lasted_s, used_s = time.perf_counter() - begun_s, time.process_time() - own_s
    environment.close()
    return summary(f"raw LMDB, {_fsync(fsync)}", sorted(latencies_s), lasted_s, used_s)


def _fsync(fsync: bool) -> str:
    return "fsync" if fsync else "no fsync"


async def echo(seconds: float) -> dict[int, Row]:
    """The echo of a bare process, by number of clients."""
    (port,) = free_ports(1)
    process = bare_process("echo", str(port))
    try:
        await asyncio.sleep(1.0)
        return {
            clients: await closed_loop(
                f"echo, {clients} clients",
                await connect(EchoClients, "g", port),
                [process.pid],
                clients,
                seconds,
            )
            for clients in CLIENTS
        }
    finally:
        process.kill()
        process.wait()


async def writes(
    nodes: LocalNodes,
    zone: Zone,
    seconds: float,
    *,
    fsync: bool,
    raw: Row,
    echoes: dict[int, Row],
) -> list[Row]:
    """All rows of one zone."""
    group = zone.groups[0]
    leader = nodes.nodes[(await leaders(nodes, [group]))[group]]
    pids = [pid_of(nodes, name) for name in NODES]
    rows: list[Row] = []
    for clients in CLIENTS:
        connection = await connect(Clients, group, leader.client_port)
        row = await closed_loop(
            f"{clients} clients, {_fsync(fsync)}", connection, pids, clients, seconds
        )
        row["CPU / echo"] = row["CPU us/write"] / echoes[clients]["CPU us/write"]
        row["rate / raw LMDB"] = row["writes/s"] / raw["writes/s"]
        rows.append(row)
    half_per_s = rows[CLIENTS.index(64)]["writes/s"] / 2
    connection = await connect(Clients, group, leader.client_port)
    name = f"open, half load, {_fsync(fsync)}"
    rows.append(await open_loop(name, connection, pids, half_per_s, 2 * seconds))
    return rows


async def measure(directory: Path) -> Result:
    seconds = SECONDS
    raw = {fsync: raw_lmdb(directory, seconds, fsync=fsync) for fsync in (True, False)}
    echoes = await echo(seconds)
    async with LocalNodes(directory / "nodes") as nodes:
        await nodes.start(*NODES)
        rows = {
            fsync: await writes(
                nodes,
                await create(nodes, "synced" if fsync else "unsynced", 1, fsync=fsync),
                seconds,
                fsync=fsync,
                raw=raw[fsync],
                echoes=echoes,
            )
            for fsync in (True, False)
        }
    synced = rows[True]
    at_64 = synced[CLIENTS.index(64)]
    limits = [
        Limit(
            name="CPU us of a write at 64 clients, fsync",
            found=at_64["CPU us/write"],
            value=LIMIT_US_PER_WRITE,
        ),
        Limit(name="p99 ms at half load, fsync", found=synced[-1]["p99 ms"], value=LIMIT_P99_MS),
    ]
    all_rows = [*raw.values(), *echoes.values(), *synced, *rows[False]]
    return Result(rows=all_rows, limits=limits)


if __name__ == "__main__":
    figures.run(__doc__, measure)
