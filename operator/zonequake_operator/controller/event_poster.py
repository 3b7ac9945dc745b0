"""Announcements on their way to the API server.

An Event's name is derived from what it speaks of, so that two operators, a repeated call or a
restart don't make two of it. A transition's Events are posted before it is stored, so that a kill
doesn't lose them. They hold it up for PATIENCE_S at most, and not at all while others wait: with
an API server that takes no Events everything else goes on.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable

from zonequake_operator.api_server.kube import NamespaceApi
from zonequake_operator.errors import KubeConflict, KubeError
from zonequake_operator.planning.kubernetes_events import Announcement
from zonequake_operator.resources.model import Zone
from zonequake_operator.resources.stored_shapes import API_VERSION, Object, to_rfc3339

logger = logging.getLogger(__name__)

COMPONENT = "zonequake-operator"
WAITING_LIMIT = 200
"""More than so many waiting Events are dropped: by then the conditions say more."""
PATIENCE_S = 1.0
PERIOD_S = 0.1
"""Pause after each Event: the API server has other work, and so has etcd."""


class EventPoster:
    """Posts Events, at once or by a queue and the task that empties it."""

    def __init__(self, kube: NamespaceApi, *, wall_ms: Callable[[], int]) -> None:
        self._kube = kube
        self._wall_ms = wall_ms
        self._waiting: asyncio.Queue[Object] = asyncio.Queue(WAITING_LIMIT)

    async def post(self, zone: Zone, announcements: Iterable[Announcement]) -> None:
        """Post them now if that is quickly done, else soon; never raises."""
        events = [render_event(zone, a, now_ms=self._wall_ms()) for a in announcements]
        try:
            async with asyncio.timeout(PATIENCE_S):
                while events and self._waiting.empty():
                    await self._create(events[0])
                    del events[0]
        except TimeoutError:
            logger.info("zone %s: the API server is slow to take events", zone.name)
        for event in events:
            self._enqueue(event)

    def post_soon(self, zone: Zone, announcement: Announcement) -> None:
        """Post it without waiting."""
        self._enqueue(render_event(zone, announcement, now_ms=self._wall_ms()))

    async def run(self) -> None:
        """Post what waits, forever."""
        while True:
            await self._create(await self._waiting.get())
            await asyncio.sleep(PERIOD_S)

    def _enqueue(self, event: Object) -> None:
        try:
            self._waiting.put_nowait(event)
        except asyncio.QueueFull:
            logger.warning("no room for the event %r", event["message"])

    async def _create(self, event: Object) -> None:
        try:
            await self._kube.create_event(event)
        except KubeConflict:
            logger.debug("event %s is there already", event["metadata"]["name"])
        except KubeError as error:
            logger.warning("the event %r is lost: %s", event["message"], error)


def render_event(zone: Zone, announcement: Announcement, *, now_ms: int) -> Object:
    """Renders the Event as the API server takes it; one for each `once` of this zone and reason."""
    about = f"{zone.uid} {announcement.reason} {announcement.once}"
    at = to_rfc3339(now_ms)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{zone.name}.{hashlib.sha256(about.encode()).hexdigest()[:16]}",
            "namespace": zone.namespace,
            "labels": {"app.kubernetes.io/name": "zonequake"},
        },
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": "DistributionZone",
            "name": zone.name,
            "namespace": zone.namespace,
            "uid": zone.uid,
        },
        "type": "Warning" if announcement.is_warning else "Normal",
        "reason": announcement.reason.value,
        "message": announcement.message[:1024],
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
