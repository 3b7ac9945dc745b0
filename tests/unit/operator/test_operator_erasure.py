"""The erasure of a dropped zone's replicas: whose they are, and what may not come behind it."""

from __future__ import annotations

import asyncio
from typing import Any

from zonequake_operator.apply import ZoneReconciler
from zonequake_operator.gather import View
from zonequake_operator.model import Topology, TopologyNode
from zonequake_store.admin_protocol import (
    NodeIdentity,
    Order,
    OrderReplies,
    OrderReply,
    OrderStatus,
    ReplicasReport,
    ReplicaStatus,
    Role,
    StartReplica,
    StopReplica,
)

UID = "0123456789"
OWNER = {"controller": True, "uid": UID}
ZONE: dict[str, Any] = {
    "metadata": {
        "name": "z",
        "namespace": "n",
        "uid": UID,
        "generation": 1,
        "resourceVersion": "1",
    },
    "spec": {"partitions": 1, "replicas": 1},
    "status": {
        "observedGeneration": 1,
        "revision": 1,
        "handledRevision": 1,
        "topologyVersion": 1,
        "dataNodes": ["a"],
    },
}
PARTITION: dict[str, Any] = {
    "metadata": {"name": "z-0", "resourceVersion": "1", "ownerReferences": [OWNER]},
    "spec": {"partition": 0},
    "status": {"stable": {"nodes": ["a"]}, "changeTriggerRevision": 1},
}


def view(*groups: str, nodes: str = "a") -> View:
    """Nodes that hold a replica of each of these groups; each one's address is its name."""
    joined = {
        name: TopologyNode(
            name=name,
            process_incarnation="p",
            storage_incarnation="s",
            pod_uid="u",
            restarts=0,
            attributes={},
            peer_address="",
            since=1,
        )
        for name in nodes
    }
    identities = {
        name: NodeIdentity(
            name=name,
            process_incarnation="p",
            storage_incarnation="s",
            pod_uid="u",
            attributes={},
            peer_address="",
            client_address="",
        )
        for name in nodes
    }
    held = [
        ReplicaStatus(
            group=group, zone="z", partition=0, incarnation="s", role=Role.WAITING, term=0
        )
        for group in groups
    ]
    return View(
        number=9,
        topology=Topology(version=1, nodes=joined),
        reports={n: ReplicasReport(node=each, replicas=held) for n, each in identities.items()},
        addresses={name: name for name in nodes},
    )


class Edges:
    """The API server, which takes all; the fleet of one view; a node that is slow to start."""

    def __init__(self, *groups: str) -> None:
        self.view = view(*groups)
        self.answers = asyncio.Event()
        self.asked = asyncio.Event()
        self.sent: list[Order] = []

    def reconciler(self) -> ZoneReconciler:
        edges: dict[str, Any] = {"kube": self, "store": self, "fleet": self, "events": self}
        return ZoneReconciler(
            "z",
            **edges,
            resync_s=5.0,
            view_period_s=5.0,
            monotonic_s=lambda: 0.0,
            wall_ms=lambda: 1000,
        )

    async def get_zone(self, _: str) -> dict[str, Any]:
        return ZONE

    async def list_partitions(self, _: str) -> list[dict[str, Any]]:
        return [PARTITION]

    async def write_status(self, *_: object) -> str:
        return "2"

    async def post(self, *_: object) -> None:
        """Events are nobody's concern here."""

    def tell(self, *_: object, **__: object) -> None:
        """Nor is the pace."""

    async def next_view(self, *_: object) -> View:
        return View(
            number=self.view.number + 2,
            topology=self.view.topology,
            reports=self.view.reports,
            addresses=self.view.addresses,
        )

    async def send(self, _: str, orders: list[Order]) -> OrderReplies:
        self.asked.set()
        if any(isinstance(order, StartReplica) for order in orders):
            await self.answers.wait()
        self.sent += orders
        return OrderReplies(
            process_incarnation="p",
            replies=[OrderReply(status=OrderStatus.RECEIVED) for _ in orders],
        )


async def test_no_order_of_a_step_comes_behind_the_erasure() -> None:
    edges = Edges("z.01234567.0")
    reconciler = edges.reconciler()
    step = asyncio.create_task(reconciler.step(edges.view))
    await edges.asked.wait()
    erasure = asyncio.create_task(reconciler.erase(edges.view))
    for _ in range(20):
        await asyncio.sleep(0)
    edges.answers.set()
    await asyncio.gather(step, erasure)
    kinds = [type(order) for order in edges.sent]
    assert StartReplica in kinds
    assert kinds[-1] is StopReplica
    assert StopReplica not in kinds[:-1]


async def test_only_the_zones_own_replicas_are_erased() -> None:
    mine = "z.01234567.0"
    edges = Edges(mine, "z.01234567.other.89abcdef.0", "z.fedcba98.0", "y.01234567.0", "z.0")
    holders, silent = await edges.reconciler().erase(edges.view)
    assert [order.group for order in edges.sent if isinstance(order, StopReplica)] == [mine]
    assert (holders, silent) == ({"a"}, set())


async def test_an_order_that_no_step_waits_for_any_more_comes_before_the_erasure() -> None:
    edges = Edges("z.01234567.0")
    reconciler = edges.reconciler()
    await reconciler.step(edges.view)
    assert not edges.sent, "the node hasn't answered yet"
    erasure = asyncio.create_task(reconciler.erase(edges.view))
    for _ in range(20):
        await asyncio.sleep(0)
    edges.answers.set()
    await erasure
    assert [type(order) for order in edges.sent] == [StartReplica, StopReplica]
