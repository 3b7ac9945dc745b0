"""What a settled zone costs: equal reports are decoded once, and nothing is planned again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import BaseTestServer, TestServer

from tests.unit.made_up_nodes import node_identity, topology_node
from zonequake_operator.controller.reconciler import ZoneReconciler
from zonequake_operator.errors import KubeConflict
from zonequake_operator.fleet.fleet import FleetView
from zonequake_operator.fleet.store_client import StoreClient
from zonequake_operator.planning.kubernetes_events import Announcement, EventReason
from zonequake_operator.planning.plan import WritePartition, ZonePlan, plan
from zonequake_operator.planning.zone_orders import SendOrder
from zonequake_operator.resources.model import PartitionStatus, Topology, ZoneSnapshot
from zonequake_protocol.admin import (
    ConfigurationReport,
    Order,
    OrderReplies,
    OrderReply,
    OrderStatus,
    PeerName,
    ReplicaRole,
    ReplicasReport,
    ReplicaStatus,
    StopReplica,
)

UID = "0123456789"
RESYNC_S = 5.0
IDENTITY = node_identity("a")
LEADER = ReplicaStatus(
    group="z.01234567.0",
    zone="z",
    partition=0,
    incarnation="s",
    role=ReplicaRole.LEADER,
    term=1,
    leader="a",
    configuration=ConfigurationReport(
        peers=[PeerName("a", "s")], old_peers=[], token=1, index=1, lineage=0
    ),
    token=1,
    commit=5,
    applied=5,
)


def report(commit: int = 5) -> ReplicasReport:
    """One node that leads its group alone."""
    return ReplicasReport(
        node=IDENTITY, replicas=[msgspec.structs.replace(LEADER, commit=commit, applied=commit)]
    )


def view(number: int, *, commit: int = 5, version: int = 1) -> FleetView:
    node = topology_node("a")
    return FleetView(
        edition=number,
        number=number,
        topology=Topology(version=version, nodes={"a": node}),
        reports={"a": report(commit)},
        addresses={"a": "10.0.0.1"},
    )


class Edges:
    """An API server that stores what is written, and a clock."""

    def __init__(self, **spec: int) -> None:
        self.now_s = 0.0
        self.version = 1
        self.ordered: list[Order] = []
        self.told: list[EventReason] = []
        self.refusals = 0
        owner = {"controller": True, "uid": UID}
        self.zone: dict[str, Any] = {
            "metadata": {"name": "z", "namespace": "n", "uid": UID, "generation": 1},
            "spec": {"partitions": 1, "replicas": 1, **spec},
        }
        peers = [{"node": "a", "incarnation": "s"}]
        self.partition: dict[str, Any] = {
            "metadata": {"name": "z-0", "ownerReferences": [owner]},
            "spec": {"partition": 0},
            "status": {
                "stable": {"nodes": ["a"]},
                "configurationToken": 1,
                "bootstrap": {"token": 1, "peers": peers},
            },
        }
        for each in (self.zone, self.partition):
            each["metadata"]["resourceVersion"] = "1"

    def reconciler(self) -> ZoneReconciler:
        edges: dict[str, Any] = {"kube": self, "store": self, "fleet": self, "events": self}
        return ZoneReconciler(
            "z",
            uid=UID,
            **edges,
            resync_s=RESYNC_S,
            view_period_s=0.0,
            monotonic_s=lambda: self.now_s,
            wall_ms=lambda: int(self.now_s * 1000),
        )

    async def get_zone(self, _: str) -> dict[str, Any]:
        return self.zone

    async def list_partitions(self, _: str) -> list[dict[str, Any]]:
        return [self.partition]

    async def write_status(
        self, plural: str, _kind: str, _name: str, _version: str, status: dict[str, Any]
    ) -> str:
        if plural == "distributionzones" and self.refusals:
            # Another client has written the zone meanwhile.
            self.refusals -= 1
            self.version += 1
            self.zone["metadata"]["resourceVersion"] = str(self.version)
            raise KubeConflict("PUT", 409, "written meanwhile")
        self.version += 1
        written = self.zone if plural == "distributionzones" else self.partition
        written["metadata"]["resourceVersion"] = str(self.version)
        written["status"] = status
        return str(self.version)

    async def send(self, _: str, orders: list[Order]) -> OrderReplies:
        self.ordered += orders
        replies = [OrderReply(status=OrderStatus.RECEIVED) for _ in orders]
        return OrderReplies(process_incarnation="p", replies=replies)

    async def post(self, _: object, announcements: Iterable[Announcement]) -> None:
        self.told += [each.reason for each in announcements]

    def tell(self, *_: object, **__: object) -> None:
        """Nor is the pace."""

    view = FleetView()

    def hurry(self) -> None:
        """Nor is the haste."""

    rounds = 0

    async def next_view(self, number: int, _: float) -> FleetView:
        return view(number + 2)

    async def next_topology(self, *_: object) -> FleetView:
        return await asyncio.Future()  # it stays


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[ZonePlan]:
    """Those that were made."""
    made: list[ZonePlan] = []

    def planned(snapshot: ZoneSnapshot) -> ZonePlan:
        made.append(plan(snapshot))
        return made[-1]

    monkeypatch.setattr("zonequake_operator.controller.reconciler.plan", planned)
    return made


async def settled(reconciler: ZoneReconciler) -> None:
    for number in range(9, 13):
        decided = await reconciler.step(view(number))
    assert decided.settled
    assert (decided.writes, decided.orders) == ([], [])


async def test_a_settled_zone_is_planned_again_only_if_something_changed(
    plans: list[ZonePlan],
) -> None:
    reconciler = Edges().reconciler()
    await settled(reconciler)
    plans.clear()
    for number in range(20, 25):
        assert (await reconciler.step(view(number))).settled
    assert plans == []
    await reconciler.step(view(30, commit=6))
    assert len(plans) == 1, "a replica moved on"
    await reconciler.step(view(31, commit=6))
    assert len(plans) == 1
    await reconciler.step(view(32, commit=6, version=2))
    assert len(plans) > 1, "the topology changed"


async def test_a_settled_zone_is_planned_again_when_its_resources_are_read_again(
    plans: list[ZonePlan],
) -> None:
    edges = Edges()
    reconciler = edges.reconciler()
    await settled(reconciler)
    plans.clear()
    edges.now_s += RESYNC_S
    await reconciler.step(view(20))
    assert len(plans) == 1
    edges.zone = {**edges.zone, "spec": {**edges.zone["spec"], "paused": True}}
    reconciler.resources.invalidate()
    decided = await reconciler.step(view(21))
    assert len(plans) > 1, "the spec changed"
    assert decided.settled


async def test_a_timer_ends_the_rest(plans: list[ZonePlan]) -> None:
    edges = Edges(dataNodesAutoAdjustScaleUp=2)
    reconciler = edges.reconciler()
    nodes = view(9).topology.nodes
    joined = replace(nodes["a"], name="b", since=2)
    two = Topology(version=2, nodes={**nodes, "b": joined})
    await settled(reconciler)
    for number in range(20, 23):  # the timer of the node that joined is armed, and stored
        decided = await reconciler.step(replace(view(number), topology=two))
    assert decided.wake_at_ms == 2000
    plans.clear()
    edges.now_s = 1.9
    await reconciler.step(replace(view(30), topology=two))
    assert plans == []
    edges.now_s = 2.0
    await reconciler.step(replace(view(31), topology=two))
    assert plans, "the timer fired"


async def test_a_plan_behind_a_write_is_made_of_the_newest_view(plans: list[ZonePlan]) -> None:
    """Writes take long on a busy machine, and what a reset waits for is heard meanwhile."""
    edges = Edges()
    reconciler = edges.reconciler()
    await settled(reconciler)
    stored = edges.write_status

    async def write_status(*arguments: Any) -> str:
        edges.view = replace(view(21), topology=two, reports={})
        return await stored(*arguments)

    edges.write_status = write_status  # type: ignore[assignment,method-assign]
    nodes = view(9).topology.nodes
    two = Topology(version=2, nodes={**nodes, "b": replace(nodes["a"], name="b", since=2)})
    plans.clear()
    await reconciler.step(replace(view(20), topology=two))
    assert [each.health[0].view.leader for each in plans[:2]] == ["a", None]


@asynccontextmanager
async def node(body: list[bytes]) -> AsyncIterator[BaseTestServer]:
    async def replicas(_: web.Request) -> web.Response:
        return web.Response(body=body[0])

    application = web.Application()
    application.add_routes([web.get("/admin/v1/replicas", replicas)])
    async with TestServer(application) as server:
        yield server


async def test_a_report_that_says_the_same_is_decoded_once() -> None:
    body = [msgspec.json.encode(report())]
    async with node(body) as server:
        client = StoreClient(None, port=server.port)
        try:
            first = await client.replicas("127.0.0.1")
            assert await client.replicas("127.0.0.1") is first
            body[0] = msgspec.json.encode(report(commit=6))
            assert (await client.replicas("127.0.0.1")).replicas[0].commit == 6
        finally:
            await client.close()


async def test_the_last_report_of_an_address_that_is_no_longer_asked_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with node([msgspec.json.encode(report())]) as server:
        client = StoreClient(None, port=server.port)
        try:
            await client.replicas("127.0.0.1")
            monkeypatch.setattr("zonequake_operator.fleet.store_client.FORGET_S", 0.0)
            await client.replicas("localhost")
            assert list(client._heard) == ["localhost"]
        finally:
            await client.close()


async def test_no_order_of_a_plan_leaves_before_what_it_writes_was_judged_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keys that change with every plan: after so many the step ends, and its orders are old."""
    edges = Edges()
    edges.partition["status"] = {}
    reconciler = edges.reconciler()

    def planned(snapshot: ZoneSnapshot) -> ZonePlan:
        keys = snapshot.partitions[0].keys
        raised = replace(keys, configuration_token=keys.configuration_token + 1)
        write = WritePartition(number=0, keys=raised, view=PartitionStatus(), urgent=True)
        stop = StopReplica(group="g", token=keys.configuration_token, incarnation="i")
        return ZonePlan(
            writes=[write], orders=[SendOrder(node="a", order=stop)], settled=False, health={}
        )

    monkeypatch.setattr("zonequake_operator.controller.reconciler.plan", planned)
    await reconciler.step(view(9))
    assert edges.version > 1
    assert edges.ordered == []


async def test_a_transition_that_another_writer_delays_is_told_once() -> None:
    edges = Edges()
    reconciler = edges.reconciler()
    edges.refusals = 3
    for number in range(9, 15):
        with suppress(KubeConflict):
            await reconciler.step(view(number))
    assert edges.refusals == 0
    assert edges.told.count(EventReason.DATA_NODES_CHANGED) == 1
    assert edges.told.count(EventReason.ALL_PARTITIONS_LEAD) == 1


async def test_a_transition_that_passed_before_it_could_be_stored_is_told_when_it_comes_again() -> (
    None
):
    edges = Edges()
    reconciler = edges.reconciler()
    await settled(reconciler)
    silent = replace(view(20), reports={})
    for number in (20, 30):
        edges.refusals = 1 if number == 20 else 0
        with suppress(KubeConflict):
            await reconciler.step(replace(silent, edition=number, number=number))
        await reconciler.step(view(number + 5))
    assert edges.told.count(EventReason.PARTITIONS_WITHOUT_LEADER) == 2
