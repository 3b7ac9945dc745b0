"""An etcd under test: the run creates it and removes it.

The run records the removal in the journal before it creates anything, as for zones and load, so
that `zonequake clean` finds it. Each run has a fresh etcd, without revisions of an earlier one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from zonequake_chaos.deployments.collect import applied_alike, patiently
from zonequake_chaos.deployments.etcd_objects import (
    CLIENT_PORT,
    ETCD_LABEL,
    KINDS,
    EtcdObjects,
    etcd_objects,
)
from zonequake_chaos.deployments.etcd_observer import EtcdMemberSource, etcd_at, incarnation
from zonequake_chaos.deployments.protocol import SystemDescription
from zonequake_chaos.load.installation import Installation
from zonequake_chaos.load.objects import RUN_LABEL, load_plan
from zonequake_chaos.observe.observer import Observer
from zonequake_chaos.observe.view import ClusterView
from zonequake_chaos.record.cleanup_journal import CleanupJournal, DeleteEtcd
from zonequake_chaos.record.event_log import EventLog
from zonequake_chaos.scenario.run import RunSpec, RunZone
from zonequake_chaos.targeting.triggers import unsettled
from zonequake_kube.client import Kube
from zonequake_kube.deletion import erase, wait_erased
from zonequake_kube.errors import ChaosError, ClusterError, NotFound, UsageError, WaitExpired
from zonequake_load.errors import EtcdError
from zonequake_load.pod.control import LoadPlan
from zonequake_load.targets.etcd.records import (
    LINEAGE,
    PARTITION,
    TERM,
    digest_of,
    dump_file,
    dump_prefix,
)
from zonequake_protocol.admin import StoreEvent

TARGET = "etcd"
CLIENT = "zonequake_load.targets.etcd.target:connect"


class EtcdDeployment:
    """An etcd of one run (see `protocol.Deployment`). The scenario is one that
    `etcd_plan.check_run` accepts.
    """

    def __init__(
        self, *, kube: Kube, spec: RunSpec, run_id: str, installation: Installation, image: str
    ) -> None:
        (zone,), (pool,) = spec.zones, spec.pools
        self._kube = kube
        self._spec = spec
        self._run_id = run_id
        self._installation = installation
        self._zone = zone
        self._members = EtcdObjects(
            name=f"{installation.release}-{TARGET}-{pool.name}",
            pool=pool.name,
            count=pool.replicas,
            namespace=installation.namespace,
            image=image,
            fsync=zone.fsync,
            settings=spec.etcd,
        )
        self._version = ""
        self.member_source = EtcdMemberSource(kube, self._members, zone.name)

    @property
    def described(self) -> SystemDescription:
        return SystemDescription(name=TARGET, version=self._version, image=self._members.image)

    def load_plan(self, zone: RunZone, *, seed: int) -> LoadPlan:
        """Returns a plan with as many keys for the one group as our store has in all partitions."""
        plan = load_plan(
            client=CLIENT,
            seeds=self._members.endpoints,
            zone=zone,
            load=self._spec.load,
            seed=seed,
            final_timeout_s=self._spec.times.final_timeout_s,
        )
        many = zone.partitions
        return msgspec.structs.replace(
            plan,
            workloads=[
                msgspec.structs.replace(
                    workload, keys_per_partition=workload.keys_per_partition * many
                )
                for workload in plan.workloads
            ],
            preload=msgspec.structs.replace(
                plan.preload,
                bulk_keys_per_partition=plan.preload.bulk_keys_per_partition * many,
            ),
        )

    async def set_up(self, observer: Observer, journal: CleanupJournal) -> None:
        await self._refuse_foreign()
        journal.owe(DeleteEtcd(name=self._members.name))
        await delete_etcd(self._kube, self._members.name)  # of a run that was not cleaned
        for manifest in etcd_objects(
            self._members, run_id=self._run_id, installation=self._installation
        ):
            await self._kube.apply(manifest)
        await self.wait_available(observer)
        raw = await self._kube.pod_proxy(self._members.pods[0], CLIENT_PORT, "/version")
        self._version = str(msgspec.json.decode(raw, type=dict[str, str])["etcdserver"])

    async def wait_available(self, observer: Observer) -> None:
        await observer.wait(
            lambda view: not self._missing(view),
            timeout_s=self._spec.times.setup_timeout_s,
            waiting_for=lambda view: "; ".join(self._missing(view)[:5]),
        )

    async def wait_alike(self, observer: Observer, *, timeout_s: float) -> None:
        """Waits until all members have equal revisions, and the same hash of all keys with their
        history at that revision.
        """
        await observer.wait(
            lambda view: not applied_alike(view),
            timeout_s=timeout_s,
            waiting_for=lambda view: "; ".join(applied_alike(view)[:5]),
        )
        (partition,) = observer.view().partitions.values()
        revision = max(replica.applied for replica in partition.replicas.values())
        try:
            hashes = {
                pod: (await etcd_at(self._kube, pod).hash_kv(revision)).hash
                for pod in self._members.pods
            }
        except (ClusterError, EtcdError) as error:
            raise WaitExpired(f"no hash of revision {revision}: {error}") from error
        if len(set(hashes.values())) != 1:
            raise WaitExpired(f"hashes of revision {revision} differ: {hashes}")

    async def dump(self, view: ClusterView, folder: Path, events: EventLog) -> list[str]:
        problems = []
        prefix = dump_prefix(self._zone.name)
        for pod in self._members.pods:
            try:
                dump = await patiently(partial(etcd_at(self._kube, pod).dump, prefix))
            except (ChaosError, EtcdError) as error:
                problems.append(f"no dump of {pod}: {error}")
                continue
            name = f"{PARTITION}-{pod}.jsonl"
            (folder / name).write_bytes(dump_file(dump, zone=self._zone.name, node=pod))
            events.emit(
                "replica.audit",
                {
                    "applied": dump.revision,
                    "log_index": dump.log_index,
                    "digest": digest_of(dump),
                    "keys": len(dump.kvs),
                    "lineage": LINEAGE,
                    "term": TERM,
                    "incarnation": incarnation(dump.member_id),
                    "file": f"dumps/{name}",
                },
                place=(self._zone.name, PARTITION),
                node=pod,
            )
        return problems

    async def recorded(
        self, nodes: Sequence[str], *, since_wall_ns: int
    ) -> tuple[Mapping[str, list[StoreEvent]], list[str]]:
        """Returns nothing: an etcd keeps no journal; the observer records leaders and starts."""
        return {}, []

    def _missing(self, view: ClusterView) -> list[str]:
        absent = sorted(set(self._members.pods) - set(view.nodes))
        return [f"{pod} is not there" for pod in absent] + unsettled(view)

    async def _refuse_foreign(self) -> None:
        name = self._members.name
        try:
            found = await self._kube.get("StatefulSet", name)
        except NotFound:
            return
        if RUN_LABEL not in (found["metadata"].get("labels") or {}):
            raise UsageError(
                f"StatefulSet {name} exists in {self._kube.namespace} and belongs to no run: "
                "delete it, or give another --release"
            )


async def delete_etcd(kube: Kube, name: str) -> None:
    """Deletes all objects of the etcd `name` and waits until they are gone. Raises WaitExpired."""
    labels = f"{ETCD_LABEL}={name}"
    await erase(kube, labels, KINDS)
    await wait_erased(kube, labels)
