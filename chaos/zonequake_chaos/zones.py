"""The run's zones: their resources, and the wait until they are there."""

from __future__ import annotations

import msgspec

from zonequake_chaos.cleaning import delete_zone
from zonequake_chaos.errors import NotFound, UsageError
from zonequake_chaos.journal import DeleteZone, Journal
from zonequake_chaos.kube import Json, Kube
from zonequake_chaos.load_objects import RUN_LABEL
from zonequake_chaos.observe import Observer
from zonequake_chaos.scenario import Zone
from zonequake_chaos.state import ClusterView
from zonequake_chaos.triggers import unsettled


def zone_object(zone: Zone, run_id: str) -> Json:
    """The DistributionZone resource; fields that the scenario leaves out stay out."""
    spec = {key: value for key, value in msgspec.to_builtins(zone).items() if value is not None}
    return {
        "apiVersion": "zonequake.io/v1alpha1",
        "kind": "DistributionZone",
        "metadata": {"name": spec.pop("name"), "labels": {RUN_LABEL: run_id}},
        "spec": spec,
    }


async def create_zone(kube: Kube, journal: Journal, zone: Zone, run_id: str) -> None:
    """Creates the zone; one that an earlier run left behind goes first.

    Raises UsageError if somebody else's zone has that name.
    """
    try:
        found = await kube.get("DistributionZone", zone.name)
    except NotFound:
        pass
    else:
        if RUN_LABEL not in (found["metadata"].get("labels") or {}):
            raise UsageError(
                f"zone {zone.name} exists in {kube.namespace} and is no run's: rename the "
                "scenario's zone (--set zones.0.name=...) or delete that one"
            )
        await delete_zone(kube, zone.name)
    journal.owe(DeleteZone(zone=zone.name))
    await kube.apply(zone_object(zone, run_id))


def not_available(view: ClusterView, zones: list[Zone]) -> list[str]:
    """What is missing until every partition of the zones is served by its full stable set."""
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


async def wait_available(observer: Observer, zones: list[Zone], *, timeout_s: float) -> None:
    """Waits until the zones are served in full. Raises WaitExpired."""
    await observer.wait(
        lambda view: not not_available(view, zones),
        timeout_s=timeout_s,
        waiting_for=lambda view: "; ".join(not_available(view, zones)[:5]),
    )
