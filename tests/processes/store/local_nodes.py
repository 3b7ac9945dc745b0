"""Real data nodes as processes on loopback, and a small driver that plays the operator.

async with LocalNodes(tmp_path) as nodes:
    await nodes.start("n0", "n1", "n2")
    zone = await nodes.create("z", partitions=1, on=["n0", "n1", "n2"])
    client = nodes.client()
    await client.write(zone.groups[0], "key", 1)
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import aiohttp
import msgspec
import pytest

from tests.patience import PATIENCE_S
from tests.processes.store.certificates import Certificates
from tests.processes.store.local_node import Node
from tests.processes.store.ports import free_ports
from tests.processes.store.store_client import Client
from zonequake_protocol.admin import (
    Bootstrap,
    ChangePeers,
    DumpEntry,
    DumpHeader,
    Grant,
    Order,
    OrderBatch,
    OrderReplies,
    OrderReply,
    OrderStatus,
    PeerName,
    ReplicaRole,
    ReplicaSize,
    ReplicasReport,
    ReplicaStatus,
    StartReplica,
    StopReplica,
    StoreEvent,
)
from zonequake_protocol.client import partition_of
from zonequake_tls.identity import TlsRole

BOTH = ("tcp", "tls")
MOSTLY_TLS = (pytest.param("tcp", marks=pytest.mark.long), "tls")
"""As releases are installed; without TLS in `make test-all` alone."""


@dataclass
class Zone:
    """A zone that the driver keeps: groups, members and the highest token given."""

    name: str
    partitions: int
    groups: list[str]
    token: int
    members: list[str]
    settings: dict[str, object]


class LocalNodes:
    """Data nodes under one directory."""

    def __init__(self, directory: Path, certificates: Certificates | None = None) -> None:
        """With certificates the nodes speak TLS, and so does the driver."""
        self.directory = directory
        self.certificates = certificates
        self.nodes: dict[str, Node] = {}
        self._clients: list[Client] = []
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> LocalNodes:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_S))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for client in self._clients:
            client.close()
        for node in self.nodes.values():
            if node.is_alive:
                node.kill()
        assert self._session is not None
        await self._session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        assert self._session is not None
        return self._session

    def client(self, name: str | None = None) -> Client:
        name = name or f"client-{len(self._clients)}"
        tls = self.certificates
        credentials = None if tls is None else tls.credentials(TlsRole.LOAD)
        client = Client(name, nodes=self.nodes, port_of=self._client_port, credentials=credentials)
        self._clients.append(client)
        return client

    def _client_port(self, node: str) -> int:
        return self.nodes[node].client_port

    async def start(self, *names: str, **environment: str) -> None:
        """Start nodes, new ones or dead ones, and wait until they are ready."""
        for name in names:
            self.prepare(name, **environment).spawn()
        await asyncio.gather(*(self._ready(self.nodes[name]) for name in names))

    def prepare(self, name: str, **environment: str) -> Node:
        """A node that is not started yet, or as it is."""
        if name not in self.nodes:
            peer, client, admin, orders = free_ports(4)
            tls = self.certificates.environment(TlsRole.STORE) if self.certificates else {}
            self.nodes[name] = Node(
                name, self.directory / name, peer, client, admin, orders, {**tls, **environment}
            )
        return self.nodes[name]

    async def _ready(self, node: Node) -> None:
        async def answers() -> bool:
            if not node.is_alive:
                log = (self.directory / f"{node.name}.log").read_text()
                raise AssertionError(f"{node.name} ended at its start:\n{log}")
            with contextlib.suppress(aiohttp.ClientError):
                async with self.session.get(f"{node.admin_url}/readyz") as response:
                    return response.status == 200
            return False

        await until(answers, f"{node.name} is ready")

    # ── the operator's part ──────────────────────────────────────────────────────────────────

    async def order(self, node: str, *orders: Order) -> list[OrderReply]:
        body = msgspec.json.encode(OrderBatch(orders=list(orders)))
        async with self._change(node, "orders", body) as response:
            assert response.status == 200, await response.text()
            return msgspec.json.decode(await response.read(), type=OrderReplies).replies

    async def report(self, node: str) -> ReplicasReport:
        async with self.session.get(f"{self.nodes[node].admin_url}/admin/v1/replicas") as response:
            return msgspec.json.decode(await response.read(), type=ReplicasReport)

    async def status(self, node: str, group: str) -> ReplicaStatus | None:
        report = await self.report(node)
        return next((each for each in report.replicas if each.group == group), None)

    async def leader(self, group: str, *, among: Sequence[str] | None = None) -> str:
        """The node that leads the group at the highest term, once there is one."""
        found: list[tuple[int, str]] = []

        async def is_led() -> bool:
            found.clear()
            for name, node in self.nodes.items():
                if not node.is_alive or (among is not None and name not in among):
                    continue
                with contextlib.suppress(aiohttp.ClientError):  # killed meanwhile
                    status = await self.status(name, group)
                    if status is not None and status.role is ReplicaRole.LEADER:
                        found.append((status.term, name))
            return bool(found)

        await until(is_led, f"{group} has a leader")
        return max(found)[1]

    def addresses(self) -> dict[str, str]:
        return {name: node.peer_address for name, node in self.nodes.items()}

    def start_order(self, zone: Zone, partition: int) -> StartReplica:
        return StartReplica(
            group=zone.groups[partition],
            zone=zone.name,
            partition=partition,
            partitions=zone.partitions,
            token=zone.token,
            addresses=self.addresses(),
            **zone.settings,  # type: ignore[arg-type]
        )

    async def start_replicas(self, zone: Zone, *names: str) -> dict[str, list[PeerName]]:
        """Send start orders; returns each partition's peers among these nodes."""
        peers: dict[str, list[PeerName]] = {group: [] for group in zone.groups}
        for name in names:
            orders = [self.start_order(zone, p) for p in range(zone.partitions)]
            for group, reply in zip(zone.groups, await self.order(name, *orders), strict=True):
                assert reply.status is OrderStatus.RECEIVED, reply
                assert reply.incarnation is not None
                peers[group].append(PeerName(name, reply.incarnation))
        return peers

    async def create(
        self, name: str, *, on: list[str], partitions: int = 1, **settings: object
    ) -> Zone:
        """Create a zone whose partitions all live on the same nodes, and wait for leaders."""
        groups = [f"{name}.00000000.{p}" for p in range(partitions)]
        zone = Zone(name, partitions, groups, 1, list(on), settings)
        peers = await self.start_replicas(zone, *on)
        for node in on:
            orders = [Bootstrap(group=g, token=1, peers=peers[g]) for g in groups]
            for reply in await self.order(node, *orders):
                assert reply.status is OrderStatus.RECEIVED, reply
        for group in groups:
            await self.leader(group)
        return zone

    async def restart(self, zone: Zone, *names: str) -> None:
        """Start dead nodes again and give them their start orders."""
        await self.start(*names)
        await self.start_replicas(zone, *names)

    async def change(self, zone: Zone, to: list[str], *, partition: int = 0) -> str:
        """Begin to move one partition; returns the leader that took the order."""
        zone.token += 1
        group = zone.groups[partition]
        fresh = [name for name in to if name not in zone.members]
        for name in fresh:
            await self.order(name, self.start_order(zone, partition))
        peers = await self.peers(group, to)
        leader = ""

        async def taken() -> bool:
            nonlocal leader
            leader = await self.leader(group)
            status = await self.status(leader, group)
            assert status is not None
            return await self.takes_change(leader, status, token=zone.token, peers=peers)

        await until(taken, f"a leader of {group} takes the change")
        return leader

    async def takes_change(
        self, leader: str, status: ReplicaStatus, *, token: int, peers: list[PeerName]
    ) -> bool:
        """Order the change once, of the group and in the term of `status`; returns whether it was
        received."""
        order = ChangePeers(
            group=status.group,
            term=status.term,
            token=token,
            peers=peers,
            addresses=self.addresses(),
        )
        (reply,) = await self.order(leader, order)
        return reply.status is OrderStatus.RECEIVED

    async def peers(self, group: str, names: list[str]) -> list[PeerName]:
        found: list[PeerName] = []
        for name in names:
            status = await self.status(name, group)
            assert status is not None, f"{group} is not on {name}"
            found.append(PeerName(name, status.incarnation))
        return found

    async def finish_change(self, zone: Zone, to: list[str], *, partition: int = 0) -> None:
        """Grant the change when it is caught up, wait for its end, erase who left."""
        group = zone.groups[partition]

        async def is_done() -> bool:
            leader = await self.leader(group)
            status = await self.status(leader, group)
            assert status is not None
            if status.configuration is not None and status.configuration.token == zone.token:
                return status.stage == "NONE" and not status.configuration.old_peers
            if status.stage == "NONE":
                peers = await self.peers(group, to)
                again = ChangePeers(
                    group=group,
                    term=status.term,
                    token=zone.token,
                    peers=peers,
                    addresses=self.addresses(),
                )
                await self.order(leader, again)
            if status.caught_up:
                grant = Grant(
                    group=group, term=status.term, token=zone.token, peers=status.stage_peers
                )
                await self.order(leader, grant)
            return False

        await until(is_done, f"the change of {group} to {to} ends")
        for name in set(zone.members) - set(to):
            if not self.nodes[name].is_alive:
                continue
            status = await self.status(name, group)
            if status is not None:
                stop = StopReplica(group=group, token=zone.token, incarnation=status.incarnation)
                (reply,) = await self.order(name, stop)
                assert reply.status is OrderStatus.RECEIVED, reply
        zone.members = list(to)

    async def begin_anew(self, zone: Zone, name: str) -> None:
        """Erase a broken replica and let it come back from its peers."""
        group = zone.groups[0]
        status = await self.status(name, group)
        assert status is not None
        order = StopReplica(group=group, token=zone.token, incarnation=status.incarnation)
        (erased,) = await self.order(name, order)
        assert erased.status is OrderStatus.RECEIVED, erased
        await self.come_back(zone, name, was=status.incarnation)

    async def come_back(self, zone: Zone, name: str, *, was: str) -> None:
        """Let a replica whose files are gone come back from its peers, as another incarnation."""
        (started,) = await self.order(name, self.start_order(zone, 0))
        assert started.status is OrderStatus.RECEIVED, started
        assert started.incarnation != was
        await self.change(zone, zone.members)
        await self.finish_change(zone, zone.members)

    async def dump(self, node: str, group: str) -> tuple[DumpHeader, list[DumpEntry]]:
        path, whom = f"/admin/v1/replicas/{group}/dump", {}
        base = self.nodes[node].admin_url
        if self.certificates is not None:
            base = self.nodes[node].orders_url
            whom = self.certificates.to_store(TlsRole.OPERATOR)
        async with self.session.get(base + path, **whom) as response:
            assert response.status == 200, await response.text()
            header, *lines = (await response.read()).splitlines()
        return (
            msgspec.json.decode(header, type=DumpHeader),
            [msgspec.json.decode(line, type=DumpEntry) for line in lines],
        )

    async def size(self, node: str, group: str) -> ReplicaSize:
        url = f"{self.nodes[node].admin_url}/admin/v1/replicas/{group}/size"
        async with self.session.get(url) as response:
            assert response.status == 200, await response.text()
            return msgspec.json.decode(await response.read(), type=ReplicaSize)

    async def events(self, node: str, after: int = 0) -> list[StoreEvent]:
        url = f"{self.nodes[node].admin_url}/admin/v1/events?after={after}"
        async with self.session.get(url) as response:
            lines = (await response.read()).splitlines()
        return [msgspec.json.decode(line, type=StoreEvent) for line in lines]

    async def metrics(self, node: str) -> str:
        async with self.session.get(f"{self.nodes[node].admin_url}/metrics") as response:
            return await response.text()

    async def health(self, node: str) -> tuple[int, str]:
        async with self.session.get(f"{self.nodes[node].admin_url}/healthz") as response:
            return response.status, await response.text()

    async def drain(self, node: str) -> int:
        async with self._change(node, "drain", b"") as response:
            return response.status

    def _change(
        self, node: str, path: str, body: bytes
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        if self.certificates is None:
            return self.session.post(f"{self.nodes[node].admin_url}/admin/v1/{path}", data=body)
        return self.session.post(
            f"{self.nodes[node].orders_url}/admin/v1/{path}",
            data=body,
            **self.certificates.to_store(TlsRole.OPERATOR),
        )

    async def until_equal(self, group: str, names: list[str]) -> list[DumpHeader]:
        """Wait until these replicas hold the same; returns their dumps' headers."""
        headers: list[DumpHeader] = []

        async def are_equal() -> bool:
            headers[:] = [(await self.dump(name, group))[0] for name in names]
            return len({(header.applied, header.digest) for header in headers}) == 1

        await until(are_equal, f"{group} is the same on {names}")
        return headers


def key_of(partition: int, partitions: int, number: int) -> str:
    """The `number`-th key of a partition."""
    keys = (f"k{n}" for n in itertools.count())
    mine = (key for key in keys if partition_of(key, partitions) == partition)
    return next(itertools.islice(mine, number, None))


async def until(
    condition: Callable[[], Awaitable[bool]],
    what: str,
    *,
    timeout_s: float = PATIENCE_S,
    every_s: float = 0.05,
) -> None:
    """Wait for a condition. Raises AssertionError with `what` if it does not come."""
    end_s = time.monotonic() + timeout_s
    while not await condition():
        if time.monotonic() > end_s:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        await asyncio.sleep(every_s)
