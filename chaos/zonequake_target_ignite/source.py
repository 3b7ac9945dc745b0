"""The nodes of one run as the observer reads them: what each says of itself, put together."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from zonequake_chaos.kit.member_set import MemberSet
from zonequake_chaos.scenario.run import RunZone
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError
from zonequake_kube.objects import KeysView, PodView
from zonequake_protocol.admin import ReplicasReport
from zonequake_target_ignite.node_sight import CATCHING_UP, HEALTHY, NodeSight
from zonequake_target_ignite.nodes import PORTS, STATUS_PORT
from zonequake_target_ignite.zone.placement import ZonePlacement
from zonequake_target_ignite.zone.states import BEHIND, report_of

KEPT_S = 3.0
"""A node's last word is forgotten after so long: it is silent, or its pod is gone."""


class NodeSource:
    """The nodes of one run (see `observer.MemberSource`)."""

    journals = False
    ports = PORTS

    def __init__(
        self,
        kube: Kube,
        members: MemberSet,
        zone: RunZone,
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._zone = zone
        self._now_s = now_s
        self._placement = ZonePlacement(zone, members.pods)
        self._sights: dict[str, tuple[float, NodeSight]] = {}
        self.pod_labels = members.labels

    @property
    def own_keys(self) -> Sequence[KeysView]:
        """The partitions, as calculated from what the nodes said last."""
        return self._placement.keys()

    async def sight(self, pod: str, *, timeout_s: float) -> NodeSight:
        """Returns what a node says of itself. Raises ClusterError, msgspec.MsgspecError."""
        raw = await self._kube.pod_proxy(pod, STATUS_PORT, "/status", timeout_s=timeout_s)
        return msgspec.json.decode(raw, type=NodeSight)

    async def report(self, pod: PodView, *, timeout_s: float) -> ReplicasReport:
        try:
            sight = await self.sight(pod.name, timeout_s=timeout_s)
        except (ClusterError, msgspec.MsgspecError):
            self._sights.pop(pod.name, None)
            raise
        now_s = self._now_s()
        self._sights[pod.name] = now_s, sight
        self._sights = {
            name: (at_s, one) for name, (at_s, one) in self._sights.items() if now_s - at_s < KEPT_S
        }
        if sight.primaries and sight.logical:  # the table is there, and a majority told
            self._placement.look(
                logical=sight.logical,
                holders={n: set(held) for n, held in self._held().items()},
                healthy={
                    n: {node for node, state in held.items() if state in (HEALTHY, CATCHING_UP)}
                    for n, held in self._held().items()
                },
                replicas=sight.zone_replicas or self._zone.replicas,
                now_s=now_s,
            )
        return report_of(
            pod,
            sight,
            zone=self._zone.name,
            members={n: self._placement.nodes(n) for n in range(self._zone.partitions)},
            volatile=self._zone.storage == "Volatile",
            behind=self._behind(),
        )

    def _held(self) -> Mapping[int, Mapping[str, str]]:
        """Returns the state of each partition's replicas, by node."""
        found: dict[int, dict[str, str]] = {}
        for node, (_, sight) in self._sights.items():
            for replica in sight.replicas:
                found.setdefault(replica.partition, {})[node] = replica.state
        return found

    def _behind(self) -> Mapping[int, Mapping[str, int]]:
        """Returns the nodes whose replica lacks data, by partition, each with its rows."""
        found: dict[int, dict[str, int]] = {}
        for node, (_, sight) in self._sights.items():
            for replica in sight.replicas:
                if replica.state in BEHIND:
                    found.setdefault(replica.partition, {})[node] = replica.rows
        return found
