"""Gives a zone's orders to the data nodes, as often as the pacing says.

A node that hangs holds up neither the zone's steps nor other nodes' orders:

    step ──► a: answered at once
         ──► b: hangs ──── ORDERS_PATIENCE_S ──► the step goes on without it
    step ──► a: its next orders          b: nothing, until it has answered or timed out
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from zonequake_operator.controller import metrics
from zonequake_operator.controller.pacing import Pacer
from zonequake_operator.errors import NodeUnreachable
from zonequake_operator.fleet.store_client import StoreClient
from zonequake_operator.groups.inspections import Inspections
from zonequake_operator.planning.zone_orders import SendOrder
from zonequake_operator.resources.model import ChangeAttempts
from zonequake_protocol.admin import Order, OrderReply, OrderStatus

logger = logging.getLogger(__name__)

ORDERS_PATIENCE_S = 0.2
"""How long a step waits for answers: as long as a busy round takes. Most come in milliseconds, and
the next plan should see their effects.
"""


class OrderSender:
    """Sends the orders of one zone. `inspections`: what waiting replicas showed of themselves in
    their answers.
    """

    def __init__(self, store: StoreClient, *, monotonic_s: Callable[[], float]) -> None:
        self._store = store
        self._monotonic_s = monotonic_s
        self._pacer = Pacer()
        self._under_way: dict[str, asyncio.Task[None]] = {}
        """The orders that a node hasn't answered yet, by node."""
        self.inspections = Inspections()

    @property
    def attempts(self) -> Mapping[str, ChangeAttempts]:
        """The number of requests for each group's newest change."""
        return self._pacer.attempts

    async def send(
        self,
        sends: Iterable[SendOrder],
        addresses: Mapping[str, str],
        *,
        until: Callable[[float], Coroutine[Any, Any, object]],
    ) -> None:
        """Sends the orders that are due to nodes without unanswered orders.

        `until`: returns when waiting for answers should end, after the given seconds at most.
        """
        self._forget_answered()
        batches: dict[str, list[Order]] = {}
        free = [send for send in sends if send.node not in self._under_way]
        for send in self._pacer.due(free, self._monotonic_s()):
            if send.node in addresses:
                batches.setdefault(send.node, []).append(send.order)
        for node, orders in batches.items():
            self._under_way[node] = asyncio.create_task(
                self.give(node, orders, addresses), name=f"orders for {node}"
            )
        if batches:
            answered = asyncio.create_task(_all([self._under_way[node] for node in batches]))
            patience = asyncio.create_task(until(ORDERS_PATIENCE_S))
            try:
                await asyncio.wait((answered, patience), return_when=asyncio.FIRST_COMPLETED)
            finally:
                answered.cancel()
                patience.cancel()
            self._forget_answered()

    async def all_answered(self) -> bool:
        """Wait until none is under way any more; says whether any was."""
        if not self._under_way:
            return False
        await asyncio.wait(self._under_way.values())
        self._forget_answered()
        return True

    async def give(self, node: str, orders: list[Order], addresses: Mapping[str, str]) -> None:
        """Give a node these orders, and wait for its answer."""
        try:
            replies = await self._store.send(addresses[node], orders)
        except NodeUnreachable as error:
            logger.info("orders for %s may be lost and will be repeated: %s", node, error)
            return
        self.inspections.heard(node, orders, replies)
        for order, reply in zip(orders, replies.replies, strict=True):
            _log_reply(node, order, reply)

    def _forget_answered(self) -> None:
        answered = [task for task in self._under_way.values() if task.done()]
        self._under_way = {n: task for n, task in self._under_way.items() if not task.done()}
        for task in answered:
            task.result()  # raises an unexpected error of it


async def _all(tasks: list[asyncio.Task[None]]) -> None:
    """Waits for the tasks; cancelling the wait doesn't cancel them."""
    await asyncio.wait(tasks)


def _log_reply(node: str, order: Order, reply: OrderReply) -> None:
    kind = type(order).__name__
    metrics.ORDERS.labels(kind, reply.status.value).inc()
    level = logging.DEBUG if reply.status is OrderStatus.RECEIVED else logging.INFO
    logger.log(
        level, "%s %s at %s: %s %s", kind, order.group, node, reply.status, reply.error or ""
    )
