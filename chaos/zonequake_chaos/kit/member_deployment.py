"""The deployment of a target that is one group of equal members: the run creates it and removes it.

The run records the removal in the journal before it creates anything, as for zones and load, so
that `zonequake clean` finds it. Each run has members without data of an earlier one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from zonequake_chaos.kit.client_code import ClientCode
from zonequake_chaos.kit.collect import applied_alike, patiently
from zonequake_chaos.kit.limits.member_limits import check_container
from zonequake_chaos.kit.member_set import KINDS, MemberSet, member_objects
from zonequake_chaos.kit.members import (
    PARTITION,
    MemberSystem,
    dump_file,
    group_of,
    report_of,
)
from zonequake_chaos.kit.target import TargetPlace
from zonequake_chaos.load.objects import RUN_LABEL, load_plan
from zonequake_chaos.observe.observer import Observer
from zonequake_chaos.observe.view import ClusterView
from zonequake_chaos.record.cleanup_journal import CleanupJournal, DeleteObjects
from zonequake_chaos.record.event_log import EventLog
from zonequake_chaos.record.system_description import SystemDescription
from zonequake_chaos.scenario.run import RunZone
from zonequake_chaos.targeting.triggers import unsettled
from zonequake_kube.client import Kube
from zonequake_kube.deletion import erase_all
from zonequake_kube.errors import ClusterError, NotFound, UsageError, WaitExpired
from zonequake_kube.objects import Json, KeysView, PodView
from zonequake_load.pod.control import LoadPlan
from zonequake_protocol.admin import ReplicasReport, StoreEvent


class MemberSetSource:
    """The source of the members of one run (see `observer.MemberSource`)."""

    journals = False

    def __init__(self, system: MemberSystem, members: MemberSet, group: str) -> None:
        self._system = system
        self._members = members
        self._group = group
        self.ports = members.ports
        self.pod_labels = members.labels
        zone = group.partition(".")[0]
        self.own_keys = [KeysView(zone=zone, partition=PARTITION, stable=tuple(members.pods))]

    async def report(self, pod: PodView, *, timeout_s: float) -> ReplicasReport:
        status = await self._system.status(pod.name, timeout_s=timeout_s)
        return report_of(pod, status, group=self._group, pods=self._members.pods)


class MemberSetDeployment:
    """One run's members (see `deployment.Deployment`). The scenario is one that
    `one_group.unsuited_to_one_group` accepts.
    """

    def __init__(
        self,
        place: TargetPlace,
        *,
        client: ClientCode,
        members: MemberSet,
        system: MemberSystem,
    ) -> None:
        """Raises UsageError for a container that sets what the kit sets."""
        (self._zone,) = place.run.spec.zones
        self._place = place
        self._kube: Kube = place.kube
        self._members = members
        self._system = system
        self._version = ""
        self._container = system.container(members)
        check_container(members.target, self._container)
        self._group = group_of(self._zone.name, members.target)
        self.client = client
        self.member_source = MemberSetSource(system, members, self._group)

    @property
    def described(self) -> SystemDescription:
        return SystemDescription(
            name=self._members.target, version=self._version, image=self._members.image
        )

    def load_plan(self, zone: RunZone, *, seed: int) -> LoadPlan:
        """Returns a plan with as many keys for the one group as our store has in all partitions."""
        spec = self._place.run.spec
        plan = load_plan(
            client=self.client.connect,
            seeds=self._members.endpoints,
            zone=zone,
            spec=spec,
            seed=seed,
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
        objects = member_objects(
            self._members,
            self._container,
            run_id=self._place.run_id,
            installation=self._place.installation,
        )
        await make_members(self._kube, self._members, objects, journal)
        await self.wait_available(observer)
        versions = {await self._system.version(pod) for pod in self._members.pods}
        self._version = ", ".join(sorted(versions))

    async def wait_available(self, observer: Observer) -> None:
        timeout_s = self._place.run.spec.times.setup_timeout_s
        await wait_members(observer, self._members, timeout_s=timeout_s)

    async def wait_alike(self, observer: Observer, *, timeout_s: float) -> None:
        try:
            differ = await patiently(partial(self._differences, observer, timeout_s))
        except ClusterError as error:
            raise WaitExpired(str(error)) from error
        if differ:
            raise WaitExpired(differ)

    async def _differences(self, observer: Observer, timeout_s: float) -> str:
        """Returns how members differ that have applied the same. Raises ClusterError if they went
        on meanwhile: an election adds an entry of its own.
        """
        await observer.wait(
            lambda view: not applied_alike(view),
            timeout_s=timeout_s,
            waiting_for=lambda view: "; ".join(applied_alike(view)[:5]),
        )
        (partition,) = observer.view().partitions.values()
        applied = max(replica.applied for replica in partition.replicas.values())
        try:
            return await self._system.differences(self._members.pods, applied)
        except ClusterError as error:
            raise ClusterError(f"members can't be compared at {applied}: {error}") from error

    async def dump(self, view: ClusterView, folder: Path, events: EventLog) -> list[str]:
        problems = []
        for pod in self._members.pods:
            try:
                dump = await patiently(partial(self._system.dump, pod))
            except ClusterError as error:
                problems.append(f"no dump of {pod}: {error}")
                continue
            name = f"{PARTITION}-{pod}.jsonl"
            (folder / name).write_bytes(dump_file(dump, group=self._group, node=pod))
            events.emit(
                "replica.audit",
                {
                    "applied": dump.applied,
                    "log_index": dump.log_index,
                    "digest": dump.digest,
                    "keys": len(dump.keys),
                    "lineage": dump.lineage,
                    "term": dump.term,
                    "incarnation": dump.storage,
                    "file": f"dumps/{name}",
                },
                place=(self._zone.name, PARTITION),
                node=pod,
            )
        return problems

    async def recorded(
        self, nodes: Sequence[str], *, since_wall_ns: int
    ) -> tuple[Mapping[str, list[StoreEvent]], list[str]]:
        """Returns nothing: the members keep no journal; the observer records leaders and starts."""
        return {}, []


async def make_members(
    kube: Kube, members: MemberSet, objects: Sequence[Json], journal: CleanupJournal
) -> None:
    """Makes the members' objects, in their order, once those of a run that was not cleaned are
    gone; the journal owes their removal before.

    Raises UsageError for a StatefulSet of that name that is no run's.
    """
    await _refuse_another(kube, members.name)
    journal.owe(DeleteObjects(labels=members.labels, kinds=list(KINDS)))
    await erase_all(kube, members.labels, KINDS)
    for manifest in objects:
        await kube.apply(manifest)


async def wait_members(observer: Observer, members: MemberSet, *, timeout_s: float) -> None:
    """Waits until all members are there, and settled. Raises WaitExpired."""

    def missing(view: ClusterView) -> list[str]:
        absent = sorted(set(members.pods) - set(view.nodes))
        return [f"{pod} is not there" for pod in absent] + unsettled(view)

    await observer.wait(
        lambda view: not missing(view),
        timeout_s=timeout_s,
        waiting_for=lambda view: "; ".join(missing(view)[:5]),
    )


async def _refuse_another(kube: Kube, name: str) -> None:
    try:
        found = await kube.get("StatefulSet", name)
    except NotFound:
        return
    if RUN_LABEL not in (found["metadata"].get("labels") or {}):
        raise UsageError(
            f"StatefulSet {name} exists in {kube.namespace} and belongs to no run: "
            "delete it, or give another --release"
        )
