"""Three real etcd servers on loopback, of the build that the embedded cluster runs on."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp

from tests.foreign.peer_relay import PeerRelays
from tests.processes.store.ports import free_ports
from zonequake_cluster.supply import tools
from zonequake_target_etcd.client.protocol.errors import EtcdError
from zonequake_target_etcd.interface.gateway import EtcdApi, EtcdStatus

NAMES = ("m0", "m1", "m2")
LIMIT_S = 180.0
ANSWER_S = 2.0
"""How long a member may take to say how it is; one that hangs says nothing."""


@dataclass
class Server:
    """One member. The others know it by the port of its relay."""

    name: str
    directory: Path
    client_port: int
    peer_port: int
    relay_port: int
    options: Sequence[str] = ()
    process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self.directory / self.name

    def spawn(self, cluster: str) -> None:
        client = f"http://127.0.0.1:{self.client_port}"
        with (self.directory / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    str(tools.kubectl_path().parent / "zonequake-node"),
                    "etcd",
                    f"--name={self.name}",
                    f"--data-dir={self.data}",
                    f"--listen-client-urls={client}",
                    f"--advertise-client-urls={client}",
                    f"--listen-peer-urls=http://127.0.0.1:{self.peer_port}",
                    f"--initial-advertise-peer-urls=http://127.0.0.1:{self.relay_port}",
                    f"--initial-cluster={cluster}",
                    *self.options,
                ],
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """SIGKILL, and wait until it is dead."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """SIGTERM, and wait until it has ended."""
        assert self.process is not None
        self.process.terminate()
        self.process.wait()

    def wipe(self) -> None:
        """Remove all that a dead member had stored."""
        assert self.process is not None
        assert self.process.poll() is not None, "it runs"
        shutil.rmtree(self.data)

    def rot(self, values: Iterable[bytes]) -> None:
        """Change stored numbers in a dead member's database; its pages have no checksums."""
        file = self.data / "member" / "snap" / "db"
        content = file.read_bytes()
        for value in values:
            assert value in content, "the backend has not stored it yet"
            content = content.replace(value, (b"8" if value[:1] == b"9" else b"9") + value[1:])
        file.write_bytes(content)

    def pause(self) -> None:
        """SIGSTOP: alive, and answering nothing."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)


class LocalEtcd:
    """Three members and what stands between them; killed at the end.

    `options` are the servers' own. Without `relayed` nothing stands between them.
    """

    def __init__(
        self, directory: Path, *, options: Sequence[str] = (), relayed: bool = True
    ) -> None:
        ports = iter(free_ports(3 * len(NAMES)))
        self.servers = {}
        for name in NAMES:
            client, peer, relay = next(ports), next(ports), next(ports)
            self.servers[name] = Server(
                name, directory, client, peer, relay if relayed else peer, options
            )
        self.cluster = ",".join(
            f"{one.name}=http://127.0.0.1:{one.relay_port}" for one in self.servers.values()
        )
        self.relays = PeerRelays()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> LocalEtcd:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60))
        for server in self.servers.values():
            if server.relay_port != server.peer_port:
                await self.relays.add(server.name, server.relay_port, server.peer_port)
            server.spawn(self.cluster)
        await self.leader()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for server in self.servers.values():
            if server.process is not None and server.process.poll() is None:
                server.kill()
        await self.relays.close()
        assert self._session is not None
        await self._session.close()

    @property
    def seeds(self) -> list[str]:
        return [f"127.0.0.1:{one.client_port}" for one in self.servers.values()]

    def api(self, name: str) -> EtcdApi:
        """Speaks to this member."""

        async def post(path: str, body: Mapping[str, object]) -> Mapping[str, Any]:
            return await self._post(name, path, body)

        return EtcdApi(post)

    async def _post(self, name: str, path: str, body: Mapping[str, object]) -> Mapping[str, Any]:
        assert self._session is not None
        url = f"http://127.0.0.1:{self.servers[name].client_port}{path}"
        async with self._session.post(url, json=body) as response:
            answer: Mapping[str, Any] = await response.json(content_type=None)
            return answer

    async def statuses(self) -> dict[str, EtcdStatus]:
        """Of the members that answer."""
        found = {}
        for name in self.servers:
            try:
                async with asyncio.timeout(ANSWER_S):
                    found[name] = await self.api(name).status()
            except (aiohttp.ClientError, TimeoutError, EtcdError):
                continue
        return found

    async def leader(self, *, members: int = len(NAMES)) -> str:
        """The leader's name, as soon as so many members agree on one."""
        give_up = time.monotonic() + LIMIT_S
        while time.monotonic() < give_up:
            statuses = await self.statuses()
            leaders = {one.leader for one in statuses.values()}
            leads = [name for name, one in statuses.items() if one.leads]
            if len(statuses) >= members and len(leaders) == len(leads) == 1:
                return leads[0]
            await asyncio.sleep(0.1)
        raise AssertionError(f"no leader of {members} members within {LIMIT_S} s: {statuses}")

    async def move_leader(self) -> None:
        """Hand leadership over to another member."""
        give_up = time.monotonic() + LIMIT_S
        while True:
            leader = await self.leader()
            members = {one.name: one.id for one in await self.api(leader).members()}
            heir = next(name for name in NAMES if name != leader)
            body = {"targetID": str(members[heir])}
            # The leader answers once the heir leads, and with nothing but an error: one that has
            # stood still may lead no more, or gives up an heir that stands still.
            answer = await self._post(leader, "/v3/maintenance/transfer-leadership", body)
            if "code" not in answer:
                break
            assert time.monotonic() < give_up, answer
        await self.leader()

    async def cut(self, name: str) -> None:
        """Cut a member off from the others, not from clients."""
        self.relays.cut(name, (await self.api(name).status()).header.member_id)

    async def settled(self) -> int:
        """Wait until all members have applied the same; returns the revision."""
        give_up = time.monotonic() + LIMIT_S
        while time.monotonic() < give_up:
            statuses = await self.statuses()
            applied = {(one.header.revision, one.raft_applied_index) for one in statuses.values()}
            if len(statuses) == len(NAMES) and len(applied) == 1:
                return applied.pop()[0]
            await asyncio.sleep(0.1)
        raise AssertionError(f"the members have not settled within {LIMIT_S} s: {statuses}")
