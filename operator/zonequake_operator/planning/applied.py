"""Applies a plan's writes to its snapshot, for planning without an API server. Pure."""

from __future__ import annotations

from dataclasses import replace

from zonequake_operator.planning.plan import CreatePartition, WriteZone, ZonePlan
from zonequake_operator.resources.model import Partition, ZoneSnapshot


def stored(snapshot: ZoneSnapshot, decided: ZonePlan) -> ZoneSnapshot:
    """Returns the snapshot once all of the plan's writes are stored; equal if there are none."""
    zone, partitions = snapshot.zone, dict(snapshot.partitions)
    for write in decided.writes:
        if isinstance(write, WriteZone):
            zone = replace(
                zone, status=write.status, conditions=write.conditions, summary=write.summary
            )
        elif isinstance(write, CreatePartition):
            partitions[write.number] = Partition(number=write.number, resource_version="1")
        else:
            partitions[write.number] = replace(
                partitions[write.number], keys=write.keys, view=write.view
            )
    return replace(snapshot, zone=zone, partitions=partitions)
