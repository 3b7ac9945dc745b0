"""What TLS costs: CPU of a write over all replicas, latency, and the handshake itself.

    python -m benchmarks.store.bench_tls

Real data nodes on loopback, one partition with fsync, clients in this process, whose CPU does not
count. The nodes with and without TLS take turns, so that what else the machine does meets both.
"""

from __future__ import annotations

import ssl
import time
from pathlib import Path
from statistics import median

from benchmarks.store import figures
from benchmarks.store.bench_writes import Clients, closed_loop, connect
from benchmarks.store.figures import NODES, Limit, Result, Row, create, leaders, pid_of
from tests.processes.store.certificates import Certificates
from tests.processes.store.local_nodes import LocalNodes
from zonequake_tls.credentials import Credentials
from zonequake_tls.identity import TlsRole

CLIENTS = (1, 64)
ROUNDS = 3
SECONDS = 4.0
LIMIT_RATIO = 1.5  # at 64 clients
HANDSHAKES = 300


async def one(directory: Path, certificates: Certificates | None, name: str) -> list[Row]:
    """A round of fresh nodes."""
    async with LocalNodes(directory, certificates) as nodes:
        await nodes.start(*NODES)
        zone = await create(nodes, "z", 1)
        group = zone.groups[0]
        leader = nodes.nodes[(await leaders(nodes, [group]))[group]]
        pids = [pid_of(nodes, node) for node in NODES]
        words = certificates.to_store(TlsRole.LOAD) if certificates else {}
        return [
            await closed_loop(
                f"{clients} clients, {name}",
                await connect(Clients, group, leader.client_port, **words),
                pids,
                clients,
                SECONDS,
            )
            for clients in CLIENTS
        ]


def handshake(credentials: Credentials) -> Row:
    """Both sides of one, in memory."""
    server = credentials.for_accepting(TlsRole.STORE)
    client = credentials.for_connecting(TlsRole.STORE)
    name = credentials.name_of(TlsRole.STORE)
    begun_s = time.process_time()
    for _ in range(HANDSHAKES):
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        calling = client.wrap_bio(back, there, server_hostname=name)
        answering = server.wrap_bio(there, back, server_side=True)
        for side in (calling, answering, calling, answering):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    used_s = time.process_time() - begun_s
    return {"case": "a handshake, both sides", "CPU us": used_s / HANDSHAKES * 1e6}


async def measure(directory: Path) -> Result:
    certificates = Certificates(directory / "certificates")
    found: dict[str, list[Row]] = {}
    for number in range(ROUNDS):
        for over, those in (("TCP", None), ("TLS", certificates)):
            for row in await one(directory / f"{number}-{over}", those, over):
                found.setdefault(row["case"], []).append(row)
    columns = ("writes/s", "p50 ms", "p99 ms", "CPU us/write")
    rows: list[Row] = [
        {"case": case} | {column: median(row[column] for row in rounds) for column in columns}
        for case, rounds in found.items()
    ]
    by_case = {row["case"]: row for row in rows}
    for clients in CLIENTS:
        plain = by_case[f"{clients} clients, TCP"]
        row = by_case[f"{clients} clients, TLS"]
        row["CPU / TCP"] = row["CPU us/write"] / plain["CPU us/write"]
        row["p99 / TCP"] = row["p99 ms"] / plain["p99 ms"]
    rows.append(handshake(certificates.credentials(TlsRole.STORE)))
    ratio = by_case["64 clients, TLS"]["CPU / TCP"]
    limit = Limit(name="CPU of a write with TLS / without", found=ratio, value=LIMIT_RATIO)
    return Result(rows=rows, limits=[limit])


if __name__ == "__main__":
    figures.run(__doc__, measure)
