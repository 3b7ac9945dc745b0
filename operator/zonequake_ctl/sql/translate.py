"""One statement, given the resources there are: changes of resources, rows, or a refusal.

statement + World ──translate──▶ Outcome(changes, rows, notice)     or SqlError
World + changes   ──after──────▶ World       so that a batch can be planned before it is run
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from zonequake_ctl.errors import SqlError
from zonequake_ctl.sql import names, views
from zonequake_ctl.sql.properties import FIXED, ZONE_PROPERTIES
from zonequake_ctl.sql.statements import (
    AlterTable,
    AlterTablesZone,
    AlterZone,
    CreateTable,
    CreateZone,
    DescribeTable,
    DescribeTableGroup,
    DescribeZone,
    DropTable,
    DropZone,
    SelectAll,
    SqlName,
    Statement,
    TableView,
)
from zonequake_ctl.sql.views import Rows
from zonequake_operator.resources.overrides import override
from zonequake_operator.resources.stored_shapes import API_VERSION

Resource = Mapping[str, Any]

ZONE, TABLE = "DistributionZone", "Table"
_NOUNS = {ZONE: "zone", TABLE: "table"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """The namespace's zones and tables by resource name, and its LogicalTopology.

    `offline`: no cluster was asked, so that only what statements created is there.
    """

    zones: Mapping[str, Resource] = field(default_factory=dict)
    tables: Mapping[str, Resource] = field(default_factory=dict)
    topology: Resource | None = None
    offline: bool = False

    def of(self, kind: str) -> Mapping[str, Resource]:
        """All resources of a kind."""
        return self.zones if kind == ZONE else self.tables

    def after(self, changes: Sequence[ResourceChange]) -> Catalog:
        """Returns the state once the changes are carried out."""
        world = self
        for change in changes:
            found = {k: v for k, v in world.of(change.kind).items() if k != change.name}
            if not isinstance(change, Delete):
                found[change.name] = change.resource
            world = (
                replace(world, zones=found) if change.kind == ZONE else replace(world, tables=found)
            )
        return world


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Create this resource; there must be none of its name."""

    kind: str
    name: str
    resource: Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Merge `patch` into the spec of the resource that was read; `resource` is what it becomes."""

    kind: str
    name: str
    resource: Resource
    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete that very resource."""

    kind: str
    name: str
    uid: str | None


ResourceChange = Create | Update | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """The result of translating a statement. `notice` is one sentence for people."""

    changes: tuple[ResourceChange, ...] = ()
    rows: Rows | None = None
    notice: str = ""


def translate(statement: Statement, world: Catalog, text: str) -> Translation:
    """Translates `statement`, which stands in `text`, into changes of `world`.

    Raises:
        SqlError: it can't be carried out; with the place of the name or property to blame.
    """
    match statement:
        case CreateZone():
            return _create_zone(statement, world, text)
        case AlterZone():
            return _alter_zone(statement, world, text)
        case DropZone():
            return _drop_zone(statement, world, text)
        case CreateTable():
            return _create_table(statement, world, text)
        case AlterTable():
            return _alter_table(statement, world, text)
        case AlterTablesZone():
            return _refuse_zone_of_table(statement, world, text)
        case DropTable():
            return _drop_table(statement, world, text)
        case DescribeZone() | DescribeTableGroup():
            zone = _existing(ZONE, statement.name, world, text)
            tables = _tables_of(zone, world)
            if isinstance(statement, DescribeTableGroup):
                return Translation(rows=views.table_group(zone, tables))
            return Translation(rows=views.one_zone(zone, tables))
        case DescribeTable():
            table = _existing(TABLE, statement.name, world, text)
            return Translation(rows=views.one_table(table, world.zones.get(_primary_zone(table))))
        case SelectAll():
            return Translation(rows=_selected(statement.view, world))


def _selected(view: TableView, world: Catalog) -> Rows:
    if view is TableView.ZONES:
        return views.zones(list(world.zones.values()))
    if view is TableView.TABLES:
        return views.tables(list(world.tables.values()), world.zones)
    return views.data_nodes(list(world.zones.values()), world.topology)


# ------------------------------------------------------------------------------------------ zones


def _create_zone(statement: CreateZone, world: Catalog, text: str) -> Translation:
    there = _find(ZONE, statement.name, world, text)
    if there is not None:
        return _exists(ZONE, statement.name, there, text, tolerated=statement.if_not_exists)
    spec = {k: v for k, v in statement.settings.fields.items() if v is not None}
    return _created(ZONE, statement.name, spec, text)


def _alter_zone(statement: AlterZone, world: Catalog, text: str) -> Translation:
    zone = _find(ZONE, statement.name, world, text)
    if zone is None and statement.if_exists:
        return _nothing_to_do(ZONE, statement.name)
    zone = _existing(ZONE, statement.name, world, text)
    _refuse_if_going(ZONE, statement.name, zone, text)
    changes = statement.settings.fields
    for sql, fixed in FIXED.items():
        field_name = ZONE_PROPERTIES[sql].field
        present = (zone.get("spec") or {}).get(field_name, fixed.default)
        if changes.get(field_name, present) != present:
            raise SqlError(
                text,
                statement.settings.at[field_name],
                f"{sql} is {present} and can't be changed, because {fixed.because}; create another "
                "zone and move the data",
            )
    return _updated(ZONE, statement.name, zone, override(zone.get("spec") or {}, changes))


def _drop_zone(statement: DropZone, world: Catalog, text: str) -> Translation:
    zone = _find(ZONE, statement.name, world, text)
    if zone is None and statement.if_exists:
        return _nothing_to_do(ZONE, statement.name)
    zone = _existing(ZONE, statement.name, world, text)
    tables = [names.written_name(table) for table in _tables_of(zone, world)]
    if tables:
        raise SqlError(
            text,
            statement.name.at,
            f"the zone {statement.name.written} holds {len(tables)} "
            f"table{'s' if len(tables) > 1 else ''}: {', '.join(tables)}; drop "
            f"{'them' if len(tables) > 1 else 'it'} first",
        )
    return _dropped(ZONE, statement.name, zone)


# ----------------------------------------------------------------------------------------- tables


def _create_table(statement: CreateTable, world: Catalog, text: str) -> Translation:
    there = _find(TABLE, statement.name, world, text)
    if there is not None:
        return _exists(TABLE, statement.name, there, text, tolerated=statement.if_not_exists)
    zone = _existing(ZONE, statement.primary_zone, world, text)
    _refuse_if_going(ZONE, statement.primary_zone, zone, text)
    spec = {"primaryZone": zone["metadata"]["name"]}
    made = _created(TABLE, statement.name, spec, text)
    if statement.has_columns:
        return replace(made, notice=f"{made.notice}; its columns aren't kept, keys have none")
    return made


def _alter_table(statement: AlterTable, world: Catalog, text: str) -> Translation:
    table = _find(TABLE, statement.name, world, text)
    if table is None and statement.if_exists:
        return _nothing_to_do(TABLE, statement.name)
    table = _existing(TABLE, statement.name, world, text)
    zone = _existing(ZONE, statement.primary_zone, world, text)
    _refuse_if_going(ZONE, statement.primary_zone, zone, text)
    before, after = _primary_zone(table), zone["metadata"]["name"]
    if before != after:
        holds_data = views.holds_data(table)
        if holds_data is not False:
            held = "holds data" if holds_data else "may hold data (the operator hasn't said yet)"
            raise SqlError(
                text,
                statement.primary_zone.at,
                f"the table {statement.name.written} {held} in the zone {before} and can't be "
                "moved: data isn't moved between zones; create another table and copy the data",
            )
    return _updated(TABLE, statement.name, table, {"primaryZone": after})


def _refuse_zone_of_table(statement: AlterTablesZone, world: Catalog, text: str) -> Translation:
    table = _find(TABLE, statement.name, world, text)
    if table is None and statement.if_exists:
        return _nothing_to_do(TABLE, statement.name)
    table = _existing(TABLE, statement.name, world, text)
    zone = world.zones.get(_primary_zone(table))
    if zone is None:
        refusal = f"the zone {_primary_zone(table)} of the table is not there; create it first"
        raise SqlError(text, statement.at, refusal)
    others = len(_tables_of(zone, world)) - 1
    shared = f", which {others} other table{'s' * (others > 1)} share{'s' * (others == 1)}"
    raise SqlError(
        text,
        statement.at,
        f"these are properties of its zone{shared if others else ''}: write "
        f"ALTER ZONE {names.written_name(zone)} WITH {statement.settings}",
    )


def _drop_table(statement: DropTable, world: Catalog, text: str) -> Translation:
    table = _find(TABLE, statement.name, world, text)
    if table is None and statement.if_exists:
        return _nothing_to_do(TABLE, statement.name)
    return _dropped(TABLE, statement.name, _existing(TABLE, statement.name, world, text))


def _primary_zone(table: Resource) -> str:
    return str(table["spec"]["primaryZone"])


def _tables_of(zone: Resource, world: Catalog) -> list[Resource]:
    name = zone["metadata"]["name"]
    return [table for _, table in sorted(world.tables.items()) if _primary_zone(table) == name]


# ---------------------------------------------------------------------------------------- parts


def _find(kind: str, name: SqlName, world: Catalog, text: str) -> Resource | None:
    """Returns the resource that the name means, None if there is none; refuses a name that
    collides.
    """
    try:
        wanted = names.resource_name(name)
    except ValueError as error:
        raise SqlError(text, name.at, str(error)) from None
    found = world.of(kind).get(wanted)
    if found is not None and not names.means(name, found):
        raise SqlError(
            text,
            name.at,
            f"the {_NOUNS[kind]} {name.written} would be the resource {wanted}, which is the "
            f"{_NOUNS[kind]} {names.written_name(found)}; choose another name",
        )
    return found


def _existing(kind: str, name: SqlName, world: Catalog, text: str) -> Resource:
    found = _find(kind, name, world, text)
    if found is None:
        there = [names.written_name(one) for _, one in sorted(world.of(kind).items())]
        listed = f"there are {', '.join(there[:10])}" if there else "there is none yet"
        if world.offline:
            listed = "no cluster was asked, and no statement before this one creates it"
        raise SqlError(text, name.at, f"there is no {_NOUNS[kind]} {name.written}; {listed}")
    return found


def _exists(
    kind: str, name: SqlName, found: Resource, text: str, *, tolerated: bool
) -> Translation:
    _refuse_if_going(kind, name, found, text)
    if tolerated:
        return Translation(notice=f"the {_NOUNS[kind]} {name.written} exists; nothing to do")
    raise SqlError(
        text,
        name.at,
        f"the {_NOUNS[kind]} {names.written_name(found)} exists; use IF NOT EXISTS or ALTER",
    )


def _refuse_if_going(kind: str, name: SqlName, found: Resource, text: str) -> None:
    if "deletionTimestamp" in found["metadata"]:
        raise SqlError(
            text, name.at, f"the {_NOUNS[kind]} {name.written} is being dropped; wait until it has"
        )


def _nothing_to_do(kind: str, name: SqlName) -> Translation:
    return Translation(notice=f"there is no {_NOUNS[kind]} {name.written}; nothing to do")


def _created(kind: str, name: SqlName, spec: Mapping[str, Any], text: str) -> Translation:
    resource = {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {
            "name": names.resource_name(name),
            "annotations": {names.SQL_NAME: name.written},
        },
        "spec": dict(spec),
    }
    made = Create(kind=kind, name=names.resource_name(name), resource=resource)
    return Translation(changes=(made,), notice=f"the {_NOUNS[kind]} {name.written} is created")


def _updated(kind: str, name: SqlName, found: Resource, spec: Mapping[str, Any]) -> Translation:
    before = found.get("spec") or {}
    patch: dict[str, Any] = {field: None for field in before if field not in spec}
    patch |= {field: value for field, value in spec.items() if before.get(field) != value}
    if not patch:
        return Translation(notice=f"the {_NOUNS[kind]} {name.written} is so already; nothing to do")
    change = Update(
        kind=kind,
        name=found["metadata"]["name"],
        resource={**found, "spec": dict(spec)},
        patch=patch,
    )
    return Translation(changes=(change,), notice=f"the {_NOUNS[kind]} {name.written} is altered")


def _dropped(kind: str, name: SqlName, found: Resource) -> Translation:
    meta = found["metadata"]
    change = Delete(kind=kind, name=meta["name"], uid=meta.get("uid"))
    return Translation(changes=(change,), notice=f"the {_NOUNS[kind]} {name.written} is dropped")
