"""One zone's loop body: gather a snapshot, plan, apply.

This process alone writes the zone's resources, and keeps them as it last read or wrote them
(`zone_resources`): a compare-and-swap that fails makes it read them all again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from zonequake_operator.api_server.kube import NamespaceApi
from zonequake_operator.api_server.rendering import (
    render_partition,
    render_partition_status,
    render_zone_status,
)
from zonequake_operator.controller import metrics
from zonequake_operator.controller.event_poster import EventPoster
from zonequake_operator.controller.order_sender import OrderSender
from zonequake_operator.controller.zone_resources import StoredZone, ZoneResources
from zonequake_operator.errors import KubeConflict, KubeError
from zonequake_operator.fleet.fleet import Fleet, FleetView
from zonequake_operator.fleet.store_client import StoreClient
from zonequake_operator.groups.reports import by_group
from zonequake_operator.planning.kubernetes_events import Announcement, EventReason, announce
from zonequake_operator.planning.partition_events import (
    Cleaning,
    announce_cleaned,
    announce_failed,
    announce_keys,
)
from zonequake_operator.planning.plan import (
    CreatePartition,
    ResourceWrite,
    WritePartition,
    WriteZone,
    ZonePlan,
    plan,
)
from zonequake_operator.resources.model import (
    DEFAULT_RETRY_THRESHOLD,
    Partition,
    PartitionKeys,
    Zone,
    ZoneSnapshot,
    ZoneSpec,
)
from zonequake_operator.resources.parsing import owner_uid, parse_partition
from zonequake_operator.resources.stored_shapes import partition_name
from zonequake_protocol.admin import Order, StopReplica

logger = logging.getLogger(__name__)

MAX_REPLANS = 8
PARALLEL_WRITES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rest:
    """A plan with nothing to do, and what it was made of."""

    decided: ZonePlan
    stored: StoredZone
    view: FleetView

    def lasts(self, stored: StoredZone, view: FleetView, now_ms: int) -> bool:
        """Returns whether planning again would give the same plan. Compares `stored` by identity:
        resources are only written by plans that have something to do.
        """
        wake_at_ms = self.decided.wake_at_ms
        return (
            stored is self.stored
            and (wake_at_ms is None or now_ms < wake_at_ms)
            and view.topology == self.view.topology
            and view.reports == self.view.reports
            and view.outdated == self.view.outdated
            and view.lease_troubles == self.view.lease_troubles
            and view.missing_rights == self.view.missing_rights
        )


class ZoneReconciler:
    """Brings one zone where it should be, one step per call."""

    def __init__(
        self,
        name: str,
        *,
        uid: str,
        kube: NamespaceApi,
        store: StoreClient,
        fleet: Fleet,
        events: EventPoster,
        resync_s: float,
        view_period_s: float,
        retry_threshold: int = DEFAULT_RETRY_THRESHOLD,
        monotonic_s: Callable[[], float],
        wall_ms: Callable[[], int],
    ) -> None:
        self.name = name
        self.resources = ZoneResources(
            name, uid=uid, kube=kube, fleet=fleet, resync_s=resync_s, monotonic_s=monotonic_s
        )
        self._kube = kube
        self._fleet = fleet
        self._events = events
        self._failed_tokens: dict[int, int] = {}
        """The newest failed change that was announced, by partition."""
        self._cleaned: frozenset[Cleaning] = frozenset()
        """Erasures that were announced and are still under way."""
        self._resync_s = resync_s
        self._view_period_s = view_period_s
        """A view or a message is written at most this often; keys, flipped conditions at once."""
        self._retry_threshold = retry_threshold
        self._monotonic_s = monotonic_s
        self._wall_ms = wall_ms
        self._rest: _Rest | None = None
        self._turn = asyncio.Lock()
        """A step and the erasure take turns: an order of an earlier plan would start a replica
        that was erased."""
        self._orders = OrderSender(store, monotonic_s=monotonic_s)
        self._shows_orders = 1
        """The first view that shows what our last orders did; 0 shows nothing at all."""
        self._said: set[tuple[EventReason, str]] = set()
        """Events of transitions that could not be stored yet, because another client wrote the
        zone.
        """
        self._view_written_s: dict[int, float] = {}
        self._zone_written_s = float("-inf")

    async def step(self, view: FleetView) -> ZonePlan:
        """Decide and act once on this view.

        Raises:
            NotFound: the zone is gone; another one may have its name.
            KubeError: the API server doesn't let us.
        """
        try:
            async with self._turn:
                return await self._step(view)
        except KubeConflict:
            self.resources.invalidate()
            metrics.RECONCILES.labels(self.name, "conflict").inc()
            raise
        except KubeError:
            self.resources.invalidate()
            metrics.RECONCILES.labels(self.name, "failed").inc()
            raise

    async def _step(self, view: FleetView) -> ZonePlan:
        for _ in range(MAX_REPLANS):
            # Storing may have taken long: a newer view shows what it waits for.
            view = max(view, self._fleet.view, key=_edition)
            stored, view = await self.resources.read_behind(view)
            if self._rest is not None and self._rest.lasts(stored, view, self._wall_ms()):
                return self._rest.decided
            decided = self._plan(stored, view)
            wrote = await self._write(decided.writes)
            if not wrote:
                break
        at_rest = decided.settled and not decided.writes
        self._rest = _Rest(decided=decided, stored=stored, view=view) if at_rest else None
        # Orders rest on what is stored: after a plan with writes the zone is planned again first.
        if not wrote:
            no_longer = partial(self._fleet.next_topology, view.topology.version)
            await self._orders.send(decided.orders, view.addresses, until=no_longer)
            self._shows_orders = (
                self.resources.next_round() if decided.orders else self._shows_orders
            )
        self._fleet.tell(
            self.name, edition=view.edition, settled=decided.settled, behind=decided.behind
        )
        self._announce_failures(stored.zone, decided)
        metrics.show_zone(
            self.name,
            health=decided.health,
            conditions=stored.zone.conditions,
            settled=decided.settled,
        )
        metrics.RECONCILES.labels(self.name, "ok").inc()
        return decided

    def _plan(self, stored: StoredZone, view: FleetView) -> ZonePlan:
        with metrics.PLAN_SECONDS.time():
            return plan(
                ZoneSnapshot(
                    now_ms=self._wall_ms(),
                    zone=stored.zone,
                    partitions=stored.partitions,
                    namesakes=stored.namesakes,
                    topology=view.topology,
                    reports=view.reports,
                    outdated=view.outdated,
                    lease_troubles=view.lease_troubles,
                    missing_rights=view.missing_rights,
                    inspected=self._orders.inspections.of(view.reports),
                    attempts=self._orders.attempts,
                    retry_threshold=self._retry_threshold,
                )
            )

    # ---------------------------------------------------------------------------------- writing

    async def _write(self, writes: Iterable[ResourceWrite]) -> bool:
        """Write what is urgent or due; says whether anything that decisions rest on was."""
        zone_writes = [a for a in writes if isinstance(a, WriteZone)]
        urgent = False
        if not zone_writes:
            self._said.clear()  # what was to be stored has passed again
        for write in zone_writes:
            if write.urgent or self._monotonic_s() - self._zone_written_s >= self._view_period_s:
                urgent = urgent or write.urgent
                await self._write_zone(write)
        rest = [a for a in writes if isinstance(a, CreatePartition) or self._is_due(a)]
        await self._announce_keys([a for a in rest if isinstance(a, WritePartition)])
        slots = asyncio.Semaphore(PARALLEL_WRITES)

        async def one(action: CreatePartition | WritePartition) -> None:
            async with slots:
                if isinstance(action, CreatePartition):
                    await self._create_partition(action)
                else:
                    await self._write_partition(action)

        results = await asyncio.gather(
            *(one(a) for a in rest if isinstance(a, CreatePartition | WritePartition)),
            return_exceptions=True,
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return urgent or any(isinstance(a, CreatePartition) or _is_urgent(a) for a in rest)

    async def _announce_keys(self, writes: list[WritePartition]) -> None:
        """Before they are stored, as with a zone."""
        stored = self.resources.stored
        said = announce_keys(stored.partitions, {w.number: w.keys for w in writes})
        if said:
            await self._events.post(stored.zone, said)

    def _is_due(self, write: ResourceWrite) -> bool:
        if not isinstance(write, WritePartition):
            return False
        last_s = self._view_written_s.get(write.number, float("-inf"))
        return write.urgent or self._monotonic_s() - last_s >= self._view_period_s

    async def _write_zone(self, write: WriteZone) -> None:
        stored = self.resources.stored
        zone = stored.zone
        status = render_zone_status(
            write.status,
            spec=zone.spec if isinstance(zone.spec, ZoneSpec) else ZoneSpec(),
            conditions=write.conditions,
            summary=write.summary,
            previous=stored.raw_status,
            now_ms=self._wall_ms(),
        )
        after = replace(
            zone, status=write.status, conditions=write.conditions, summary=write.summary
        )
        conditions = stored.raw_status.get("conditions", [])
        since = {c["type"]: c.get("lastTransitionTime", "") for c in conditions}
        # Events first: if the operator dies between the two, the next one finds both still to do.
        said = [each for each in announce(zone, after, since) if _words(each) not in self._said]
        self._said |= set(map(_words, said))
        await self._events.post(zone, said)
        version = await self._cas("distributionzones", "DistributionZone", zone.name, zone, status)
        self._said.clear()
        self._zone_written_s = self._monotonic_s()
        stored.raw_status = status
        stored.zone = replace(after, resource_version=version)
        if write.status.revision != zone.status.revision:
            state = write.status.data_nodes
            logger.info(
                "zone %s: revision %d, data nodes %s",
                zone.name,
                write.status.revision,
                ", ".join(sorted(state.nodes)) if state and state.nodes else "none",
            )

    async def _create_partition(self, action: CreatePartition) -> None:
        stored = self.resources.stored
        created = await self._kube.create_partition(render_partition(stored.zone, action.number))
        made = stored.partitions[action.number] = parse_partition(created)
        self.resources.wrote(action.number, made.resource_version)
        stored.partitions = dict(sorted(stored.partitions.items()))

    async def _write_partition(self, action: WritePartition) -> None:
        stored = self.resources.stored
        before = stored.partitions[action.number]
        status = render_partition_status(action.keys, action.view)
        name = partition_name(stored.zone.name, action.number)
        version = await self._cas("partitions", "Partition", name, before, status)
        self._view_written_s[action.number] = self._monotonic_s()
        self.resources.wrote(action.number, version)
        stored.partitions[action.number] = replace(
            before, resource_version=version, keys=action.keys, view=action.view
        )
        if _begins_reset(before.keys, action.keys):
            # Nodes that haven't left must know of the reset before the survivor begins. This is
            # judged by a view polled after this write, because a node may have joined again
            # meanwhile.
            self.resources.judge_by_later_views()
        if action.urgent:
            logger.info("%s: %s", name, _describe(action))
        metrics.count_losses(stored.zone.name, before.keys, action.keys)

    async def _cas(
        self, plural: str, kind: str, name: str, at: Zone | Partition, status: dict[str, Any]
    ) -> str:
        try:
            version = await self._kube.write_status(plural, kind, name, at.resource_version, status)
        except KubeError as error:
            result = "conflict" if isinstance(error, KubeConflict) else "failed"
            metrics.KEY_WRITES.labels(kind, result).inc()
            raise
        metrics.KEY_WRITES.labels(kind, "ok").inc()
        return version

    # ---------------------------------------------------------------------------------- erasing

    async def erase(self, view: FleetView) -> tuple[set[str], set[str]]:
        """Stops and erases the zone's replicas; returns the nodes that still hold some, and the
        silent ones.

        Judges by a view that shows every replica that was ordered to start. Raises NotFound: the
        zone was deleted by force.
        """
        async with self._turn:
            if await self._orders.all_answered():  # they would start what is erased
                self._shows_orders = self.resources.next_round()
            while view.number < self._shows_orders:
                view = await self._fleet.next_view(view.edition, self._resync_s)
            return await self._erase(view)

    async def _erase(self, view: FleetView) -> tuple[set[str], set[str]]:
        stored = await self.resources.read()
        zone = stored.zone
        orders: dict[str, list[Order]] = {}
        for group, replicas in by_group(view.reports.values()).items():
            if group.rpartition(".")[0] != f"{zone.name}.{zone.uid[:8]}":
                continue  # not by its beginning: names of zones may have dots
            for node, replica in replicas.items():
                kept = stored.partitions.get(replica.partition)
                token = max(replica.token, kept.keys.configuration_token if kept else 0)
                orders.setdefault(node, []).append(
                    StopReplica(group=group, token=token, incarnation=replica.incarnation)
                )
        # A pod that is made again may have no address yet, while its answer still stands.
        known = orders.keys() & view.addresses.keys()
        await asyncio.gather(
            *(self._orders.give(node, orders[node], view.addresses) for node in sorted(known))
        )
        silent = view.topology.nodes.keys() - view.reports.keys()
        return set(orders), set(silent)

    async def delete_partitions(self) -> None:
        """Delete the zone's Partitions, also those that `--cascade=orphan` has left without owner:
        they would keep the next zone of this name from beginning.
        """
        uid = (await self.resources.read()).zone.uid
        listed = await self._kube.list_partitions(self.name)
        slots = asyncio.Semaphore(PARALLEL_WRITES)

        async def one(name: str) -> None:
            async with slots:
                await self._kube.delete_partition(name)

        mine = [each for each in listed if owner_uid(each) in (uid, None)]
        await asyncio.gather(*(one(each["metadata"]["name"]) for each in mine))
        self.resources.invalidate()

    def _announce_failures(self, zone: Zone, decided: ZonePlan) -> None:
        failed = [
            change
            for change in decided.failed
            if self._failed_tokens.get(change.partition) != change.token
        ]
        self._failed_tokens |= {change.partition: change.token for change in failed}
        metrics.CHANGES_FAILED.labels(self.name).inc(len(failed))
        cleaned = [each for each in decided.cleaned if each not in self._cleaned]
        self._cleaned = frozenset(decided.cleaned)
        for announcement in (*announce_failed(failed), *announce_cleaned(cleaned)):
            self._events.post_soon(zone, announcement)


def _edition(view: FleetView) -> int:
    return view.edition


def _words(announcement: Announcement) -> tuple[EventReason, str]:
    return announcement.reason, announcement.message


def _begins_reset(before: PartitionKeys, after: PartitionKeys) -> bool:
    return after.is_forced and not before.is_forced


def _is_urgent(write: ResourceWrite) -> bool:
    return isinstance(write, WritePartition) and write.urgent


def _describe(action: WritePartition) -> str:
    keys = action.keys
    sets = {"stable": keys.stable, "pending": keys.pending, "planned": keys.planned}
    shown = [f"{name} {', '.join(value.nodes)}" for name, value in sets.items() if value]
    lock = " locked" if keys.pending_lock else ""
    return f"token {keys.configuration_token}{lock}; {'; '.join(shown)}"
