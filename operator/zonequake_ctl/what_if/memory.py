"""An operator that starts again: what it knows is what the resources hold."""

from __future__ import annotations

from collections.abc import Mapping

from zonequake_operator.api_server.rendering import (
    render_partition,
    render_partition_status,
    render_zone_status,
)
from zonequake_operator.resources.model import Partition, Zone, ZoneSpec
from zonequake_operator.resources.parsing import parse_partition, parse_zone


def zone_as_stored(zone: Zone, raw_spec: Mapping[str, object], now_ms: int) -> Zone:
    """Passes the zone through its resource and back."""
    assert isinstance(zone.spec, ZoneSpec)
    return parse_zone(
        {
            "metadata": {
                "name": zone.name,
                "namespace": zone.namespace,
                "uid": zone.uid,
                "generation": zone.generation,
                "resourceVersion": zone.resource_version,
            },
            "spec": raw_spec,
            "status": render_zone_status(
                zone.status,
                spec=zone.spec,
                conditions=zone.conditions,
                summary=zone.summary,
                previous={},
                now_ms=now_ms,
            ),
        }
    )


def partition_as_stored(zone: Zone, partition: Partition) -> Partition:
    """Passes a partition through its resource and back."""
    resource = render_partition(zone, partition.number)
    resource["metadata"]["resourceVersion"] = partition.resource_version
    resource["status"] = render_partition_status(partition.keys, partition.view)
    return parse_partition(resource)
