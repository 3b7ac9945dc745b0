"""The rows of DESCRIBE and SELECT, with defaults filled in (`distribution-zones`, Retrieve
distribution zones configuration: "both through table views and through a new sql command")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from zonequake_ctl.sql.names import written_name
from zonequake_ctl.sql.properties import INFINITE, ZONE_PROPERTIES
from zonequake_operator.resources.overrides import AUTO_ADJUST, SCALE_DOWN, SCALE_UP
from zonequake_operator.resources.parsing import parse_zone_spec
from zonequake_operator.resources.stored_shapes import (
    WireResetTimer,
    WireTimer,
    WireTopologyStatus,
    WireZoneStatus,
)

Resource = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A small table of texts."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def _present(zone: Resource, field: str) -> str:
    """One field of a zone's spec as SQL has it, with its default; the empty text for none."""
    spec = zone.get("spec") or {}
    parsed = parse_zone_spec(spec)
    if isinstance(parsed, str):  # written in spite of the schema
        return str(spec.get(field, ""))
    joint, timers = parsed.timers.joint, parsed.timers
    shown: dict[str, object] = {
        AUTO_ADJUST: _seconds(timers.scale_up_s) if joint else "",
        SCALE_UP: "" if joint else _seconds(timers.scale_up_s),
        SCALE_DOWN: "" if joint else _seconds(timers.scale_down_s),
        "dataNodesFilter": parsed.filter or "",
        "partitions": parsed.partitions,
        "replicas": parsed.replicas,
        "affinityFunction": spec.get("affinityFunction", "rendezvous"),
        "consistencyMode": parsed.consistency_mode.name,
        "partitionDistributionResetTimeout": parsed.reset_timeout_s,
    }
    return str(shown[field])


def holds_data(table: Resource) -> bool | None:
    """Returns the operator's answer; None if it has not looked at the table in its present zone
    yet.
    """
    status = table.get("status") or {}
    if status.get("primaryZone") != table["spec"]["primaryZone"]:
        return None
    found = status.get("holdsData")
    return None if found is None else bool(found)


def zones(found: Sequence[Resource]) -> Rows:
    """SELECT * FROM ZONES."""
    return Rows(
        columns=("NAME", *ZONE_PROPERTIES, "RESOURCE"),
        rows=tuple(
            (
                written_name(zone),
                *(_present(zone, known.field) for known in ZONE_PROPERTIES.values()),
                zone["metadata"]["name"],
            )
            for zone in _sorted(found)
        ),
    )


def tables(found: Sequence[Resource], known_zones: Mapping[str, Resource]) -> Rows:
    """SELECT * FROM TABLES."""
    return Rows(
        columns=("NAME", "PRIMARY_ZONE", "HOLDS_DATA", "RESOURCE"),
        rows=tuple(
            (
                written_name(table),
                _zone_of(table, known_zones),
                _yes_or_no(holds_data(table)),
                table["metadata"]["name"],
            )
            for table in _sorted(found)
        ),
    )


def data_nodes(found: Sequence[Resource], topology: Resource | None) -> Rows:
    """SELECT * FROM DATA_NODES: each node that is a data node of a zone or waits to become one."""
    joined = _nodes(topology)
    rows: list[tuple[str, ...]] = []
    for zone in _sorted(found):
        status = _status(zone)
        down, up = status.scale_down, status.scale_up
        leaving = set(down.nodes) if down else set()
        nodes = set(status.data_nodes or [])
        joining = set(up.nodes) - nodes if up else set()
        for node in sorted(nodes | joining):
            if node in joining:
                state = f"joined, is {_when_done('added', up)}"
            elif node in leaving:
                state = f"left, is {_when_done('removed', down)}"
            else:
                state = "data node"
            rows.append((written_name(zone), node, state, joined.get(node, "")))
    return Rows(columns=("ZONE", "NODE", "STATE", "ATTRIBUTES"), rows=tuple(rows))


def one_zone(zone: Resource, bound: Sequence[Resource]) -> Rows:
    """DESCRIBE ZONE."""
    status = _status(zone)
    ready = next((c for c in status.conditions if c.type == "Ready"), None)
    rows = [
        ("NAME", written_name(zone)),
        *((sql, _present(zone, known.field)) for sql, known in ZONE_PROPERTIES.items()),
        ("DATA_NODES", ", ".join(status.data_nodes or [])),
        *_timers(status),
        ("TABLES", ", ".join(written_name(table) for table in bound)),
        ("REVISION", str(status.revision)),
        ("READY", "" if ready is None else f"{ready.status}: {ready.message}"),
        ("RESOURCE", zone["metadata"]["name"]),
    ]
    return Rows(columns=("PROPERTY", "VALUE"), rows=tuple(rows))


def table_group(zone: Resource, bound: Sequence[Resource]) -> Rows:
    """DESCRIBE TABLE GROUP: the zone that the group is, and what is known of each of its tables."""
    held = [("HOLDS_DATA", f"{written_name(t)}: {_yes_or_no(holds_data(t))}") for t in bound]
    described = one_zone(zone, bound)
    return Rows(columns=described.columns, rows=(*described.rows, *held))


def one_table(table: Resource, zone: Resource | None) -> Rows:
    """DESCRIBE TABLE: the table, and what its zone lays down."""
    known = {} if zone is None else {zone["metadata"]["name"]: zone}
    rows = [
        ("NAME", written_name(table)),
        ("PRIMARY_ZONE", _zone_of(table, known)),
        ("HOLDS_DATA", _yes_or_no(holds_data(table))),
        ("RESOURCE", table["metadata"]["name"]),
    ]
    if zone is not None:
        rows += [(sql, _present(zone, of.field)) for sql, of in ZONE_PROPERTIES.items()]
        rows.append(("DATA_NODES", ", ".join(_status(zone).data_nodes or [])))
        rows += _timers(_status(zone))
    return Rows(columns=("PROPERTY", "VALUE"), rows=tuple(rows))


def _sorted(found: Sequence[Resource]) -> list[Resource]:
    return sorted(found, key=lambda resource: str(resource["metadata"]["name"]))


def _status(zone: Resource) -> WireZoneStatus:
    return msgspec.convert(zone.get("status") or {}, WireZoneStatus)


def _nodes(topology: Resource | None) -> dict[str, str]:
    """Attributes of the nodes of the logical topology, by name."""
    status = msgspec.convert((topology or {}).get("status") or {}, WireTopologyStatus)
    return {
        node.name: ", ".join(
            f"{key}={value}" if value else key for key, value in sorted(node.attributes.items())
        )
        for node in status.nodes
    }


def _zone_of(table: Resource, known: Mapping[str, Resource]) -> str:
    name = str(table["spec"]["primaryZone"])
    return written_name(known[name]) if name in known else f"{name} (there is no such zone)"


def _yes_or_no(value: bool | None) -> str:
    return {True: "yes", False: "no", None: "not known"}[value]


def _timers(status: WireZoneStatus) -> list[tuple[str, str]]:
    reset = _timer(status.reset)
    if status.reset is None and status.reset_due is not None:
        reset = "is due: partitions without their majority are reset as soon as they can be"
    return [
        ("SCALE_UP_TIMER", _timer(status.scale_up)),
        ("SCALE_DOWN_TIMER", _timer(status.scale_down)),
        ("RESET_TIMER", reset),
    ]


def _timer(timer: WireTimer | WireResetTimer | None) -> str:
    return "" if timer is None else f"{', '.join(timer.nodes)}: {_when(timer)}"


def _when_done(done: str, timer: WireTimer | None) -> str:
    when = _when(timer)
    return f"never {done}" if when == "never" else f"{done} {when}"


def _when(timer: WireTimer | WireResetTimer | None) -> str:
    return f"at {timer.deadline}" if timer is not None and timer.deadline else "never"


def _seconds(value: int | None) -> str:
    return INFINITE.upper() if value is None else str(value)
