"""Reads the nodes' Leases, takes over those of nodes that are to count as left, and deletes those
of nodes that have left for good."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from zonequake_operator.api_server.kube import NamespaceApi
from zonequake_operator.controller import metrics
from zonequake_operator.errors import KubeConflict, KubeError, KubeNotFound, ResourceError
from zonequake_operator.resources.leases import Lease, Renewals
from zonequake_operator.resources.stored_shapes import Object, from_rfc3339

logger = logging.getLogger(__name__)

FENCED = "zonequake.io/fenced"
"""The annotation that the data node heeds; its value is for people."""
PARALLEL_FENCES = 16
DELETE_AGAIN_S = 30.0
"""The pause before a failed deletion is tried again."""


class Fencing:
    """One operator's view of the Leases, and its compare-and-swaps on them."""

    def __init__(self, kube: NamespaceApi, *, monotonic_s: Callable[[], float]) -> None:
        self._kube = kube
        self._monotonic_s = monotonic_s
        self._objects: dict[str, Object] = {}
        self._renewals = Renewals()
        self.leases: Mapping[str, Lease] = {}
        self._delete_again_s = float("-inf")

    @property
    def may_delete(self) -> bool:
        """Returns whether a deletion may be tried; not soon after one that failed, perhaps for want
        of the right.
        """
        return self._monotonic_s() >= self._delete_again_s

    @property
    def run_out(self) -> frozenset[str]:
        """Returns the nodes whose Leases have run out."""
        return self._renewals.run_out

    async def look(self) -> None:
        """Read all Leases."""
        objects = await self._kube.list_leases()
        self._objects = {obj["metadata"]["name"]: obj for obj in objects}
        self.leases = {name: parse_lease(obj) for name, obj in self._objects.items()}
        self._renewals.looked(self.leases, self._monotonic_s())

    async def look_at(self, names: Iterable[str]) -> None:
        """Read the Leases of these nodes alone: the API server reads one object from etcd at once,
        but holds back a list until its cache has reached a revision as new, up to 0.1 s (Kubernetes
        KEP-2340, consistent reads from cache).
        """
        wanted = sorted(names)
        found = await asyncio.gather(*(self._find(name) for name in wanted))
        for name, obj in zip(wanted, found, strict=True):
            if obj is None:
                self._objects.pop(name, None)
            else:
                self._objects[name] = obj
        self.leases = {name: parse_lease(obj) for name, obj in self._objects.items()}
        self._renewals.looked_at({n: self.leases[n] for n in wanted if n in self.leases})

    async def _find(self, name: str) -> Object | None:
        try:
            return await self._kube.get_lease(name)
        except KubeNotFound:
            return None

    async def fence(self, names: Iterable[str], why: str) -> None:
        """Take these over; what was renewed since `look` stays, and its node with it."""
        slots = asyncio.Semaphore(PARALLEL_FENCES)

        async def one(name: str) -> None:
            async with slots:
                await self._fence(name, why)

        await asyncio.gather(*(one(name) for name in sorted(names)))

    async def _fence(self, name: str, why: str) -> None:
        body = dict(self._objects[name])
        body["metadata"] = dict(body["metadata"])
        body["metadata"]["annotations"] = {
            **(body["metadata"].get("annotations") or {}),
            FENCED: why,
        }
        try:
            written = await self._kube.replace_lease(body)
        except (KubeConflict, KubeNotFound) as error:
            logger.info("%s keeps its Lease for now: %s", name, error)
            return
        logger.warning("%s was fenced, and has left: %s", name, why)
        metrics.FENCES.inc()
        self._objects[name] = written
        self.leases = {**self.leases, name: parse_lease(written)}

    async def delete(self, names: Iterable[str]) -> None:
        """Delete these, as they were read; what was written since stays."""
        for name in sorted(names):
            metadata = self._objects[name]["metadata"]
            try:
                await self._kube.delete_lease(
                    name, uid=metadata["uid"], resource_version=metadata["resourceVersion"]
                )
            except KubeError as error:
                # Nothing depends on it: a failure doesn't fail the round.
                self._delete_again_s = self._monotonic_s() + DELETE_AGAIN_S
                logger.info("the Lease of %s stays for now: %s", name, error)
                continue
            logger.info("the Lease of %s was deleted: the node is no longer wanted", name)
            del self._objects[name]
            self.leases = {n: lease for n, lease in self.leases.items() if n != name}


def parse_lease(obj: Object) -> Lease:
    """Parses a Lease as it was read."""
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    return Lease(
        name=metadata["name"],
        holder=spec.get("holderIdentity") or "",
        session=spec.get("leaseTransitions") or 0,
        fenced=(metadata.get("annotations") or {}).get(FENCED),
        duration_s=spec.get("leaseDurationSeconds") or 0,
        resource_version=metadata["resourceVersion"],
        renewed_ms=_renewed_ms(spec.get("renewTime")),
    )


def _renewed_ms(text: str | None) -> int:
    try:
        return 0 if text is None else from_rfc3339(text)
    except ResourceError:
        return 0  # only people read it
