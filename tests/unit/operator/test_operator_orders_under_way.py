"""A node that hangs over its orders holds up neither the zone's steps nor other nodes' orders."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.operator.test_operator_erasure import PARTITION, UID, ZONE, view
from zonequake_operator.controller.reconciler import ZoneReconciler
from zonequake_operator.errors import NodeUnreachable
from zonequake_operator.fleet.fleet import FleetView
from zonequake_protocol.admin import Order, OrderReplies, OrderReply, OrderStatus

SEEN = view("z.01234567.0", nodes="ab")


class Edges:
    """Two nodes whose replicas wait for their start orders; one of them may hang."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.hangs: asyncio.Future[None] | None = None
        self.sent: list[str] = []
        self.view = SEEN

    def reconciler(self) -> ZoneReconciler:
        edges: dict[str, Any] = {"kube": self, "store": self, "fleet": self, "events": self}
        return ZoneReconciler(
            "z",
            uid=UID,
            **edges,
            resync_s=60.0,
            view_period_s=60.0,
            monotonic_s=lambda: self.now_s,
            wall_ms=lambda: 1000,
        )

    async def get_zone(self, _: str) -> dict[str, Any]:
        nodes = {"dataNodes": ["a", "b"]}
        return {**ZONE, "spec": {"partitions": 1, "replicas": 2}, "status": ZONE["status"] | nodes}

    async def list_partitions(self, _: str) -> list[dict[str, Any]]:
        return [{**PARTITION, "status": PARTITION["status"] | {"stable": {"nodes": ["a", "b"]}}}]

    async def write_status(self, *_: object) -> str:
        return "2"

    async def post(self, *_: object) -> None:
        """Events play no part here."""

    def tell(self, *_: object, **__: object) -> None:
        """Nor is the pace."""

    def hurry(self) -> None:
        """Nor is the haste."""

    rounds = 0

    async def next_topology(self, _: int, timeout_s: float) -> FleetView:
        await asyncio.sleep(timeout_s)
        return self.view

    async def next_view(self, number: int, _: float) -> FleetView:
        return FleetView(
            edition=number + 2,
            number=number + 2,
            topology=SEEN.topology,
            reports=SEEN.reports,
            addresses=SEEN.addresses,
        )

    async def send(self, address: str, orders: list[Order]) -> OrderReplies:
        self.sent.append(address)
        if address == "a" and self.hangs is not None:
            await self.hangs
        return OrderReplies(
            process_incarnation="p",
            replies=[OrderReply(status=OrderStatus.RECEIVED) for _ in orders],
        )

    async def step(self, reconciler: ZoneReconciler) -> list[str]:
        """Whom the next step gave orders; each comes after any pause between repetitions."""
        self.now_s += 10.0
        self.sent.clear()
        async with asyncio.timeout(60):
            await reconciler.step(SEEN)
        return sorted(self.sent)


async def orders_are_answered() -> None:
    """Wait until those that are under way have come to their end, whatever it is."""
    tasks = (task for task in asyncio.all_tasks() if task.get_name().startswith("orders for "))
    await asyncio.wait(list(tasks))


async def test_a_node_that_hangs_over_its_orders_holds_up_no_other() -> None:
    edges = Edges()
    edges.hangs = asyncio.get_running_loop().create_future()
    reconciler = edges.reconciler()
    assert await edges.step(reconciler) == ["a", "b"]
    assert await edges.step(reconciler) == ["b"], "what a has not answered is not sent once more"
    edges.hangs.set_result(None)
    await orders_are_answered()
    assert await edges.step(reconciler) == ["a", "b"]


async def test_orders_that_timed_out_are_sent_again() -> None:
    edges = Edges()
    edges.hangs = asyncio.get_running_loop().create_future()
    reconciler = edges.reconciler()
    await edges.step(reconciler)
    edges.hangs.set_exception(NodeUnreachable("a: TimeoutError"))
    await orders_are_answered()
    edges.hangs = None
    assert await edges.step(reconciler) == ["a", "b"]


async def test_an_unexpected_answer_ends_the_step_that_finds_it() -> None:
    edges = Edges()
    edges.hangs = asyncio.get_running_loop().create_future()
    reconciler = edges.reconciler()
    await edges.step(reconciler)
    edges.hangs.set_exception(ZeroDivisionError())
    await orders_are_answered()
    with pytest.raises(ZeroDivisionError):
        await edges.step(reconciler)
    edges.hangs = None
    assert await edges.step(reconciler) == ["a", "b"]
