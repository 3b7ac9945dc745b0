"""Partitions of an earlier zone of the same name, which keep a zone's own from being created.

The deletion of a zone takes its Partitions with it. They stay if the zone lost its finalizer by
hand, and its Partitions their owner: `kubectl delete --cascade=orphan`. What they hold is another
zone's, by its uid, so that they are neither taken over nor deleted here.
"""

from __future__ import annotations

from collections.abc import Sequence

from zonequake_operator.resources.model import Zone, ZoneSnapshot, ZoneSpec
from zonequake_operator.resources.stored_shapes import partition_name

MAX_NAMED = 40
"""Partitions that the command names; once they are gone it names others."""


def missing_partitions(snapshot: ZoneSnapshot, spec: ZoneSpec) -> tuple[list[int], list[str]]:
    """Returns the partitions to create, and the names of the namesakes that stand in place of
    others.
    """
    create, namesakes = [], []
    for number in range(spec.partitions):
        if number in snapshot.partitions:
            continue
        name = partition_name(snapshot.zone.name, number)
        if name in snapshot.namesakes:
            namesakes.append(name)
        else:
            create.append(number)
    return create, namesakes


def advice(namesakes: Sequence[str], zone: Zone, spec: ZoneSpec) -> str:
    """Returns what is in the way, and what to do; empty if nothing is."""
    if not namesakes:
        return ""
    return (
        f"{len(namesakes)} of {spec.partitions} partitions can't be created: Partitions of an "
        "earlier zone of this name are in their place. Once nothing needs them: kubectl delete "
        f"partitions.zonequake.io --namespace {zone.namespace} {' '.join(namesakes[:MAX_NAMED])}"
    )
