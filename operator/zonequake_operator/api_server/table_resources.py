"""Tables from the API server and their status to it; the shape mirrors the schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zonequake_operator.api_server.rendering import as_json, render_conditions
from zonequake_operator.planning.tables import Table, TableStatus
from zonequake_operator.resources.model import ResourceStruct
from zonequake_operator.resources.parsing import convert, parse_conditions
from zonequake_operator.resources.stored_shapes import Object, WireCondition


class WireTableStatus(ResourceStruct, frozen=True):
    observed_generation: int = 0
    primary_zone: str = ""
    zone_uid: str = ""
    holds_data: bool | None = None
    conditions: tuple[WireCondition, ...] = ()


def parse_table(obj: Mapping[str, Any]) -> Table:
    """Parses a Table as listed.

    Raises:
        ResourceError: its status isn't of the shape that this operator writes.
    """
    meta = obj["metadata"]
    wire = convert(obj.get("status") or {}, WireTableStatus, f"status of table {meta['name']}")
    return Table(
        name=meta["name"],
        generation=meta["generation"],
        resource_version=meta["resourceVersion"],
        primary_zone=obj["spec"]["primaryZone"],
        status=TableStatus(
            observed_generation=wire.observed_generation,
            primary_zone=wire.primary_zone,
            zone_uid=wire.zone_uid,
            holds_data=wire.holds_data,
            conditions=parse_conditions(wire.conditions),
        ),
    )


def render_table_status(status: TableStatus, previous: Mapping[str, Any], now_ms: int) -> Object:
    """Renders a table's whole status. `previous`: the one it replaces, for the transition times."""
    generation = status.observed_generation
    return as_json(
        WireTableStatus(
            observed_generation=generation,
            primary_zone=status.primary_zone,
            zone_uid=status.zone_uid,
            holds_data=status.holds_data,
            conditions=render_conditions(status.conditions, generation, previous, now_ms),
        )
    )
