"""The operator's two edges in virtual time: the Kubernetes API, and the nodes' admin API.

Both are HTTP over TCP: what a link loses is sent again a little later, and what a cut link or a
process that stands still keeps back ends in a time-out, perhaps after the call was carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tenacity import wait_exponential

from zonequake_operator.api_server.kube import REQUEST_TIMEOUT_S, NamespaceApi, error_of
from zonequake_operator.errors import KubeError, NodeUnreachable
from zonequake_operator.fleet.store_client import ORDERS_TIMEOUT_S, REPORT_TIMEOUT_S, StoreClient
from zonequake_protocol.admin import Order, OrderReplies, OrderReply, OrderStatus, ReplicasReport
from zonequake_simulation.api_server import API
from zonequake_simulation.member import SimulatedNode
from zonequake_simulation.network import Network
from zonequake_simulation.operated import admin
from zonequake_simulation.operated.calls import Calls, SimulatedCall
from zonequake_simulation.operated.event_loop import VirtualLoop
from zonequake_simulation.operated.lease_keeper import SimulatedLeaseKeeper
from zonequake_simulation.operated.objects import Object, Objects, Refused
from zonequake_simulation.operated.pods import RELEASE, Pods
from zonequake_simulation.world import World

NAMESPACE = "simulated"
_T = TypeVar("_T")


@dataclass(slots=True)
class ApiWeather:
    """The faults of the API server in an operator's calls. Shares in 0..1."""

    is_out: bool = False
    errors: float = 0.0
    """Share of calls that are answered with 500, half of them after the call had its effect."""
    stale_us: int = 0
    """Lag of its watch cache, in µs: watch events come from there, and so do answers to requests
    for any version (resourceVersion=0). All other answers are the most recent when they are read
    (docs/operator.md), but one answer in three is delayed by up to this time.
    """
    slowest_us: int = 8_000


class SimulatedNamespaceApi(NamespaceApi):
    """The real client's calls and repetitions, answered by simulated objects."""

    pauses = wait_exponential(multiplier=0.1, max=2)

    def __init__(self, loop: VirtualLoop, world: World, objects: Objects, name: str) -> None:
        # The base's constructor is not called: there is no client for calls.
        self._namespace, self._release = NAMESPACE, RELEASE
        self.reads_nodes = True
        self.on_refusal = lambda: None
        self._world = world
        self._objects = objects
        self._random = world.stream(f"api of {name}")
        self.weather = ApiWeather()
        self._calls = Calls(loop, world)
        self.armed: Callable[[bool], None] | None = None
        """Called once in the middle of the next write: before it is stored (False), or after."""

    async def _call_once(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Object | None,
        content_type: str,
    ) -> Object:
        what = f"{method} {path}"
        weather, random = self.weather, self._random
        call: SimulatedCall[Object] = SimulatedCall(
            self._calls,
            timeout_s=REQUEST_TIMEOUT_S,
            error_of=lambda reason: KubeError(what, 0, reason),
        )
        broken = KubeError(what, 500, "internal error")

        def arrive() -> None:
            if weather.is_out:
                if random.random() < 0.7:
                    call.break_off("connection refused")
                return
            fails = weather.errors and random.random() < weather.errors
            if fails and random.random() < 0.5:
                call.fail(broken)
                return
            self._strike(method, behind=False)
            is_any = (query or {}).get("resourceVersion") == "0"
            at_us = self._world.now_us - weather.stale_us if is_any else None
            try:
                reply = self._objects.call(method, path, query=query or {}, body=body, at_us=at_us)
            except Refused as refused:
                error = error_of(what, refused.status, str(refused))
                self._world.later(back_us(), lambda: call.fail(error))
                return
            self._strike(method, behind=True)
            if fails:
                self._world.later(back_us(), lambda: call.fail(broken))
            else:
                self._world.later(back_us(), lambda: call.answer(reply))

        def delay_us() -> int:
            return random.randrange(200, weather.slowest_us)

        def back_us() -> int:
            is_late = weather.stale_us and random.random() < 1 / 3
            return delay_us() + (random.randrange(weather.stale_us) if is_late else 0)

        self._world.later(delay_us(), arrive)
        return await call.answered

    def calm(self) -> None:
        """Ends the faults; calls that hang are reset."""
        self.weather, self.armed = ApiWeather(), None
        self._calls.reset()

    def _strike(self, method: str, *, behind: bool) -> None:
        if self.armed is not None and method in ("PUT", "POST"):
            self.armed(behind)


class OrdersSeen(Protocol):
    """Receives the orders at the node that they are for, and keeps the nodes' Leases."""

    @property
    def keepers(self) -> Mapping[str, SimulatedLeaseKeeper]:
        """The Lease keepers of the running processes, by node."""

    def comes(self, node: SimulatedNode, order: Order) -> None:
        """Checks an order that is about to be carried out, or refused."""

    def received(self, node: SimulatedNode, order: Order) -> None:
        """Checks an order that was carried out."""


class SimulatedStore(StoreClient):
    """The nodes' admin API."""

    def __init__(
        self,
        loop: VirtualLoop,
        world: World,
        network: Network,
        *,
        name: str,
        nodes: dict[str, SimulatedNode],
        pods: Pods,
        attributes: Mapping[str, Mapping[str, str]],
        orders: OrdersSeen,
    ) -> None:
        self._world = world
        self._network = network
        self._nodes = nodes
        self._pods = pods
        self._attributes = attributes
        self._orders = orders
        self._random = world.stream(f"admin of {name}")
        self.late_us: dict[str, int] = {}
        """Extra delay of orders to these nodes, which may arrive after their sender's death."""
        self._calls = Calls(loop, world)

    async def close(self) -> None:
        """Closes nothing: no connection is open."""

    async def replicas(self, address: str) -> ReplicasReport:
        """Returns a node's report. Raises NodeUnreachable."""

        def read(node: SimulatedNode) -> ReplicasReport:
            return admin.report(
                node,
                pod_uid=self._pods.uid(node.name),
                attributes=self._attributes[node.name],
                keeper=self._orders.keepers[node.name],
            )

        return await self._exchange(address, read, REPORT_TIMEOUT_S)

    async def send(self, address: str, orders: Sequence[Order]) -> OrderReplies:
        """Sends orders. Raises NodeUnreachable."""

        def carry_out(node: SimulatedNode) -> OrderReplies:
            replies = [self._carried_out(node, order) for order in orders]
            return OrderReplies(process_incarnation=f"{address}-{node.process}", replies=replies)

        late_us = self.late_us.get(address, 0)
        return await self._exchange(address, carry_out, ORDERS_TIMEOUT_S, late_us)

    def _carried_out(self, node: SimulatedNode, order: Order) -> OrderReply:
        self._orders.comes(node, order)
        reply = admin.carry_out(node, order, self._orders.keepers[node.name])
        self._world.tally[f"order {type(order).__name__} {reply.status.value}"] += 1
        if reply.status is OrderStatus.RECEIVED:
            self._orders.received(node, order)
        return reply

    async def _exchange(
        self, address: str, act: Callable[[SimulatedNode], _T], timeout_s: float, late_us: int = 0
    ) -> _T:
        node = self._nodes[address]
        world, network = self._world, self._network
        process = node.process
        call: SimulatedCall[_T] = SimulatedCall(
            self._calls,
            timeout_s=timeout_s,
            error_of=lambda reason: NodeUnreachable(f"{address}: {reason}"),
        )

        def answer(reply: _T) -> None:
            if not network.blocked(node.name, API):
                call.answer(reply)

        def arrive() -> None:
            if network.blocked(API, node.name):
                return
            if not node.alive or node.process != process:
                call.break_off("connection refused")
                return
            if node.standstill.puts_off(arrive):
                return
            reply = act(node)
            world.later(self._delay_us(), lambda: answer(reply))

        world.later(self._delay_us() + late_us, arrive)
        return await call.answered

    def calm(self) -> None:
        """Resets calls that hang."""
        self._calls.reset()

    def _delay_us(self) -> int:
        """Returns a delay of the network; a lost packet adds a retransmission."""
        weather, random = self._network.weather, self._random
        delay_us = random.randrange(weather.fastest_us, weather.slowest_us)
        while random.random() < weather.lost:
            delay_us += 200_000
        return delay_us
