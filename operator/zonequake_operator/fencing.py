"""Reads the nodes' Leases, and takes over those of nodes that are to count as left."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from .errors import Conflict, NotFound
from .kube import Kube
from .leases import Lease, Renewals
from .wire import Object

logger = logging.getLogger(__name__)

FENCED = "zonequake.io/fenced"
"""The annotation that the data node heeds; its value is for people."""


class Fencing:
    """One operator's view of the Leases, and its compare-and-swaps on them."""

    def __init__(self, kube: Kube, *, monotonic_s: Callable[[], float]) -> None:
        self._kube = kube
        self._monotonic_s = monotonic_s
        self._objects: dict[str, Object] = {}
        self._renewals = Renewals()
        self.leases: Mapping[str, Lease] = {}

    @property
    def run_out(self) -> frozenset[str]:
        """Whose Leases have run out."""
        return self._renewals.run_out

    async def look(self) -> None:
        """Read all Leases."""
        objects = await self._kube.list_leases()
        self._objects = {obj["metadata"]["name"]: obj for obj in objects}
        self.leases = {name: parse_lease(obj) for name, obj in self._objects.items()}
        self._renewals.looked(self.leases, self._monotonic_s())

    async def fence(self, names: Iterable[str], why: str) -> None:
        """Take these over; what was renewed since `look` stays, and its node with it."""
        for name in sorted(names):
            body = dict(self._objects[name])
            body["metadata"] = dict(body["metadata"])
            body["metadata"]["annotations"] = {
                **(body["metadata"].get("annotations") or {}),
                FENCED: why,
            }
            try:
                written = await self._kube.replace_lease(body)
            except (Conflict, NotFound) as error:
                logger.info("%s keeps its Lease for now: %s", name, error)
                continue
            logger.warning("%s was fenced, and has left: %s", name, why)
            self._objects[name] = written
            self.leases = {**self.leases, name: parse_lease(written)}


def parse_lease(obj: Object) -> Lease:
    """A Lease as it was read."""
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    return Lease(
        name=metadata["name"],
        holder=spec.get("holderIdentity") or "",
        session=spec.get("leaseTransitions") or 0,
        fenced=(metadata.get("annotations") or {}).get(FENCED),
        duration_s=spec.get("leaseDurationSeconds") or 0,
        resource_version=metadata["resourceVersion"],
    )
