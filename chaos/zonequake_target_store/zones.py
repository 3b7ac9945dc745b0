"""The run's zones: their resources, and the wait until they are available."""

from __future__ import annotations

import asyncio
import json

import msgspec

from zonequake_chaos.cleanup.undo import delete_zone
from zonequake_chaos.load.objects import RUN_LABEL
from zonequake_chaos.observe.observer import Observer
from zonequake_chaos.observe.view import ClusterView
from zonequake_chaos.record.cleanup_journal import CleanupJournal, DeleteZone
from zonequake_chaos.scenario.run import RunZone
from zonequake_chaos.targeting.triggers import unsettled
from zonequake_kube.client import Kube
from zonequake_kube.diagnosis import look_at_operator
from zonequake_kube.errors import ClusterError, HarnessError, NotFound, UsageError, WaitExpired
from zonequake_kube.objects import Json

TOPOLOGY = "topology"
"""The name of a namespace's only LogicalTopology."""

LOOK_S = 0.5
"""Time between two looks at the zones' conditions."""

SURE = 3
"""Looks in a row that must agree: a condition may be a moment older than its reasons."""

_HOPELESS = ("InvalidFilter", "InvalidSpec")
_MOST_NAMED = 5


class ZoneRefused(HarnessError):
    """The operator says of a zone of the run what no waiting will change."""


def zone_object(zone: RunZone, run_id: str) -> Json:
    """Returns the DistributionZone resource, without the fields that the scenario leaves out."""
    spec = {key: value for key, value in msgspec.to_builtins(zone).items() if value is not None}
    return {
        "apiVersion": "zonequake.io/v1alpha1",
        "kind": "DistributionZone",
        "metadata": {"name": spec.pop("name"), "labels": {RUN_LABEL: run_id}},
        "spec": spec,
    }


async def wait_departed(kube: Kube, observer: Observer, *, timeout_s: float) -> None:
    """Waits until the operator counts no node whose pod is gone. Raises WaitExpired.

    A zone that is created earlier counts that node as a member, and waits for it.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    while True:
        ghosts = await _ghosts(kube, observer)
        if not ghosts:
            return
        if loop.time() >= deadline_s:
            raise WaitExpired(
                f"not within {timeout_s:g} s: the operator still counts "
                f"{', '.join(sorted(ghosts))}, whose pods are gone: {await look_at_operator(kube)}"
            )
        await asyncio.sleep(LOOK_S)


async def _ghosts(kube: Kube, observer: Observer) -> set[str]:
    """Returns the nodes of the topology that have no pod."""
    try:
        topology = await kube.get("LogicalTopology", TOPOLOGY)
    except NotFound:
        return set()
    known = {str(node["name"]) for node in (topology.get("status") or {}).get("nodes") or []}
    return known - set(observer.view().nodes)


async def create_zone(kube: Kube, journal: CleanupJournal, zone: RunZone, run_id: str) -> None:
    """Creates the zone, after deleting one of the same name that an earlier run left.

    Raises UsageError if a zone of that name belongs to no run.
    """
    try:
        found = await kube.get("DistributionZone", zone.name)
    except NotFound:
        pass
    else:
        if RUN_LABEL not in (found["metadata"].get("labels") or {}):
            raise UsageError(
                f"zone {zone.name} exists in {kube.namespace} and belongs to no run: rename the "
                "scenario's zone (--set zones.0.name=...) or delete that one"
            )
        await delete_zone(kube, zone.name)
    journal.owe(DeleteZone(zone=zone.name))
    await kube.apply(zone_object(zone, run_id))


def not_available(view: ClusterView, zones: list[RunZone]) -> list[str]:
    """Returns what is missing until every partition of the zones is served by its full stable
    set.
    """
    missing = unsettled(view)
    for zone in zones:
        partitions = view.of_zone(zone.name)
        if len(partitions) != zone.partitions:
            missing.append(f"{zone.name} has {len(partitions)} of {zone.partitions} partitions")
        missing += [
            f"{zone.name}/{p.partition}: {len(p.members)} of {zone.replicas} members"
            for p in partitions
            if len(p.members) < min(zone.replicas, len(view.nodes))
        ]
    return missing


async def wait_available(
    kube: Kube, observer: Observer, zones: list[RunZone], *, timeout_s: float
) -> None:
    """Waits until the zones are served in full. Raises WaitExpired, ZoneRefused (in a group)."""
    async with asyncio.TaskGroup() as group:
        refusals = group.create_task(_watch_refusals(kube, observer, zones))
        await observer.wait(
            lambda view: not not_available(view, zones),
            timeout_s=timeout_s,
            waiting_for=lambda view: "; ".join(not_available(view, zones)[:5]),
        )
        refusals.cancel()


async def _watch_refusals(kube: Kube, observer: Observer, zones: list[RunZone]) -> None:
    """Raises ZoneRefused once the operator has reported several times why a zone can't be
    served."""
    said: dict[str, list[str]] = {zone.name: [] for zone in zones}
    while True:
        for zone in zones:
            try:
                found = await kube.get("DistributionZone", zone.name)
                topology = await kube.get("LogicalTopology", TOPOLOGY)
            except ClusterError:  # it doesn't exist yet, or can't be read now: keep waiting
                continue
            why = refusal(found, topology, observer.view())
            said[zone.name] = [*said[zone.name], why][-SURE:]
            if why and said[zone.name] == [why] * SURE:
                raise ZoneRefused(f"zone {zone.name} can't be served: {why}")
        await asyncio.sleep(LOOK_S)


def refusal(zone: Json, topology: Json, view: ClusterView) -> str:
    """Returns the zone's own condition, with the nodes that it names, if waiting can't help.

    Empty while waiting may help: a filter that matches no node may later match one that the
    operator has not yet taken into its topology, or that waits for its timer.
    """
    status = zone.get("status") or {}
    ready = next((c for c in status.get("conditions") or [] if c["type"] == "Ready"), None)
    if ready is None or ready["status"] == "True":
        return ""
    if ready["reason"] in _HOPELESS:
        return str(ready["message"])
    if ready["reason"] != "NoDataNodes" or not zone["spec"].get("dataNodesFilter"):
        return ""
    known = (topology.get("status") or {}).get("nodes") or []
    answering = {name for name, node in view.nodes.items() if node.answers}
    if not answering <= {node["name"] for node in known} or (status.get("scaleUp") or {}).get(
        "nodes"
    ):
        return ""
    nodes = ", ".join(
        f"{node['name']} {json.dumps(node.get('attributes') or {}, sort_keys=True)}"
        for node in known[:_MOST_NAMED]
    )
    return f"{ready['message']} The nodes and their attributes are: {nodes or 'none'}"
