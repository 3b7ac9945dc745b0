"""`kubectl zq pause` and `resume`: set spec.paused, and wait until the operator obeys."""

from __future__ import annotations

import asyncio
import time

from zonequake_kube.client import Kube
from zonequake_kube.diagnosis import look_at_operator
from zonequake_kube.errors import ClusterError, NotFound, UsageError, WaitExpired
from zonequake_kube.objects import Json

PATIENCE_S = 20.0
"""An operator looks at a changed zone within a second."""
POLL_S = 0.2


async def set_paused(kube: Kube, zone: str, *, paused: bool) -> str:
    """One sentence on what holds now. Raises UsageError if there is no such zone, WaitExpired if
    the operator doesn't process it."""
    try:
        stored = await kube.patch("DistributionZone", zone, {"spec": {"paused": paused}})
    except NotFound as error:
        raise UsageError(
            f"namespace {kube.namespace} has no zone {zone}: check its name, or give --namespace"
        ) from error
    generation = int(stored["metadata"]["generation"])
    deadline_s = time.monotonic() + PATIENCE_S
    while not _obeyed(stored, generation, paused=paused):
        if "deletionTimestamp" in stored["metadata"]:
            raise UsageError(
                f"zone {zone} is being deleted: there is nothing to pause or resume any more"
            )
        if time.monotonic() > deadline_s:
            raise WaitExpired(
                f"zone {zone}: spec.paused is {str(paused).lower()}, but no operator has "
                f"processed it within {PATIENCE_S:.0f} s: {await look_at_operator(kube)}"
            )
        await asyncio.sleep(POLL_S)
        try:
            stored = await kube.get("DistributionZone", zone)
        except NotFound as error:
            raise ClusterError(
                f"zone {zone} was deleted while this command waited: "
                "there is nothing to pause or resume"
            ) from error
    return _sentence(zone, stored, paused=paused)


def _obeyed(zone: Json, generation: int, *, paused: bool) -> bool:
    status = zone.get("status") or {}
    if int(status.get("observedGeneration") or 0) < generation:
        return False
    found = [c for c in status.get("conditions") or [] if c["type"] == "Paused"]
    return bool(found) and (found[0]["status"] == "True") is paused


def _sentence(zone: str, stored: Json, *, paused: bool) -> str:
    moving = int(((stored.get("status") or {}).get("partitions") or {}).get("moving") or 0)
    if not paused:
        return f"Zone {zone} is resumed: the operator acts on it again."
    stay = f" {moving} moves stay where they are." if moving else ""
    return (
        f"Zone {zone} is paused: its partitions are served as before, replicas of restarted nodes "
        f"are started, and nothing else is changed.{stay} kubectl zq resume {zone} ends it."
    )
