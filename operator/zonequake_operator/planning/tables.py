"""Tables and their zones (document `distribution-zones`, primaryDistributionZone; design §2).

"Tables of a zone share its partition groups": keys don't say which table they belong to, so a table
holds data as soon as its zone does. Once that was seen it stays so while the zone exists, since
deleted keys leave their entries. The schema's rule refuses another zone unless the operator has
said, of the present one, that it holds no data:

    status.holdsData    true      some replica has accepted a user's command
                        false     every partition has a leader and none has; or there is no zone
                        absent    not known (yet)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zonequake_operator.groups.reports import by_group, observe
from zonequake_operator.resources.condition_types import Condition, ConditionType, Reason
from zonequake_operator.resources.model import Zone, ZoneSpec, group_name
from zonequake_protocol.admin import ReplicasReport


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """The operator's status of a table, and the zone that it is about."""

    observed_generation: int = 0
    primary_zone: str = ""
    zone_uid: str = ""
    holds_data: bool | None = None
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A Table resource."""

    name: str
    generation: int
    resource_version: str
    primary_zone: str
    status: TableStatus


def judge(table: Table, zones: Mapping[str, Zone], filled: Mapping[str, bool]) -> TableStatus:
    """Returns the table's status over `zones`, by name; `filled` is from `filled_zones`, by uid."""
    zone = zones.get(table.primary_zone)
    holds_data: bool | None
    if zone is None:
        uid, holds_data = "", False
        reason = Reason.ZONE_MISSING
        message = (
            f"There is no zone {table.primary_zone}. Create it, or set spec.primaryZone to one "
            "that exists."
        )
    else:
        uid, holds_data = zone.uid, filled.get(zone.uid)
        if table.status.zone_uid == uid and (holds_data is None or table.status.holds_data):
            holds_data = table.status.holds_data
        if zone.deleting:
            reason = Reason.ZONE_DELETED
            message = f"The zone {zone.name} is being deleted, and the table's data with it."
        else:
            reason = Reason.ZONE_FOUND
            message = f"The table lives in the partitions of the zone {zone.name}."
    ready = Condition(
        type=ConditionType.READY,
        status=reason is Reason.ZONE_FOUND,
        reason=reason,
        message=message,
    )
    return TableStatus(
        observed_generation=table.generation,
        primary_zone=table.primary_zone,
        zone_uid=uid,
        holds_data=holds_data,
        conditions=(ready,),
    )


def filled_zones(zones: Iterable[Zone], reports: Iterable[ReplicasReport]) -> dict[str, bool]:
    """Returns which zones hold data, by uid; a zone of which that isn't known is left out."""
    groups = by_group(reports)
    filled: dict[str, bool] = {}
    for zone in zones:
        if not isinstance(zone.spec, ZoneSpec):
            continue
        names = [group_name(zone.name, zone.uid, n) for n in range(zone.spec.partitions)]
        if any(r.last_user_index > 0 for name in names for r in groups.get(name, {}).values()):
            filled[zone.uid] = True
        elif all(observe(name, groups.get(name, {})).leader is not None for name in names):
            filled[zone.uid] = False
    return filled
