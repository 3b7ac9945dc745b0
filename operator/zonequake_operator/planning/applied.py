"""What a plan's writes make of the snapshot that it was made of, for those that plan without an API
server. Pure."""

from __future__ import annotations

from dataclasses import replace

from zonequake_operator.planning.plan import CreatePartition, Plan, WritePartition, WriteZone
from zonequake_operator.resources.model import Partition, Snapshot


def stored(snapshot: Snapshot, decided: Plan) -> Snapshot:
    """The snapshot once all of the plan's writes have been stored; equal if there are none."""
    zone, partitions = snapshot.zone, dict(snapshot.partitions)
    for action in decided.actions:
        if isinstance(action, WriteZone):
            zone = replace(
                zone,
                status=action.status,
                conditions=action.conditions,
                summary=action.summary,
            )
        elif isinstance(action, CreatePartition):
            partitions[action.number] = Partition(number=action.number, resource_version="1")
        elif isinstance(action, WritePartition):
            partitions[action.number] = replace(
                partitions[action.number], keys=action.keys, view=action.view
            )
    return replace(snapshot, zone=zone, partitions=partitions)
