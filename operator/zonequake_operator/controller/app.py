"""Wires the parts to kopf: one daemon per zone, events that only wake, one fleet for all.

kopf's indexes, change handlers and patches are not used: see design §3 for what they lose.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

import kopf
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from zonequake_operator.api_server.kube import NamespaceApi
from zonequake_operator.controller import metrics
from zonequake_operator.controller.event_poster import EventPoster
from zonequake_operator.controller.reconciler import ZoneReconciler
from zonequake_operator.controller.rights_keeper import RightsKeeper
from zonequake_operator.controller.table_keeper import TableKeeper
from zonequake_operator.controller.zone_loop import watch
from zonequake_operator.errors import KubeNotFound
from zonequake_operator.fleet.fleet import Fleet
from zonequake_operator.fleet.store_client import StoreClient
from zonequake_operator.resources.model import DEFAULT_RETRY_THRESHOLD
from zonequake_operator.resources.stored_shapes import FINALIZER, GROUP, VERSION, reset_requests
from zonequake_tls.credentials import Credentials
from zonequake_tls.http_server import HttpServer, serve

logger = logging.getLogger(__name__)

HTTP_PORT = 8080
LIVE_WITHIN_S = 60.0
"""Without the end of one round for so long, /healthz fails: a restart is quick and harmless."""
GOOD_WITHIN_S = 600.0
"""Without one good round for so long, /healthz fails too. An unreachable API server is no reason to
fail sooner: an operator restarted again and again would sit in a back-off of minutes when it comes
back.
"""
ERASE_PATIENCE_S = 30.0
"""How long a zone's deletion waits for nodes that don't answer, from the last one that did."""
ERASE_TELL_S = 10.0
"""How often the log names the nodes that a zone's deletion waits for: it may wait forever for one
that answers and can't erase.
"""
WATCH_S, WATCH_LATE_S = 30, 5
"""Whole seconds that one watch lasts, and how much later it is given up: nothing else shows a
connection that ended while this pod had no network, and meanwhile kopf would hear of no deletion.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOptions:
    """Settings of the operator, from the environment."""

    namespace: str
    release: str
    resync_s: float
    view_period_s: float
    http_port: int = HTTP_PORT
    read_nodes: bool = False
    retry_threshold: int = DEFAULT_RETRY_THRESHOLD


@dataclass(slots=True)
class _Running:
    """The objects that live as long as the process."""

    kube: NamespaceApi
    store: StoreClient
    fleet: Fleet
    events: EventPoster
    tables: TableKeeper
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    reconcilers: dict[str, ZoneReconciler] = field(default_factory=dict)
    """Reconcilers by the zone's uid: another zone may get the name before the last one's daemon has
    ended.
    """

    def begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Runs what never ends by itself; logs an end by an error at once."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(_tell_failure)
        self.tasks.append(task)

    @property
    def ended(self) -> list[str]:
        """Returns the names of the tasks that have ended."""
        return [task.get_name() for task in self.tasks if task.done()]


def _tell_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.critical("the task %s ended, and /healthz fails", task.get_name(), exc_info=error)


def wall_ms() -> int:
    """Unix milliseconds."""
    return time.time_ns() // 1_000_000


class App:
    """The operator's handlers, registered in a registry of their own."""

    def __init__(self, options: OperatorOptions, credentials: Credentials | None) -> None:
        """`credentials`: for data nodes that speak TLS."""
        self.options = options
        self._credentials = credentials
        self.registry = kopf.OperatorRegistry()
        self.stands_by = False
        self.may_act: Callable[[], bool] = lambda: True
        """Asked right before each write and each order leaves."""
        self._running: _Running | None = None
        zones = (GROUP, VERSION, "distributionzones")
        on: dict[str, Any] = {"registry": self.registry}
        kopf.on.login(**on)(log_in)
        kopf.on.startup(**on)(self.start)
        kopf.on.cleanup(**on)(self.stop)
        kopf.daemon(*zones, **on, cancellation_timeout=5.0)(self.watch_zone)
        kopf.on.delete(*zones, **on)(self.delete_zone)
        kopf.on.event(*zones, **on)(self.zone_changed)
        kopf.on.event(GROUP, VERSION, "tables", **on)(self.table_changed)
        kopf.on.event(
            "v1",
            "pods",
            **on,
            labels={
                "app.kubernetes.io/component": "store",
                "app.kubernetes.io/instance": options.release,
            },
        )(self.pod_changed)

    async def start(self, settings: kopf.OperatorSettings, **_: object) -> None:
        """Settings of kopf, connections, and the fleet."""
        configure(settings)
        kube = await NamespaceApi.connect(self.options.namespace, self.options.release)
        store = StoreClient(self._credentials)
        kube.reads_nodes = self.options.read_nodes
        kube.may_write = store.may_order = self.may_act
        fleet = Fleet(kube, store, monotonic_s=time.monotonic, wall_ms=wall_ms)
        events = EventPoster(kube, wall_ms=wall_ms)
        tables = TableKeeper(kube, fleet, resync_s=self.options.resync_s, wall_ms=wall_ms)
        rights = RightsKeeper(kube, tell=fleet.rights_missing)
        running = _Running(kube=kube, store=store, fleet=fleet, events=events, tables=tables)
        running.begin("fleet", fleet.run())
        running.begin("events", events.run())
        running.begin("tables", tables.run())
        running.begin("rights", rights.run())
        self._running = running

    async def stop(self, **_: object) -> None:
        """Stops all tasks and closes all connections; the resources hold all that matters."""
        running = self._running
        if running is None:
            return
        for task in running.tasks:
            task.cancel()
        await asyncio.gather(*running.tasks, return_exceptions=True)
        await running.store.close()
        await running.kube.close()

    # ------------------------------------------------------------------------------------- zones

    async def watch_zone(
        self, name: str, uid: str, stopped: kopf.DaemonStopped, **_: object
    ) -> None:
        """One zone for as long as it exists; never returns early, kopf wouldn't start it again."""
        try:
            await watch(
                self._reconciler(name, uid),
                self._fleet,
                stopped,
                resync_s=self.options.resync_s,
                wall_ms=wall_ms,
            )
        finally:
            # Also if the finalizer was removed by hand, so that no handler of a deletion runs; kopf
            # cancels a daemon that is waiting.
            self._forget(name, uid)

    async def delete_zone(self, name: str, uid: str, **_: object) -> None:
        """Erase the zone's replicas on every node that answers, then its partitions."""
        reconciler = self._reconciler(name, uid)
        reconciler.resources.invalidate()
        try:
            await self._erase(reconciler)
        except KubeNotFound as error:
            logger.warning("zone %s was deleted by force, its files stay: %s", name, error)
        self._forget(name, uid)

    async def _erase(self, reconciler: ZoneReconciler) -> None:
        now_s = time.monotonic()
        give_up_s, tell_s = now_s + ERASE_PATIENCE_S, now_s + ERASE_TELL_S
        seen = 0
        holding: set[str] = set()
        while True:
            view = await self._fleet.next_view(seen, 5.0)
            seen = view.edition
            holders, silent = await reconciler.erase(view)
            now_s = time.monotonic()
            # A node that held a replica in its last answer is waited for, also if it has left
            # since: a node that must be started again before it can erase anything comes back with
            # it.
            holding = holders | (holding - view.reports.keys())
            silent |= holding - holders
            if holders:
                give_up_s = now_s + ERASE_PATIENCE_S
            if not holders and (not silent or now_s > give_up_s):
                break
            if now_s > tell_s:
                tell_s = now_s + ERASE_TELL_S
                logger.warning(
                    "the deletion of zone %s waits for %s, which still hold replicas, and %s, "
                    "which don't answer",
                    reconciler.name,
                    _named(holders),
                    _named(silent),
                )
        if silent:
            logger.warning(
                "zone %s is deleted, but %s didn't answer and may keep its files",
                reconciler.name,
                _named(silent),
            )
        await reconciler.delete_partitions()

    def _forget(self, name: str, uid: str) -> None:
        running = self._running
        if running is None:
            return
        running.reconcilers.pop(uid, None)
        if any(other.name == name for other in running.reconcilers.values()):
            return  # what is known by this name is its namesake's by now
        running.fleet.forget(name)
        metrics.forget_zone(name)

    async def zone_changed(self, uid: str, event: kopf.RawEvent, **_: object) -> None:
        """Handles a change of the zone: its spec may be new."""
        running = self._running
        if running is None:
            return
        if event["type"] != "MODIFIED":
            running.tables.wake()
        if uid not in running.reconcilers:
            return
        generation = event["object"]["metadata"].get("generation")
        running.reconcilers[uid].resources.generation_seen(int(str(generation or 0)))
        annotations = event["object"]["metadata"].get("annotations")
        running.reconcilers[uid].resources.requests_seen(reset_requests(annotations, uid))

    async def table_changed(self, event: kopf.RawEvent, **_: object) -> None:
        """Handles a table that was made or altered."""
        obj: dict[str, Any] = dict(event["object"])
        seen = (obj.get("status") or {}).get("observedGeneration")
        if self._running is not None and seen != obj["metadata"].get("generation"):
            self._running.tables.wake()

    async def pod_changed(self, event: kopf.RawEvent, **_: object) -> None:
        """Handles any change of a data node's pod."""
        if self._running is not None:
            self._running.fleet.pods_changed(dict(event["object"]))

    @property
    def _fleet(self) -> Fleet:
        assert self._running is not None
        return self._running.fleet

    def _reconciler(self, name: str, uid: str) -> ZoneReconciler:
        running = self._running
        assert running is not None
        if uid not in running.reconcilers:
            running.reconcilers[uid] = ZoneReconciler(
                name,
                uid=uid,
                kube=running.kube,
                store=running.store,
                fleet=running.fleet,
                events=running.events,
                resync_s=self.options.resync_s,
                view_period_s=self.options.view_period_s,
                retry_threshold=self.options.retry_threshold,
                monotonic_s=time.monotonic,
                wall_ms=wall_ms,
            )
        return running.reconcilers[uid]

    # -------------------------------------------------------------------------------------- HTTP

    async def serve(self) -> HttpServer:
        """Listen for probes and scrapes, also while another operator leads."""
        server = web.Application()
        server.router.add_get("/healthz", self._healthz)
        server.router.add_get("/metrics", self._metrics)
        return await serve(server, None, self.options.http_port, name="http")

    async def _healthz(self, _: web.Request) -> web.Response:
        if self.stands_by:
            return web.Response(text="another operator leads, this one stands by")
        if self._running is None:
            return web.Response(status=503, text="starting")
        if ended := self._running.ended:
            return web.Response(status=500, text=f"ended by an error: {', '.join(ended)}")
        fleet, now_s = self._running.fleet, time.monotonic()
        stuck_s, silent_s = now_s - fleet.ended_s, now_s - fleet.heard_s
        if stuck_s > LIVE_WITHIN_S:
            return web.Response(status=500, text=f"no round has ended for {stuck_s:.0f} s")
        if silent_s > GOOD_WITHIN_S:
            return web.Response(status=500, text=f"no good round for {silent_s:.0f} s")
        return web.Response(text="ok")

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})


def _named(nodes: set[str]) -> str:
    return ", ".join(sorted(nodes)) or "no node"


class EndlessBackoffs:
    """Pauses in seconds between the attempts of one call of kopf's, without end.

    kopf gives up an object whose patch failed for the last time until its next event. A zone that
    is being deleted has none any more: nothing writes it but that patch.
    """

    def __iter__(self) -> Iterator[float]:
        yield from (0.2, 0.5, 1.0, 2.0)
        yield from itertools.repeat(4.0)


async def log_in(**kwargs: Any) -> kopf.ConnectionInfo | None:  # noqa: ANN401
    """Connects with the pod's service account, or else the current kubeconfig context, as
    `NamespaceApi`.
    """
    return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)


def configure(settings: kopf.OperatorSettings) -> None:
    """Sets how kopf stores its finalizer and progress, and how it reacts to errors."""
    settings.persistence.finalizer = FINALIZER
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP, v1=False)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(
        prefix=GROUP, key="last", v1=False
    )
    settings.watching.server_timeout = WATCH_S
    settings.watching.client_timeout = WATCH_S + WATCH_LATE_S
    settings.watching.connect_timeout = WATCH_S
    settings.networking.request_timeout = 15
    settings.networking.error_backoffs = EndlessBackoffs()
    settings.execution.default_backoff = 5
    settings.posting.reporting_component = "zonequake-operator"
    settings.posting.loggers = False
    settings.scanning.disabled = True
