"""Three real etcd processes on loopback, from the embedded cluster's build, and etcd's own load."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "processes" / "store"))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "foreign"))

from built_once import built_once
from local_nodes import until
from ports import free_ports

from zonequake_chaos.cluster import tools
from zonequake_chaos.cluster.toolchain import find_go

HEARTBEAT_MS = 200
ELECTION_MS = 1000
"""etcd wants at least five heartbeats in an election time-out."""

_TOOL = Path(__file__).parent / "etcd_tool"


@dataclass
class Member:
    """One etcd and its process, which may be dead."""

    name: str
    directory: Path
    client_port: int
    peer_port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def client_url(self) -> str:
        return f"http://127.0.0.1:{self.client_port}"

    @property
    def peer_url(self) -> str:
        return f"http://127.0.0.1:{self.peer_port}"

    def end(self, *, gently: bool) -> None:
        """SIGTERM or SIGKILL, and wait until it is dead."""
        assert self.process is not None
        if gently:
            self.process.terminate()
        else:
            self.process.kill()
        self.process.wait()


@dataclass
class LocalEtcd:
    """A cluster of three under one directory; it syncs its log, as it does by default."""

    directory: Path
    members: dict[str, Member] = field(default_factory=dict)

    async def __aenter__(self) -> LocalEtcd:
        self.directory.mkdir(parents=True)
        for name in ("e0", "e1", "e2"):
            client, peer = free_ports(2)
            self.members[name] = Member(name, self.directory / name, client, peer)
        for name in self.members:
            self.spawn(name)
        await until(self._is_led, "etcd has a leader", timeout_s=30)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in self.members.values():
            if member.process is not None and member.process.poll() is None:
                member.end(gently=False)

    def spawn(self, name: str) -> None:
        """Start a member, a new one or a dead one."""
        member = self.members[name]
        cluster = ",".join(f"{each.name}={each.peer_url}" for each in self.members.values())
        with (self.directory / f"{name}.log").open("ab") as log:
            member.process = subprocess.Popen(
                [
                    str(tools.kubectl_path().parent / "zonequake-node"),
                    "etcd",
                    f"--name={name}",
                    f"--data-dir={member.directory}",
                    f"--listen-client-urls={member.client_url}",
                    f"--advertise-client-urls={member.client_url}",
                    f"--listen-peer-urls={member.peer_url}",
                    f"--initial-advertise-peer-urls={member.peer_url}",
                    f"--initial-cluster={cluster}",
                    f"--heartbeat-interval={HEARTBEAT_MS}",
                    f"--election-timeout={ELECTION_MS}",
                    "--log-level=error",
                ],
                stdout=log,
                stderr=log,
            )

    @property
    def pids(self) -> list[int]:
        return [each.process.pid for each in self.members.values() if each.process is not None]

    @property
    def endpoints(self) -> list[str]:
        return [f"127.0.0.1:{each.client_port}" for each in self.members.values()]

    async def leader(self) -> str:
        """The member that leads, once there is one."""
        await until(self._is_led, "etcd has a leader", timeout_s=30)
        statuses = await self._statuses()
        (leader,) = {status["leader"] for status in statuses.values()}
        return next(
            name for name, each in statuses.items() if each["header"]["member_id"] == leader
        )

    async def _is_led(self) -> bool:
        statuses = await self._statuses()
        leaders = {status.get("leader", "0") for status in statuses.values()}
        return len(statuses) == len(self.members) and len(leaders) == 1 and leaders != {"0"}

    async def _statuses(self) -> dict[str, dict[str, Any]]:
        """What each member that answers says."""
        found = {}
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=1)) as session:
            for name, member in self.members.items():
                url = f"{member.client_url}/v3/maintenance/status"
                try:
                    async with session.post(url, json={}) as response:
                        if response.status == 200:
                            found[name] = await response.json()
                except (aiohttp.ClientError, TimeoutError):
                    continue
        return found


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
        leader = etcd.members[await etcd.leader()]
        process = await asyncio.create_subprocess_exec(
            str(self.program),
            f"--endpoints=127.0.0.1:{leader.client_port}",
            f"--clients={clients}",
            f"--conns={clients}",
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
