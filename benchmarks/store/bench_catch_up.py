"""How fast a node that joins gets its data: from the log, and as a whole state.

    python -m benchmarks.store.bench_catch_up

Two real data nodes on loopback, fsync on, no rate limit, which are connected already because they
share a small group. The group lives on the first one, alone; the second joins. Historical: as much
as a log keeps. Full: many times that. Beside them, in the same run and with the same bytes, what no
catch-up can beat: writing them to LMDB in synced commits of one piece each, and copying them
through a TCP connection on loopback.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import lmdb
import msgspec

from benchmarks.store import figures
from benchmarks.store.figures import Limit, Result, Row
from tests.processes.store.local_nodes import LocalNodes, Zone
from zonequake_protocol.client import Reply, ReplyStatus, Request, Write
from zonequake_store.catch_up.supplier import PIECE_BYTES
from zonequake_store.network.framing import FrameConnection

VALUE_BYTES = 3000
FULL_WRITES = 66_000
HISTORICAL_WRITES = 18_000  # a log keeps 20,000 entries, or 64 MB
AT_ONCE = 256
LIMIT_MB_PER_S = 50.0


class WriteFailed(Exception):
    """A node refused a write, and said why."""


class Filler(FrameConnection):
    """Writes key after key, AT_ONCE at a time."""

    def __init__(self, group: str, keys: Iterable[str], value_bytes: int = VALUE_BYTES) -> None:
        super().__init__()
        self._group = group
        self._left = enumerate(keys)
        self._open = 0
        self._filler = bytes(range(250)) * (value_bytes // 250)
        self._decode = msgspec.msgpack.Decoder(Reply).decode
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def opened(self) -> None:
        for _ in range(AT_ONCE):
            self._next()

    def frame_received(self, frame: memoryview) -> None:
        reply = self._decode(frame)
        self._open -= 1
        if reply.status is not ReplyStatus.OK and not self.done.done():
            self.done.set_exception(WriteFailed(f"{reply.status} {reply.error}"))
        if not self.done.done():
            self._next()

    def _next(self) -> None:
        number, key = next(self._left, (0, None))
        if key is not None:
            self._open += 1
            body = Write(self._group, key, number, self._filler)
            self.send(msgspec.msgpack.encode(Request(number, body)))
        elif self._open == 0 and not self.done.done():
            self.done.set_result(None)


async def fill(nodes: LocalNodes, zone: Zone, writes: int) -> None:
    port = nodes.nodes[await nodes.leader(zone.groups[0])].client_port
    loop = asyncio.get_running_loop()
    _, filler = await loop.create_connection(
        lambda: Filler(zone.groups[0], map("key-{}".format, range(writes))), "127.0.0.1", port
    )
    await filler.done
    filler.close()


async def join(nodes: LocalNodes, name: str, writes: int, by: str) -> Row:
    """Fill a group on n0, let n1 join it, and measure until n1 is caught up."""
    zone = await nodes.create(name, on=["n0"])
    await fill(nodes, zone, writes)
    await asyncio.sleep(2.0)  # flushed and compacted
    cpu_s = sum(nodes.nodes[node].cpu_s() for node in ("n0", "n1"))
    await nodes.change(zone, ["n0", "n1"])
    begun_s = time.perf_counter()
    sent_bytes, ways = 0, set()
    while True:
        status = await nodes.status("n0", zone.groups[0])
        assert status is not None
        for progress in status.progress:
            sent_bytes = max(sent_bytes, progress.bytes_sent)
            if progress.bytes_sent:
                ways.add(progress.by)
        if status.caught_up:
            break
        await asyncio.sleep(0.02)
    lasted_s = time.perf_counter() - begun_s
    used_s = sum(nodes.nodes[node].cpu_s() for node in ("n0", "n1")) - cpu_s
    if by not in ways:
        raise SystemExit(f"{name} was to catch up by {by}, and did by {sorted(ways)}")
    await nodes.finish_change(zone, ["n0", "n1"])
    await nodes.until_equal(zone.groups[0], ["n0", "n1"])
    cpu_s_per_gb = used_s / sent_bytes * 1e9
    return _row(name, sent_bytes / 1e6, lasted_s) | {"CPU s/GB, both nodes": cpu_s_per_gb}


def raw_lmdb(directory: Path, megabytes: float) -> Row:
    """The same bytes in synced commits of one piece each, by one thread."""
    environment = lmdb.open(str(directory), map_size=4 << 30)
    value = bytes(VALUE_BYTES)
    per_piece = PIECE_BYTES // VALUE_BYTES
    pieces = int(megabytes * 1e6 / (per_piece * VALUE_BYTES)) + 1
    begun_s = time.perf_counter()
    for piece in range(pieces):
        first = piece * per_piece
        pairs = [((first + n).to_bytes(8, "big"), value) for n in range(per_piece)]
        with environment.begin(write=True) as txn, txn.cursor() as cursor:
            cursor.putmulti(pairs)
    lasted_s = time.perf_counter() - begun_s
    environment.close()
    written_mb = pieces * per_piece * VALUE_BYTES / 1e6
    return _row("raw LMDB, synced pieces", written_mb, lasted_s)


def loopback(megabytes: float) -> Row:
    """The same bytes through one TCP connection, in pieces, from one thread to another."""
    listener = socket.create_server(("127.0.0.1", 0))
    total = int(megabytes * 1e6)

    def receive() -> None:
        connection, _ = listener.accept()
        with connection:
            left = total
            while left > 0:
                left -= len(connection.recv(PIECE_BYTES))

    receiver = threading.Thread(target=receive)
    receiver.start()
    piece = bytes(PIECE_BYTES)
    begun_s = time.perf_counter()
    with socket.create_connection(listener.getsockname()) as sender:
        left = total
        while left > 0:
            sender.sendall(piece[: min(left, PIECE_BYTES)])
            left -= PIECE_BYTES
        receiver.join()
    lasted_s = time.perf_counter() - begun_s
    listener.close()
    return _row("copy over loopback", megabytes, lasted_s)


def _row(case: str, megabytes: float, seconds: float) -> Row:
    return {"case": case, "MB": megabytes, "s": seconds, "MB/s": megabytes / seconds}


async def measure(directory: Path) -> Result:
    maps = {"ZQ_LOG_MAP_BYTES": str(2 << 30), "ZQ_DATA_MAP_BYTES": str(4 << 30)}
    async with LocalNodes(directory / "nodes") as nodes:
        await nodes.start("n0", "n1", **maps)
        await join(nodes, "small", 100, "log")
        historical = await join(nodes, "historical", HISTORICAL_WRITES, "log")
        full = await join(nodes, "full", FULL_WRITES, "snapshot")
    raw = raw_lmdb(directory / "raw", full["MB"])
    for row in (historical, full):
        row["MB/s / raw LMDB"] = row["MB/s"] / raw["MB/s"]
    limits = [
        Limit(
            name=f"MB/s of a {row['case']} supply",
            found=row["MB/s"],
            value=LIMIT_MB_PER_S,
            at_least=True,
        )
        for row in (historical, full)
    ]
    return Result(rows=[historical, full, raw, loopback(full["MB"])], limits=limits)


if __name__ == "__main__":
    figures.run(__doc__, measure)
