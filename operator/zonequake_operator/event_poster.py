"""Announcements on their way to the API server, without anybody waiting for them.

An Event is a courtesy: it may be lost, but never holds up an order. Its name is derived from what
it speaks of, so that two operators, a repeated call or a restart don't make two of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable

from .announcements import Announcement
from .errors import Conflict, KubeError
from .kube import Kube
from .model import Zone
from .wire import API_VERSION, Object, to_rfc3339

logger = logging.getLogger(__name__)

COMPONENT = "zonequake-operator"
WAITING_LIMIT = 200
"""More than so many waiting Events are dropped: by then the conditions say more."""
PERIOD_S = 0.1
"""Pause after each Event: the API server has other work, and so has etcd."""


class EventPoster:
    """A queue of Events and the task that empties it."""

    def __init__(self, kube: Kube, *, wall_ms: Callable[[], int]) -> None:
        self._kube = kube
        self._wall_ms = wall_ms
        self._waiting: asyncio.Queue[Object] = asyncio.Queue(WAITING_LIMIT)

    def post(self, zone: Zone, announcement: Announcement, *, once: str) -> None:
        """Post it soon; one Event for each value of `once` of this zone and reason."""
        event = render_event(zone, announcement, once=once, now_ms=self._wall_ms())
        try:
            self._waiting.put_nowait(event)
        except asyncio.QueueFull:
            logger.warning("zone %s: no room for the event %r", zone.name, announcement.message)

    async def run(self) -> None:
        """Post for ever."""
        while True:
            event = await self._waiting.get()
            try:
                await self._kube.create_event(event)
            except Conflict:
                logger.debug("event %s is there already", event["metadata"]["name"])
            except KubeError as error:
                logger.warning("the event %r is lost: %s", event["message"], error)
            await asyncio.sleep(PERIOD_S)


def render_event(zone: Zone, announcement: Announcement, *, once: str, now_ms: int) -> Object:
    """The Event as the API server takes it."""
    about = f"{zone.uid} {announcement.reason} {once}"
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
