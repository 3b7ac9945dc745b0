"""Our store and etcd as the same thing: three members on loopback that can be ended and begun."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from benchmarks.peers.etcd import ELECTION_MS, HEARTBEAT_MS, local_etcd, pids_of
from benchmarks.store.figures import NODES, create, leaders, pid_of
from tests.foreign.local_etcd import LocalEtcd
from tests.processes.store.local_nodes import LocalNodes, Zone, until
from zonequake_load.client.client import Client
from zonequake_load.targets.protocol import Target
from zonequake_store.raft.api import RaftSettings
from zonequake_target_etcd.client.target import EtcdTarget
from zonequake_target_store.client import ZonequakeTarget

ZONE = "peers"


class System(Protocol):
    """One Raft group of three. A member that was ended has its files."""

    name: str

    @property
    def members(self) -> list[str]: ...

    @property
    def pids(self) -> list[int]: ...

    async def target(self) -> Target:
        """The load's, opened; the caller closes it."""
        ...

    async def leader(self) -> str: ...

    def end(self, member: str, *, gently: bool) -> None:
        """SIGTERM or SIGKILL, until it is dead."""
        ...

    async def begin(self, member: str) -> None:
        """Start it again and wait until it has joined its group."""
        ...


class Zonequake:
    """Ours. The driver that gives its orders stands for the operator."""

    name = "zonequake"

    def __init__(self, nodes: LocalNodes, zone: Zone) -> None:
        self.nodes = nodes
        self.zone = zone

    @property
    def members(self) -> list[str]:
        return NODES

    @property
    def pids(self) -> list[int]:
        return [pid_of(self.nodes, name) for name in NODES]

    async def target(self) -> Target:
        seeds = [f"127.0.0.1:{node.client_port}" for node in self.nodes.nodes.values()]
        target = ZonequakeTarget(Client(ZONE, seeds, rng=random.Random(1)))
        await target.open()
        return target

    async def leader(self) -> str:
        return await self.nodes.leader(self.zone.groups[0])

    def end(self, member: str, *, gently: bool) -> None:
        node = self.nodes.nodes[member]
        if not gently:
            node.kill()
            return
        node.signal_stop()
        assert node.process is not None
        node.process.wait()

    async def begin(self, member: str) -> None:
        await self.nodes.restart(self.zone, member)
        group = self.zone.groups[0]

        async def follows() -> bool:
            found = await leaders(self.nodes, [group])
            if not found:
                return False
            leader = await self.nodes.status(found[group], group)
            mine = await self.nodes.status(member, group)
            return leader is not None and mine is not None and mine.applied >= leader.commit

        await until(follows, f"{member} has caught up", timeout_s=30)


class Etcd:
    """etcd, with its defaults but for the times."""

    name = "etcd"

    def __init__(self, etcd: LocalEtcd) -> None:
        self.etcd = etcd

    @property
    def members(self) -> list[str]:
        return list(self.etcd.servers)

    @property
    def pids(self) -> list[int]:
        return pids_of(self.etcd)

    async def target(self) -> Target:
        target = EtcdTarget(ZONE, self.etcd.seeds, rng=random.Random(1))
        await target.open()
        return target

    async def leader(self) -> str:
        return await self.etcd.leader()

    def end(self, member: str, *, gently: bool) -> None:
        server = self.etcd.servers[member]
        if gently:
            server.stop()
        else:
            server.kill()

    async def begin(self, member: str) -> None:
        self.etcd.servers[member].spawn(self.etcd.cluster)
        leader = await self.etcd.leader()
        committed = (await self.etcd.api(leader).status()).raft_index

        async def follows() -> bool:
            return (await self.etcd.api(member).status()).raft_applied_index >= committed

        await until(follows, f"{member} has caught up", timeout_s=30)


@asynccontextmanager
async def zonequake(folder: Path) -> AsyncIterator[Zonequake]:
    """Ours, with etcd's times."""
    core = RaftSettings()
    ticks = round(HEARTBEAT_MS / 1e3 / core.tick_s)
    assert round(core.election_ticks * core.tick_s * 1e3) == ELECTION_MS
    async with LocalNodes(folder) as nodes:
        await nodes.start(*NODES, ZQ_HEARTBEAT_TICKS=str(ticks))
        yield Zonequake(nodes, await create(nodes, ZONE, 1, fsync=True))


@asynccontextmanager
async def etcd(folder: Path) -> AsyncIterator[Etcd]:
    """etcd."""
    async with local_etcd(folder) as cluster:
        yield Etcd(cluster)
