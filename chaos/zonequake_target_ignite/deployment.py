"""The deployment of one run: nodes, cluster, zone and table, which the run makes and removes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from zonequake_chaos.kit.client_code import ClientCode
from zonequake_chaos.kit.collect import applied_alike
from zonequake_chaos.kit.member_deployment import make_members, wait_members
from zonequake_chaos.kit.member_set import MemberSet
from zonequake_chaos.kit.target import TargetPlace
from zonequake_chaos.load.objects import load_plan
from zonequake_chaos.observe.observer import Observer
from zonequake_chaos.observe.view import ClusterView
from zonequake_chaos.record.cleanup_journal import CleanupJournal
from zonequake_chaos.record.event_log import EventLog
from zonequake_chaos.record.system_description import SystemDescription
from zonequake_chaos.scenario.run import RunZone
from zonequake_chaos.targeting.triggers import unsettled
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError, WaitExpired
from zonequake_load.pod.control import LoadPlan
from zonequake_protocol.admin import StoreEvent
from zonequake_target_ignite.client.protocol.statements import create_table
from zonequake_target_ignite.node_sight import NodeSight
from zonequake_target_ignite.nodes import STATUS_PORT, node_objects
from zonequake_target_ignite.source import NodeSource
from zonequake_target_ignite.zone.definition import cluster_configuration, create_zone
from zonequake_target_ignite.zone.states import STARTED

LOOK_S = 0.5
_Reached = Callable[[NodeSight], bool]
DEFINE_TIMEOUT_S = 90.0
MOST_VOTERS = 5
"""Nodes that keep the cluster's own data: an odd number, and no more than five."""


class IgniteDeployment:
    """One run's Ignite (see `deployment.Deployment`). The scenario is one that
    `zone.definition.unsuited_zones` accepts.
    """

    def __init__(
        self, place: TargetPlace, *, target: str, client: ClientCode, members: MemberSet
    ) -> None:
        (self._zone,) = place.run.spec.zones
        self._place = place
        self._kube: Kube = place.kube
        self._target = target
        self._members = members
        self._version = ""
        self.client = client
        self.member_source = NodeSource(place.kube, members, self._zone)

    @property
    def described(self) -> SystemDescription:
        return SystemDescription(
            name=self._target, version=self._version, image=self._members.image
        )

    def load_plan(self, zone: RunZone, *, seed: int) -> LoadPlan:
        return load_plan(
            client=self.client.connect,
            seeds=self._members.endpoints,
            zone=zone,
            spec=self._place.run.spec,
            seed=seed,
        )

    async def set_up(self, observer: Observer, journal: CleanupJournal) -> None:
        objects = node_objects(
            self._members,
            zone=self._zone.name,
            run_id=self._place.run_id,
            installation=self._place.installation,
        )
        await make_members(self._kube, self._members, objects, journal)
        await self._begin_cluster()
        for statement in (create_zone(self._zone), create_table(self._zone.name)):
            await self._post("/sql", {"statement": statement})
        await self.wait_available(observer)
        sights = [await self._sight(pod) for pod in self._members.pods]
        self._version = ", ".join(sorted({each.version for each in sights}))

    async def wait_available(self, observer: Observer) -> None:
        timeout_s = self._place.run.spec.times.setup_timeout_s
        await wait_members(observer, self._members, timeout_s=timeout_s)

    async def wait_alike(self, observer: Observer, *, timeout_s: float) -> None:
        """Waits until the replicas of each partition are healthy and estimate as many rows."""

        def differing(view: ClusterView) -> list[str]:
            return unsettled(view) or applied_alike(view)

        await observer.wait(
            lambda view: not differing(view),
            timeout_s=timeout_s,
            waiting_for=lambda view: "; ".join(differing(view)[:5]),
        )

    async def dump(self, view: ClusterView, folder: Path, events: EventLog) -> list[str]:
        """Dumps nothing: Ignite answers no query from one replica that is named."""
        return []

    async def recorded(
        self, nodes: Sequence[str], *, since_wall_ns: int
    ) -> tuple[Mapping[str, list[StoreEvent]], list[str]]:
        """Returns nothing: the nodes keep no journal; the observer records leaders and starts."""
        return {}, []

    # ---------------------------------------------------------------------------------------------

    async def _begin_cluster(self) -> None:
        """Begins the cluster once all nodes see each other, and waits until all have joined."""
        pods = self._members.pods
        await self._until(pods, lambda sight: set(sight.physical) >= set(pods), "see each other")
        voters = pods[: min(MOST_VOTERS, len(pods) - 1 + len(pods) % 2)]
        asked: dict[str, object] = {
            "metaStorageNodes": voters,
            "cmgNodes": voters,
            "clusterName": self._place.run_id,
            "clusterConfiguration": cluster_configuration(
                self._zone, attempt_ms=self._place.run.spec.load.attempt_timeout_ms
            ),
        }
        await self._post("/init", asked)
        await self._until(
            pods,
            lambda sight: sight.state == STARTED and set(sight.logical) >= set(pods),
            "have joined the cluster",
        )

    async def _until(self, pods: Sequence[str], reached: _Reached, what: str) -> None:
        timeout_s = self._place.run.spec.times.setup_timeout_s
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while True:
            missing = [pod for pod in pods if not await self._is(pod, reached)]
            if not missing:
                return
            if loop.time() >= deadline_s:
                raise WaitExpired(f"not within {timeout_s:g} s: {', '.join(missing)} don't {what}")
            await asyncio.sleep(LOOK_S)

    async def _is(self, pod: str, reached: _Reached) -> bool:
        try:
            return reached(await self._sight(pod))
        except (ClusterError, msgspec.MsgspecError):
            return False

    async def _sight(self, pod: str) -> NodeSight:
        return await self.member_source.sight(pod, timeout_s=5.0)

    async def _post(self, path: str, asked: Mapping[str, object]) -> None:
        await self._kube.pod_proxy(
            self._members.pods[0],
            STATUS_PORT,
            path,
            method="POST",
            body=msgspec.json.encode(asked),
            timeout_s=DEFINE_TIMEOUT_S,
        )
