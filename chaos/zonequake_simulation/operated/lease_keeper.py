"""The Lease of one simulated process: the real `NodeLease`, over the network to the API server."""

from __future__ import annotations

from collections.abc import Callable

from zonequake_protocol.admin import StartReplica
from zonequake_simulation.api_server import API
from zonequake_simulation.member import SimulatedNode
from zonequake_simulation.network import Network
from zonequake_simulation.operated.objects import Object, Objects, Refused
from zonequake_simulation.world import VirtualTimer, World
from zonequake_store.lease.kubernetes import object_of, record_of
from zonequake_store.lease.rules.handover import LeaseWatch
from zonequake_store.lease.rules.node_lease import (
    RENEW_SHARE,
    NodeLease,
    Permission,
    PutLease,
    ReadLease,
)

LEASE_S = 2
_PATH = "/apis/coordination.k8s.io/v1/namespaces/simulated/leases"
_LOOK_US = 1_000_000


class SimulatedLeaseKeeper:
    """The Lease of one process; it ends with that process."""

    def __init__(
        self, node: SimulatedNode, world: World, network: Network, objects: Objects
    ) -> None:
        self._node = node
        self._process = node.process
        self._world = world
        self._network = network
        self._objects = objects
        self._random = world.stream(f"lease of {node.name}, process {node.process}")
        self._timer: VirtualTimer | None = None
        self._is_calling = False
        self._watch = LeaseWatch(node)
        self.unrenewed_since_ms = 0
        """Time of the world's clock since which the Lease is not renewed, as the Lease's
        `unrenewed_since_s`.
        """
        self.lease = NodeLease(holder=f"{node.name}-{node.process}", duration_s=LEASE_S)
        self._look_later()

    def permission(self, order: StartReplica) -> Permission | None:
        """Returns the permission that a replica of this start order needs; None: none."""
        if not order.needs_lease:
            return None
        permission = Permission(self.lease, self._node.clock_s)
        permission.permit(order.lease_session, order.lease_holder)
        return permission

    def replicas_changed(self) -> None:
        """Wants the Lease as long as a replica needs it."""
        wanted = any(r.permission is not None for r in self._node.replicas.values())
        if wanted != self.lease.is_wanted:
            self.lease.want(wanted)
            self._soon()

    @property
    def _is_over(self) -> bool:
        return not self._node.alive or self._node.process != self._process

    def _look_later(self) -> None:
        self._world.later(_LOOK_US, self._look)

    def _look(self) -> None:
        if self._is_over:
            return
        if not self._node.standstill.left_us():
            self._watch.look(self._node.clock_s())
        self._look_later()

    def _soon(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rest_s = self.lease.rest_s(self._node.clock_s())
        if rest_s is not None:
            self._timer = self._world.later(1 + int(rest_s * 1.03e6), self._step)

    def _step(self) -> None:
        self._timer = None
        if self._is_over or self._node.standstill.holds(self._step):
            return
        since_s = self.lease.unrenewed_since_s
        call = self.lease.next_call(self._node.clock_s())
        self._note_since(since_s, self._world.now_us // 1000)
        if call is not None:
            self._is_calling = True
            self._call(call)
        elif not self._is_calling:
            self._soon()  # the node's clock is slower than ours

    def _note_since(self, before_s: float | None, asked_ms: int) -> None:
        if self.lease.unrenewed_since_s != before_s:
            self.unrenewed_since_ms = asked_ms

    def _call(self, call: ReadLease | PutLease) -> None:
        world, network, node = self._world, self._network, self._node
        is_open = True
        asked_ms = world.now_us // 1000

        def end(tell: Callable[[], None]) -> None:
            """Reports the result of the call, once, while the process runs."""
            if self._is_over or self._node.standstill.holds(lambda: end(tell)):
                return
            nonlocal is_open
            if is_open:
                is_open = False
                timer.cancel()
                self._is_calling = False
                since_s = self.lease.unrenewed_since_s
                tell()
                self._note_since(since_s, asked_ms)
                self._soon()

        def arrive() -> None:
            if network.blocked(node.name, API):
                return
            tell = self._asked(call)
            if not network.blocked(API, node.name):
                world.later(delay_us(), lambda: end(tell))

        def delay_us() -> int:
            return self._random.randrange(500, 12_000)

        timer = world.later(
            int(RENEW_SHARE * LEASE_S * 1e6),
            lambda: end(lambda: self.lease.failed(node.clock_s())),
        )
        world.later(delay_us(), arrive)

    def _asked(self, call: ReadLease | PutLease) -> Callable[[], None]:
        """Carries out a call at the API server; returns a function that gives the Lease its
        result.
        """
        lease, name = self.lease, self._node.name
        if isinstance(call, ReadLease):
            found = self._objects.get("leases", name)
            if found is None:
                return lambda: lease.found(None, None)
            version = found["metadata"]["resourceVersion"]
            return lambda: lease.found(record_of(found), version)
        try:
            stored = self._put(call, name)
        except Refused:
            return lease.refused
        self._world.tally["Leases written"] += 1
        return lambda: lease.stored(stored["metadata"]["resourceVersion"])

    def _put(self, call: PutLease, name: str) -> Object:
        body = object_of(
            call,
            name=name,
            namespace="simulated",
            duration_s=LEASE_S,
            now_ns=self._world.now_us * 1000,
        )
        if call.version is None:
            return self._objects.call("POST", _PATH, query={}, body=body)
        return self._objects.call("PUT", f"{_PATH}/{name}", query={}, body=body)
