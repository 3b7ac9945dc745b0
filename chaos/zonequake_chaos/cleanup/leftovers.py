"""Finds what a run left, in the cluster and on the node themselves, and not in a journal.

Each look finds one kind of leftover and says how to undo it. A place that can't be checked counts
as not proven. A new kind of fault adds its look to `LOOKS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from zonequake_chaos.cleanup.run_lock import RunLock
from zonequake_chaos.cleanup.undo import ZONE_GONE_AGAIN_S, delete_zone
from zonequake_chaos.faults.kinds.node_outage import remove_finalizer
from zonequake_chaos.faults.kinds.scale import set_replicas
from zonequake_chaos.faults.signals import continue_process, stopped_processes
from zonequake_chaos.load.objects import RUN_LABEL
from zonequake_chaos.node_access.leftovers import heal, left_behind
from zonequake_chaos.node_access.own_machine import OwnMachine
from zonequake_chaos.node_access.shell import NodeShell, PodOnNode
from zonequake_kube.client import Kube
from zonequake_kube.errors import HarnessError, NotFound
from zonequake_kube.objects import OPERATOR_LABELS, STORE_LABELS, Json, pod_view

Mend = Callable[[], Awaitable[None]]
FINALIZERS = "zonequake.io/"
_COMPONENT = "app.kubernetes.io/component"
_MADE = (
    "StatefulSet",
    "Service",
    "ConfigMap",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
    "Pod",
)
"""Kinds of objects that runs make. Kinds whose objects would recreate others come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Something that a run left: its description, and the action that undoes it."""

    what: str
    mend: Mend


@dataclass(slots=True, kw_only=True)
class LeftoverSearch:
    """The result of a look: the checked places, the leftovers found there, and the places that
    could not be checked.
    """

    checked: list[str] = field(default_factory=list)
    left: list[Leftover] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    @property
    def proven(self) -> bool:
        return not self.left and not self.unseen


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlaces:
    """The places to check. `run` None: those of any run. `lock` has the state before, if known."""

    kube: Kube
    node: OwnMachine | None
    shell: NodeShell | None
    run: str | None
    lock: RunLock | None


Look = Callable[[SearchPlaces], Awaitable[list[Leftover]]]


async def look(places: SearchPlaces, *, labelled: bool = False) -> LeftoverSearch:
    """Looks everywhere, even if one look fails; or only for objects with the run's label."""
    search = LeftoverSearch()
    for words, one in LOOKS.items():
        if labelled and one not in (_objects, _zones):
            continue
        if one is _components and places.node is None:
            continue  # no run can have stopped anything on a node that is not this machine's
        if one is _at_pods and places.shell is None:
            continue  # without a shell on the node no run can have done anything there
        if one in (_scales, _volumes, _partitions) and places.lock is None:
            continue
        try:
            search.left += await one(places)
        except HarnessError as error:
            search.unseen.append(f"{words}: {error}")
        else:
            search.checked.append(words)
    return search


async def at_pods(kube: Kube, node: OwnMachine | None, shell: NodeShell | None) -> list[Leftover]:
    """Returns the leftovers of faults at pods, seen from their nodes."""
    if shell is None:
        return []
    try:
        return await _at_pods(SearchPlaces(kube=kube, node=node, shell=shell, run=None, lock=None))
    except HarnessError:
        return []  # the look that the proof rests on says why


async def _components(places: SearchPlaces) -> list[Leftover]:
    assert places.node is not None
    return stopped_components(places.node)


def stopped_components(node: OwnMachine) -> list[Leftover]:
    """Returns the stopped components of the node. Needs no API server, which may be one of them."""

    async def resume(component: str) -> None:
        node.resume(component)

    return [
        Leftover(what=f"the node's {name} is stopped", mend=partial(resume, name))
        for name in node.stopped_components()
    ]


async def _objects(places: SearchPlaces) -> list[Leftover]:
    selector = RUN_LABEL if places.run is None else f"{RUN_LABEL}={places.run}"
    found = []
    for kind in _MADE:
        for made in await places.kube.find(kind, selector):
            name = made["metadata"]["name"]
            if made["metadata"]["labels"].get(_COMPONENT) != "run":  # the run lock goes last
                mend = partial(_delete, places.kube, kind, name)
                found.append(Leftover(what=f"{kind} {name} is there", mend=mend))
    return found


async def _zones(places: SearchPlaces) -> list[Leftover]:
    selector = RUN_LABEL if places.run is None else f"{RUN_LABEL}={places.run}"
    names = [
        zone["metadata"]["name"] for zone in await places.kube.find("DistributionZone", selector)
    ]
    return [
        Leftover(
            what=f"zone {name} is there",
            mend=partial(delete_zone, places.kube, name, within_s=ZONE_GONE_AGAIN_S),
        )
        for name in names
    ]


async def _partitions(places: SearchPlaces) -> list[Leftover]:
    assert places.lock is not None
    zones = {zone["metadata"]["name"] for zone in await places.kube.find("DistributionZone")}
    orphans = sorted(
        partition["metadata"]["name"]
        for partition in await places.kube.find("Partition")
        if partition["spec"]["zone"] in set(places.lock.zones) - zones
    )
    return [
        Leftover(
            what=f"Partition {name} is there without its zone",
            mend=_left_to_the_operator,
        )
        for name in orphans
    ]


async def _finalizers(places: SearchPlaces) -> list[Leftover]:
    return [
        Leftover(
            what=f"pod {pod['metadata']['name']} carries the finalizer {finalizer}",
            mend=partial(
                remove_finalizer, places.kube, pod=pod["metadata"]["name"], finalizer=finalizer
            ),
        )
        for pod in await places.kube.find("Pod")
        for finalizer in pod["metadata"].get("finalizers") or []
        if finalizer.startswith(FINALIZERS)
    ]


async def _processes(places: SearchPlaces) -> list[Leftover]:
    async def of_pod(pod: Json) -> list[Leftover]:
        seen = pod_view(pod)
        if places.node is not None:
            stopped = places.node.stopped_processes(seen.uid)
        else:
            stopped = await stopped_processes(places.kube, pod=seen.name, container=seen.container)
        mend = partial(continue_process, places.kube, pod=seen.name, uid=seen.uid)
        return [
            Leftover(what=f"process {pid} of pod {seen.name} is stopped", mend=mend)
            for pid in stopped
        ]

    return await _of_each_running_pod(places, of_pod)


async def _at_pods(places: SearchPlaces) -> list[Leftover]:
    shell = places.shell
    assert shell is not None

    async def of_pod(pod: Json) -> list[Leftover]:
        seen = pod_view(pod)
        carried = PodOnNode(name=seen.name, uid=seen.uid, node=str(pod["spec"].get("nodeName", "")))
        mend = partial(heal, shell, carried)
        return [Leftover(what=words, mend=mend) for words in await left_behind(shell, [carried])]

    return await _of_each_running_pod(places, of_pod)


async def _of_each_running_pod(
    places: SearchPlaces, of_pod: Callable[[Json], Awaitable[list[Leftover]]]
) -> list[Leftover]:
    # Without a view from the node, check from inside those pods that faults were applied to.
    labels = (STORE_LABELS, OPERATOR_LABELS) if places.node is None else ("",)
    pods = [pod for each in labels for pod in await places.kube.find("Pod", each)]
    running = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
    return [leftover for found in await asyncio.gather(*map(of_pod, running)) for leftover in found]


async def _scales(places: SearchPlaces) -> list[Leftover]:
    assert places.lock is not None
    found = []
    for name, replicas in places.lock.scales.items():
        try:
            there = await places.kube.get("StatefulSet", name)
        except NotFound:
            continue  # the pool is gone, and its size with it
        now, pods = there["spec"]["replicas"], (there.get("status") or {}).get("replicas", 0)
        if now != replicas or pods != replicas:
            mend = partial(set_replicas, places.kube, name=name, replicas=replicas)
            what = f"pool {name} wants {now} and has {pods} pods, and had {replicas} before"
            found.append(Leftover(what=what, mend=mend))
    return found


async def _volumes(places: SearchPlaces) -> list[Leftover]:
    """Returns the volumes of data nodes that the run added: a StatefulSet leaves them when it
    shrinks again.
    """
    assert places.lock is not None
    found = []
    for claim in await places.kube.find("PersistentVolumeClaim"):
        name = claim["metadata"]["name"]
        pool, _, ordinal = name.removeprefix("data-").rpartition("-")
        if name in places.lock.volumes or not name.startswith("data-") or not ordinal.isdigit():
            continue
        if int(ordinal) >= places.lock.scales.get(pool, int(ordinal) + 1):
            mend = partial(_delete, places.kube, "PersistentVolumeClaim", name)
            found.append(Leftover(what=f"volume {name} of an added node is there", mend=mend))
    return found


async def _delete(kube: Kube, kind: str, name: str) -> None:
    """Deletes by name: the release's account for runs may delete pods only so."""
    if kind != "Pod":
        await kube.delete_all(kind, "", name=name)
        return
    try:
        await kube.delete(kind, name, grace_s=0)
    except NotFound:
        return


async def _left_to_the_operator() -> None:
    """Looks at nothing: only the operator may delete these objects."""


LOOKS: dict[str, Look] = {
    "components of the node that are stopped": _components,
    "links, syncs, clocks and volumes of pods": _at_pods,
    "finalizers on pods": _finalizers,
    "stopped processes": _processes,
    "objects of the run": _objects,
    "zones of the run": _zones,
    "partitions of its zones": _partitions,
    "sizes of the pools": _scales,
    "volumes of added nodes": _volumes,
}
"""Looks in the order of mending: without the API server nothing else can be mended."""
