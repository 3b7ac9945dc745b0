"""Tables from the API server and their status to it; the shape mirrors the schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from .errors import ResourceError
from .model import Condition, ConditionType, Reason
from .tables import Table, TableStatus
from .wire import Object, Wire, WireCondition, to_rfc3339


class WireTableStatus(Wire, frozen=True):
    observed_generation: int = 0
    primary_zone: str = ""
    zone_uid: str = ""
    holds_data: bool | None = None
    conditions: list[WireCondition] = msgspec.field(default_factory=list)


def parse_table(obj: Mapping[str, Any]) -> Table:
    """A Table as listed.

    Raises:
        ResourceError: its status isn't of the shape that this operator writes.
    """
    meta = obj["metadata"]
    try:
        wire = msgspec.convert(obj.get("status") or {}, WireTableStatus)
        conditions = tuple(
            Condition(
                type=ConditionType(c.type),
                status=c.status == "True",
                reason=Reason(c.reason),
                message=c.message,
            )
            for c in wire.conditions
        )
    except ValueError as error:
        raise ResourceError(
            f"status of table {meta['name']}: {error}; was it written by hand or by another "
            "version?"
        ) from None
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
            conditions=conditions,
        ),
    )


def render_table_status(status: TableStatus, previous: Mapping[str, Any], now_ms: int) -> Object:
    """A table's whole status. `previous` is the one it replaces, for the transition times."""
    before = {c["type"]: c for c in previous.get("conditions", [])}
    conditions = []
    for condition in status.conditions:
        value = "True" if condition.status else "False"
        old = before.get(condition.type, {})
        since = old.get("lastTransitionTime") if old.get("status") == value else None
        conditions.append(
            WireCondition(
                type=condition.type,
                status=value,
                reason=condition.reason,
                message=condition.message,
                observed_generation=status.observed_generation,
                last_transition_time=since or to_rfc3339(now_ms),
            )
        )
    built: Object = msgspec.to_builtins(
        WireTableStatus(
            observed_generation=status.observed_generation,
            primary_zone=status.primary_zone,
            zone_uid=status.zone_uid,
            holds_data=status.holds_data,
            conditions=conditions,
        )
    )
    return built
