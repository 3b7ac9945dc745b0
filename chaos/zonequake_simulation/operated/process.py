"""One process of the operator: the real fleet, reconciler and loop, over simulated edges."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from zonequake_operator.controller.event_poster import EventPoster
from zonequake_operator.controller.reconciler import ZoneReconciler
from zonequake_operator.controller.zone_loop import watch
from zonequake_operator.fleet.fleet import Fleet
from zonequake_simulation.member import SimulatedNode
from zonequake_simulation.network import Network
from zonequake_simulation.operated.edges import OrdersSeen, SimulatedNamespaceApi, SimulatedStore
from zonequake_simulation.operated.event_loop import VirtualLoop
from zonequake_simulation.operated.objects import Object, Objects
from zonequake_simulation.operated.pods import Pods
from zonequake_simulation.world import World

RESYNC_S = 2.5
VIEW_PERIOD_S = 1.0
_EPOCH_MS = 1_800_000_000_000


class _Never:
    """A stop flag that is never set: the zone's daemon ends only with its process."""

    def __bool__(self) -> bool:
        return False

    def wait(self, timeout: float) -> Coroutine[Any, Any, None]:
        return asyncio.sleep(timeout)


class OperatorProcess:
    """A process that runs from its construction until it is killed."""

    def __init__(
        self,
        name: str,
        zone: str,
        *,
        zone_uid: str,
        world: World,
        network: Network,
        objects: Objects,
        nodes: dict[str, SimulatedNode],
        pods: Pods,
        attributes: Mapping[str, Mapping[str, str]],
        orders: OrdersSeen,
    ) -> None:
        self.name = name
        self._world = world
        self._tasks: list[asyncio.Task[Any]] = []
        self._loop = VirtualLoop(world)
        self.kube = SimulatedNamespaceApi(self._loop, world, objects, name)
        self.store = store = SimulatedStore(
            self._loop,
            world,
            network,
            name=name,
            nodes=nodes,
            pods=pods,
            attributes=attributes,
            orders=orders,
        )
        self._loop.call_soon(lambda: self._begin(zone, zone_uid, store))

    def _begin(self, zone: str, zone_uid: str, store: SimulatedStore) -> None:
        """Begins the work; this and everything later runs in the process's loop."""
        self._fleet = Fleet(self.kube, store, monotonic_s=self._loop.time, wall_ms=self._wall_ms)
        events = EventPoster(self.kube, wall_ms=self._wall_ms)
        self._reconciler = ZoneReconciler(
            zone,
            uid=zone_uid,
            kube=self.kube,
            store=store,
            fleet=self._fleet,
            events=events,
            resync_s=RESYNC_S,
            view_period_s=VIEW_PERIOD_S,
            monotonic_s=self._loop.time,
            wall_ms=self._wall_ms,
        )
        self._tasks = [
            self._loop.create_task(self._fleet.run()),
            self._loop.create_task(events.run()),
            self._loop.create_task(
                watch(
                    self._reconciler,
                    self._fleet,
                    _Never(),
                    resync_s=RESYNC_S,
                    wall_ms=self._wall_ms,
                )
            ),
        ]

    def _wall_ms(self) -> int:
        return _EPOCH_MS + self._world.now_us // 1000

    def kill(self) -> None:
        """Ends the process at once, whatever it is doing."""
        self._loop.kill()

    def pause(self) -> None:
        """Pauses the process, as under SIGSTOP."""
        self._loop.pause()

    def resume(self) -> None:
        """Resumes the process where it was paused."""
        self._loop.resume()

    def calm(self) -> None:
        """Removes all faults from its calls, and resumes it."""
        self._loop.resume()
        self.kube.calm()
        self.store.calm()

    def pods_changed(self, seen: Object) -> None:
        """Delivers a watch event of a pod, with its state at the event."""
        self._loop.call_soon(lambda: self._fleet.pods_changed(seen))

    def zone_changed(self, generation: int) -> None:
        """Delivers a watch event of the zone."""
        self._loop.call_soon(lambda: self._reconciler.resources.generation_seen(generation))

    def check(self) -> None:
        """Raises the error with which one of its tasks ended: none ever ends otherwise."""
        if self._loop.failure is not None:
            raise self._loop.failure
        for task in self._tasks:
            if task.done():
                task.result()
