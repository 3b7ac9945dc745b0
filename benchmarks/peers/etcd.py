"""Three real etcd processes on loopback, from the embedded cluster's build, and etcd's own load."""

from __future__ import annotations

import asyncio
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.foreign.built_once import built_once
from tests.foreign.local_etcd import LocalEtcd
from zonequake_cluster.supply.toolchain import find_go

HEARTBEAT_MS = 200
ELECTION_MS = 1000
"""etcd wants at least five heartbeats in an election time-out."""

_TOOL = Path(__file__).parent / "etcd_tool"


def local_etcd(directory: Path) -> LocalEtcd:
    """Three members that sync their logs, as they do by default."""
    directory.mkdir(parents=True)
    options = [
        f"--heartbeat-interval={HEARTBEAT_MS}",
        f"--election-timeout={ELECTION_MS}",
        "--log-level=error",
    ]
    return LocalEtcd(directory, options=options, relayed=False)


def pids_of(etcd: LocalEtcd) -> list[int]:
    """Of the members that run."""
    return [one.process.pid for one in etcd.servers.values() if one.process is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFigures:
    """What etcd's own benchmark tool says of one run."""

    writes_per_s: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """etcd's `tools/benchmark`, compiled."""

    program: Path

    @classmethod
    def build(cls) -> Tool:
        """Compiles it if need be. Raises BuildFailed without Go, CalledProcessError otherwise."""

        def build(folder: Path) -> None:
            subprocess.run(
                [
                    find_go(print),
                    "build",
                    "-trimpath",
                    "-o",
                    f"{folder}/benchmark",
                    "go.etcd.io/etcd/v3/tools/benchmark",
                ],
                cwd=_TOOL,
                check=True,
            )

        folder = built_once(_TOOL, suffixes=(".mod", ".sum"), build=build)
        return cls(program=folder / "benchmark")

    async def put(
        self, etcd: LocalEtcd, *, clients: int, total: int, value_bytes: int, rate: int = 0
    ) -> ToolFigures:
        """So many writes to the leader by so many clients; `rate` 0: as fast as they can."""
        leader = etcd.servers[await etcd.leader()]
        process = await asyncio.create_subprocess_exec(
            str(self.program),
            f"--endpoints=127.0.0.1:{leader.client_port}",
            f"--clients={clients}",
            "--conns=1",  # as ours: a client library has one for all that its process asks
            "--precise",
            "put",
            f"--total={total}",
            f"--val-size={value_bytes}",
            "--key-space-size=10000",
            f"--rate={rate}",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        out, _ = await process.communicate()
        text = out.decode()
        if process.returncode or "Error distribution" in text:
            raise SystemExit(f"etcd's benchmark ended with {process.returncode}:\n{text}")
        return ToolFigures(
            writes_per_s=_number(r"Requests/sec:\s+([\d.e+-]+)", text),
            p50_ms=_number(r"50% in ([\d.e+-]+) secs", text) * 1e3,
            p99_ms=_number(r"99% in ([\d.e+-]+) secs", text) * 1e3,
        )


def _number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    if found is None:
        raise SystemExit(f"found no {pattern!r} in what etcd's benchmark says:\n{text}")
    return float(found[1])
