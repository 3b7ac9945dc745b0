"""Runs one zone for as long as it exists: one step for each polling round of the nodes.

Free of kopf, so that the simulation runs the same loop.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from zonequake_operator.controller.reconciler import ZoneReconciler
from zonequake_operator.errors import KubeConflict, KubeError, ResourceError
from zonequake_operator.fleet.fleet import Fleet

logger = logging.getLogger(__name__)

ERROR_BACKOFF_S = 0.5


class Stopped(Protocol):
    """Tells whether the zone's daemon is to end; kopf's `DaemonStopped` is one."""

    def __bool__(self) -> bool: ...

    def wait(self, timeout: float) -> Awaitable[object]:
        """Return when it is, or after `timeout` seconds."""


async def watch(
    reconciler: ZoneReconciler,
    fleet: Fleet,
    stopped: Stopped,
    *,
    resync_s: float,
    wall_ms: Callable[[], int],
) -> None:
    """Step until `stopped`; what goes wrong is logged and tried again."""
    seen, wake_at_ms = 0, None
    while not stopped:
        timeout_s = resync_s
        if wake_at_ms is not None:
            timeout_s = min(timeout_s, max(0.0, (wake_at_ms - wall_ms()) / 1000))
        view = await fleet.next_view(seen, timeout_s)
        if view.edition == 0:
            continue  # no node has answered yet
        seen = view.edition
        try:
            wake_at_ms = (await reconciler.step(view)).wake_at_ms
        except KubeConflict as error:
            logger.info("zone %s: read again, %s", reconciler.name, error)
        except (KubeError, ResourceError) as error:
            logger.warning("zone %s: tried again soon, %s", reconciler.name, error)
            await stopped.wait(ERROR_BACKOFF_S)
        except Exception:
            # One poisoned zone must stop neither itself forever nor the others.
            logger.exception("zone %s: tried again soon", reconciler.name)
            reconciler.resources.invalidate()
            await stopped.wait(ERROR_BACKOFF_S * 4)
