"""One zone's resources as the API server holds them, and which views may be judged by them.

They are kept as they were last read or written, until a resync, or until a newer version of them is
seen. What another process wrote is judged only by reports received after it was read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from zonequake_operator.api_server.kube import NamespaceApi
from zonequake_operator.errors import KubeNotFound
from zonequake_operator.fleet.fleet import Fleet, FleetView
from zonequake_operator.resources.leases import LeaseSession
from zonequake_operator.resources.model import Partition, ResetRequest, Zone
from zonequake_operator.resources.parsing import owner_uid, parse_partition, parse_zone


@dataclass(slots=True)
class StoredZone:
    """The zone and its partitions as the API server holds them. `namesakes`: the names of
    Partitions that an earlier zone of its name left.
    """

    zone: Zone
    raw_status: dict[str, Any]
    partitions: dict[int, Partition] = field(default_factory=dict)
    namesakes: frozenset[str] = frozenset()
    read_s: float = 0.0
    invalidations: int = 0
    """The number of invalidations before it was read."""


class ZoneResources:
    """The resources of the zone `name`, as long as its uid is `uid`."""

    def __init__(
        self,
        name: str,
        *,
        uid: str,
        kube: NamespaceApi,
        fleet: Fleet,
        resync_s: float,
        monotonic_s: Callable[[], float],
    ) -> None:
        self._name = name
        self._uid = uid
        self._kube = kube
        self._fleet = fleet
        self._resync_s = resync_s
        self._monotonic_s = monotonic_s
        self._stored: StoredZone | None = None
        self._invalidations = 0
        """Grows at any time, also in the middle of a step, which then ends on what it has read."""
        self._known: dict[int, str] = {}
        """The partitions' resource versions that we read or wrote."""
        self._heard_from = 0
        """The first view polled after the newest keys of another writer were read."""
        self._sessions: dict[str, LeaseSession] = {}
        """Sessions of the nodes' Leases, as they were when the resources were read."""
        self._asked_for_topology = 0
        """The newest topology that a zone knew before us, and for which we looked again."""
        self._heeded_from = 0
        """The first view after that look has this value in `FleetView.heeded`."""

    @property
    def stored(self) -> StoredZone:
        """The result of the last `read`; not available before the first one."""
        assert self._stored is not None
        return self._stored

    def invalidate(self) -> None:
        """Read the resources again before the next decision."""
        self._invalidations += 1

    def generation_seen(self, generation: int) -> None:
        """Records that the zone was seen at this generation; invalidates an older copy."""
        if self._stored is not None and generation > self._stored.zone.generation:
            self.invalidate()

    def requests_seen(self, requests: Mapping[int, ResetRequest]) -> None:
        """Records that the zone was seen with these reset requests; invalidates a copy without
        them.
        """
        if self._stored is not None and requests != self._stored.zone.reset_requests:
            self.invalidate()

    async def read_behind(self, view: FleetView) -> tuple[StoredZone, FleetView]:
        """Returns the resources, and a view that may be judged by them.

        They are read again after each Lease session that this view shows and the one before did
        not: a replica permitted in that session then learns of every reset that was decided while
        its node had none.
        """
        while True:
            sessions = view.sessions
            if not sessions.items() <= self._sessions.items():
                self.invalidate()
            self._sessions = sessions
            stored = await self.read()
            self._heed_newer_topology(stored.zone, view)
            if view.number >= self._heard_from:
                return stored, view
            self._fleet.hurry()
            view = await self._fleet.next_view(view.edition, self._resync_s)

    def _heed_newer_topology(self, zone: Zone, view: FleetView) -> None:
        """Waits for the newer topology that the zone may have accepted from another operator: ours
        would undo it.

        Once: one that is still older then was deleted and made again, and counts.
        """
        nodes = zone.status.data_nodes
        accepted = nodes.topology_version if nodes is not None else 0
        if view.topology.version >= accepted:
            return
        if self._asked_for_topology < accepted:
            self._asked_for_topology = accepted
            self._heeded_from = self._fleet.topology_is_old()
        if view.heeded < self._heeded_from:
            self._heard_from = self.next_round()

    def next_round(self) -> int:
        """Returns the first polling round that begins from now on."""
        return self._fleet.rounds + 1

    async def read(self) -> StoredZone:
        """Reads the resources, or returns them as they were read last. Raises KubeError;
        KubeNotFound if the zone is gone, or another one has its name.
        """
        now_s = self._monotonic_s()
        stored = self._stored
        invalidations = self._invalidations
        if (
            stored is not None
            and stored.invalidations == invalidations
            and now_s - stored.read_s < self._resync_s
        ):
            return stored
        raw, partitions = await asyncio.gather(
            self._kube.get_zone(self._name), self._kube.list_partitions(self._name)
        )
        zone = parse_zone(raw)
        if zone.uid != self._uid:
            # Otherwise a zone deleted by force would be erased in its namesake.
            raise KubeNotFound(
                f"GET zone {self._name}",
                404,
                f"found the uid {zone.uid}, expected {self._uid}: this one is gone, and another "
                "has its name",
            )
        mine = [parse_partition(p) for p in partitions if owner_uid(p) == zone.uid]
        others = [p["metadata"]["name"] for p in partitions if owner_uid(p) != zone.uid]
        self._stored = StoredZone(
            zone=zone,
            raw_status=raw.get("status") or {},
            partitions={p.number: p for p in sorted(mine, key=lambda p: p.number)},
            namesakes=frozenset(others),
            read_s=now_s,
            invalidations=invalidations,
        )
        versions = {n: p.resource_version for n, p in self._stored.partitions.items()}
        if versions != self._known:
            # Another operator wrote, or died: reports from before that don't show what followed,
            # and a replica that its group needs by now would be erased.
            self._known, self._heard_from = versions, self.next_round()
        return self._stored

    def wrote(self, number: int, version: str) -> None:
        """Records that a partition has this resource version by our own hand."""
        self._known[number] = version

    def judge_by_later_views(self) -> None:
        """Makes what is stored count only in views polled from now on."""
        self._heard_from = self.next_round()
