"""Parsed SQL statements, checked as far as possible without looking at a cluster.

Source: document `distribution-zones`, "Distribution zones configuration syntax", "Override rules"
and "Retrieve distribution zones configuration"; `high-availability`, SQL syntax.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from zonequake_ctl.sql.properties import SqlValue, ValueForm


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlName:
    """A name, perhaps with its database and schema in front.

    `parts` are what it is compared by: without quotes in lower case, with quotes as written.
    `written` is the name as the user wrote it, without spaces; `at` its offset in the text.
    """

    parts: tuple[str, ...]
    written: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneSettings:
    """Fields of a zone's spec as resources hold them, and where in the text each was set."""

    fields: Mapping[str, int | str | None]
    at: Mapping[str, int]


class TableView(StrEnum):
    """A view that SELECT can read."""

    ZONES = "ZONES"
    TABLES = "TABLES"
    DATA_NODES = "DATA_NODES"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateZone:
    """CREATE ZONE."""

    name: SqlName
    settings: ZoneSettings
    if_not_exists: bool
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterZone:
    """ALTER ZONE, or ALTER TABLE GROUP, which means the zone; a None field gets its default."""

    name: SqlName
    settings: ZoneSettings
    if_exists: bool
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DropZone:
    """DROP ZONE."""

    name: SqlName
    if_exists: bool
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """CREATE TABLE. `has_columns`: columns were given, which nothing here keeps."""

    name: SqlName
    primary_zone: SqlName
    if_not_exists: bool
    has_columns: bool
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTable:
    """ALTER TABLE … PRIMARY_ZONE."""

    name: SqlName
    primary_zone: SqlName
    if_exists: bool
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTablesZone:
    """ALTER TABLE … with properties that its zone has; `settings` as they may be written again.

    It is refused: other tables of the zone would follow without being named.
    """

    name: SqlName
    settings: str
    if_exists: bool
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTable:
    """DROP TABLE."""

    name: SqlName
    if_exists: bool
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeZone:
    """DESCRIBE ZONE."""

    name: SqlName
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTable:
    """DESCRIBE TABLE."""

    name: SqlName
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTableGroup:
    """DESCRIBE TABLE GROUP: one zone, which the name names, and its tables."""

    name: SqlName
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectAll:
    """SELECT * FROM a view."""

    view: TableView
    at: int


Statement = (
    CreateZone
    | AlterZone
    | DropZone
    | CreateTable
    | AlterTable
    | AlterTablesZone
    | DropTable
    | DescribeZone
    | DescribeTable
    | DescribeTableGroup
    | SelectAll
)


def as_value(written: SqlValue | SqlName) -> SqlValue:
    """Returns a name as a value, too: properties take some without quotes."""
    if isinstance(written, SqlValue):
        return written
    return SqlValue(form=ValueForm.NAME, text=".".join(written.parts), at=written.at)


def as_written(written: SqlValue | SqlName) -> str:
    """Returns a value as it may be written again."""
    if isinstance(written, SqlName):
        return written.written
    if written.form is ValueForm.STRING:
        return "'" + written.text.replace("'", "''") + "'"
    return written.text
