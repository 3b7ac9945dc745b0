"""Our own store under test: pools of data nodes, zones, and the operator that moves partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from zonequake_chaos.faults.kinds.scale import set_replicas, stateful_set
from zonequake_chaos.kit.client_code import ClientCode
from zonequake_chaos.kit.collect import applied_alike
from zonequake_chaos.load.installation import Installation
from zonequake_chaos.load.objects import load_plan
from zonequake_chaos.observe.observer import Observer
from zonequake_chaos.observe.view import ClusterView
from zonequake_chaos.record.cleanup_journal import CleanupJournal, RestoreScale
from zonequake_chaos.record.event_log import EventLog
from zonequake_chaos.record.system_description import SystemDescription
from zonequake_chaos.scenario.control import with_control
from zonequake_chaos.scenario.run import RunSpec, RunZone
from zonequake_kube.client import Kube
from zonequake_load.pod.control import LoadPlan
from zonequake_protocol.admin import StoreEvent
from zonequake_target_store.data_nodes import DataNodeSource
from zonequake_target_store.replicas import dump_replicas, record_leaderless, store_events
from zonequake_target_store.zones import create_zone, wait_available, wait_departed


class StoreDeployment:
    """See `deployment.Deployment`. The release is installed; a run sizes its pools and creates its
    own zones."""

    def __init__(
        self,
        *,
        kube: Kube,
        spec: RunSpec,
        run_id: str,
        installation: Installation,
        client: ClientCode,
    ) -> None:
        self._kube = kube
        self._spec = spec
        self._run_id = run_id
        self._installation = installation
        self.client = client
        self.member_source = DataNodeSource(kube)

    @property
    def described(self) -> SystemDescription:
        return SystemDescription(name="zonequake", version=version("zonequake"))

    def load_plan(self, zone: RunZone, *, seed: int) -> LoadPlan:
        at = self._installation
        return load_plan(
            client=self.client.connect,
            seeds=[f"{at.store_service}.{at.namespace}.svc:{self.member_source.ports.clients}"],
            zone=zone,
            spec=self._spec,
            seed=seed,
        )

    async def set_up(self, observer: Observer, journal: CleanupJournal) -> None:
        spec = self._spec
        for pool in spec.pools:
            name = stateful_set(self._installation.release, pool.name)
            found = await self._kube.get("StatefulSet", name)
            before = int(found["spec"]["replicas"])
            if before != with_control(spec, pool.name):
                journal.owe(RestoreScale(stateful_set=name, replicas=before))
            if before != pool.replicas:
                await set_replicas(self._kube, name=name, replicas=pool.replicas)
        await self._until_they_answer(observer, {pool.name: pool.replicas for pool in spec.pools})
        await wait_departed(self._kube, observer, timeout_s=spec.times.setup_timeout_s)
        for zone in spec.zones:
            await create_zone(self._kube, journal, zone, self._run_id)

    async def wait_available(self, observer: Observer) -> None:
        await wait_available(
            self._kube,
            observer,
            self._spec.zones,
            timeout_s=self._spec.times.setup_timeout_s,
        )
        control = self._spec.control
        if control is None:
            return
        # Only now, because a zone takes all nodes that exist when it is created.
        name = stateful_set(self._installation.release, control.pool)
        await set_replicas(self._kube, name=name, replicas=with_control(self._spec, control.pool))
        await self._until_they_answer(
            observer, {pool.name: with_control(self._spec, pool.name) for pool in self._spec.pools}
        )

    async def _until_they_answer(self, observer: Observer, replicas: Mapping[str, int]) -> None:
        """Waits until the pools have just these sizes: a zone takes all nodes that exist."""
        wanted = {
            f"{stateful_set(self._installation.release, pool)}-{ordinal}"
            for pool, size in replicas.items()
            for ordinal in range(size)
        }
        await observer.wait(
            lambda view: (
                set(view.nodes) == wanted and all(node.answers for node in view.nodes.values())
            ),
            timeout_s=self._spec.times.setup_timeout_s,
            waiting_for=lambda view: (
                f"{sum(view.nodes[name].answers for name in wanted & set(view.nodes))} of "
                f"{len(wanted)} data nodes answer ({', '.join(view.nodes) or 'no pod'})"
            ),
        )

    async def wait_alike(self, observer: Observer, *, timeout_s: float) -> None:
        await observer.wait(
            lambda view: not applied_alike(view),
            timeout_s=timeout_s,
            waiting_for=lambda view: "; ".join(applied_alike(view)[:5]),
        )

    async def dump(self, view: ClusterView, folder: Path, events: EventLog) -> list[str]:
        record_leaderless(view, events)
        return await dump_replicas(self._kube, view, folder, events)

    async def recorded(
        self, nodes: Sequence[str], *, since_wall_ns: int
    ) -> tuple[Mapping[str, list[StoreEvent]], list[str]]:
        return await store_events(self._kube, nodes, since_wall_ns=since_wall_ns)
