"""The erasure of a dropped zone's replicas: whose they are, and what may not come behind it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.made_up_nodes import node_identity, topology_node
from zonequake_operator.controller.reconciler import ZoneReconciler
from zonequake_operator.errors import KubeNotFound
from zonequake_operator.fleet.fleet import FleetView
from zonequake_operator.planning.plan import CreatePartition
from zonequake_operator.resources.model import Topology
from zonequake_protocol.admin import (
    Order,
    OrderReplies,
    OrderReply,
    OrderStatus,
    ReplicaRole,
    ReplicasReport,
    ReplicaStatus,
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


def view(*groups: str, nodes: str = "a") -> FleetView:
    """Nodes that hold a replica of each of these groups; each one's address is its name."""
    joined = {name: topology_node(name) for name in nodes}
    identities = {name: node_identity(name) for name in nodes}
    held = [
        ReplicaStatus(
            group=group, zone="z", partition=0, incarnation="s", role=ReplicaRole.WAITING, term=0
        )
        for group in groups
    ]
    return FleetView(
        edition=9,
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
        self.partitions = [PARTITION]
        self.deleted: list[str] = []

    def reconciler(self) -> ZoneReconciler:
        edges: dict[str, Any] = {"kube": self, "store": self, "fleet": self, "events": self}
        return ZoneReconciler(
            "z",
            uid=UID,
            **edges,
            resync_s=5.0,
            view_period_s=5.0,
            monotonic_s=lambda: 0.0,
            wall_ms=lambda: 1000,
        )

    uid = UID
    """Of the zone that has the name now."""

    async def get_zone(self, _: str) -> dict[str, Any]:
        return {**ZONE, "metadata": {**ZONE["metadata"], "uid": self.uid}}

    async def list_partitions(self, _: str) -> list[dict[str, Any]]:
        return self.partitions

    async def delete_partition(self, name: str) -> None:
        self.deleted.append(name)

    async def write_status(self, *_: object) -> str:
        return "2"

    async def post(self, *_: object) -> None:
        """Events play no part here."""

    def tell(self, *_: object, **__: object) -> None:
        """Nor is the pace."""

    next_reports: FleetView | None = None
    """What is heard next, if it isn't the same."""

    def hurry(self) -> None:
        """Nor is the haste."""

    @property
    def rounds(self) -> int:
        return self.view.number

    async def next_view(self, after: int, _: float) -> FleetView:
        edition = max(after, self.view.edition) + 1
        return replace(self.next_reports or self.view, edition=edition, number=edition)

    async def next_topology(self, _: int, timeout_s: float) -> FleetView:
        await asyncio.sleep(timeout_s)
        return self.view

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


async def test_a_zone_that_was_let_go_by_force_is_not_erased_in_its_namesake() -> None:
    """An account took the finalizer away while a silent node was waited for, and made it again."""
    edges = Edges("z.fedcba98.0", "z.01234567.0")
    reconciler = edges.reconciler()
    edges.uid = "fedcba9876"
    with pytest.raises(KubeNotFound, match=r"found the uid fedcba9876, expected 0123456789"):
        await reconciler.erase(edges.view)
    with pytest.raises(KubeNotFound):
        await reconciler.delete_partitions()
    with pytest.raises(KubeNotFound):
        await reconciler.step(edges.view)
    assert edges.sent == []


async def test_partitions_that_their_zones_deletion_orphans_go_with_it() -> None:
    """`kubectl delete dz z --cascade=orphan`: the next zone of that name could never begin."""
    edges = Edges()
    owner_of = {"z-0": [], "z-1": [OWNER], "z-2": [{"controller": True, "uid": "another"}]}
    edges.partitions = [
        {
            **PARTITION,
            "metadata": {**PARTITION["metadata"], "name": name, "ownerReferences": owners},
            "spec": {"partition": int(name[-1])},
        }
        for name, owners in owner_of.items()
    ]
    await edges.reconciler().delete_partitions()
    assert sorted(edges.deleted) == ["z-0", "z-1"]


@pytest.mark.parametrize("owners", [[], [{"controller": True, "uid": "another"}]])
async def test_a_zone_tries_to_create_no_partition_whose_namesake_is_still_there(
    owners: list[dict[str, Any]],
) -> None:
    """Each step failed with a conflict, and only the log said so."""
    edges = Edges()
    metadata = {**PARTITION["metadata"], "ownerReferences": owners}
    edges.partitions = [{**PARTITION, "metadata": metadata}]
    decided = await edges.reconciler().step(edges.view)
    assert not any(isinstance(write, CreatePartition) for write in decided.writes)
    assert decided.settled, "it waits for a person"


async def test_nothing_counts_as_erased_before_a_node_was_heard() -> None:
    """Of a restarted operator: its first round takes longer than the erasure waits for a view."""
    edges = Edges("z.01234567.0")
    heard = edges.view
    edges.view, edges.next_reports = FleetView(), heard
    holders, _ = await edges.reconciler().erase(FleetView())
    assert holders == {"a"}


async def test_a_replica_whose_start_order_is_newer_than_the_view_is_erased_too() -> None:
    """A zone that is dropped as soon as it was made."""
    edges = Edges()
    edges.answers.set()
    reconciler = edges.reconciler()
    await reconciler.step(edges.view)
    assert [type(order) for order in edges.sent] == [StartReplica]
    edges.next_reports = view("z.01234567.0")
    holders, _ = await reconciler.erase(edges.view)
    assert holders == {"a"}
    assert isinstance(edges.sent[-1], StopReplica)


async def test_a_pod_without_an_address_holds_up_no_other_nodes_erasure() -> None:
    """Its last answer still stood; the whole erasure failed, and began again with all patience."""
    edges = Edges()
    edges.view = replace(view("z.01234567.0", nodes="ab"), addresses={"b": "b"})
    holders, silent = await edges.reconciler().erase(edges.view)
    assert [type(order) for order in edges.sent] == [StopReplica], "to b"
    assert (holders, silent) == ({"a", "b"}, set())
