"""Statements over resources: what is created, altered, dropped, shown and refused."""

from __future__ import annotations

from typing import Any

import pytest

from zonequake_ctl.errors import SqlError
from zonequake_ctl.sql.names import SQL_NAME
from zonequake_ctl.sql.parser import parse
from zonequake_ctl.sql.translate import Catalog, Create, Delete, Translation, Update, translate
from zonequake_ctl.sql.views import Rows
from zonequake_ctl.sql_command import as_text


def run(text: str, world: Catalog | None = None) -> tuple[Catalog, list[Translation]]:
    world, outcomes = world or Catalog(), []
    for statement in parse(text):
        outcome = translate(statement, world, text)
        world = world.after(outcome.changes)
        outcomes.append(outcome)
    return world, outcomes


def refused(text: str, world: Catalog | None = None) -> SqlError:
    with pytest.raises(SqlError) as caught:
        run(text, world)
    return caught.value


def with_status(world: Catalog, kind: str, name: str, status: dict[str, Any]) -> Catalog:
    found = {**world.of(kind)[name], "status": status}
    zones, tables = dict(world.zones), dict(world.tables)
    (zones if kind == "DistributionZone" else tables)[name] = found
    return Catalog(zones=zones, tables=tables, topology=world.topology)


def cells(outcome: Translation) -> list[Any]:
    assert outcome.rows is not None
    return list(outcome.rows.rows)


def test_a_zone_is_created_with_what_was_said_and_no_more() -> None:
    _, (outcome,) = run("CREATE ZONE Db.Public.My_Zone WITH REPLICAS = 5")
    (change,) = outcome.changes
    assert isinstance(change, Create)
    assert change.resource == {
        "apiVersion": "zonequake.io/v1alpha1",
        "kind": "DistributionZone",
        "metadata": {
            "name": "db.public.my-zone",
            "annotations": {SQL_NAME: "Db.Public.My_Zone"},
        },
        "spec": {"replicas": 5},
    }


def test_an_alter_changes_the_fields_it_names_and_removes_those_it_overrides() -> None:
    world, _ = run("CREATE ZONE z WITH DATA_NODES_AUTO_ADJUST_SCALE_UP = 1, REPLICAS = 2")
    after, (outcome,) = run("ALTER ZONE Z SET DATA_NODES_AUTO_ADJUST = 1000", world)
    (change,) = outcome.changes
    assert isinstance(change, Update)
    assert change.patch == {"dataNodesAutoAdjustScaleUp": None, "dataNodesAutoAdjust": 1000}
    assert after.zones["z"]["spec"] == {"replicas": 2, "dataNodesAutoAdjust": 1000}


def test_altering_a_table_group_is_altering_its_zone() -> None:
    """Document `distribution-zones`, Override rules: "with alter table/tableGroup queries"."""
    text = "CREATE ZONE Accounts WITH DATA_NODES_AUTO_ADJUST_SCALE_UP = 300; "
    for settings in ("DATA_NODES_AUTO_ADJUST = 1000", "DATA_NODES_FILTER = '\"SSD\"'"):
        by_group, _ = run(f"{text} ALTER TABLE GROUP accounts WITH {settings}")
        by_zone, _ = run(f"{text} ALTER ZONE accounts WITH {settings}")
        assert by_group == by_zone
        assert by_group != run(text)[0]


def test_a_refused_table_says_who_shares_its_zone() -> None:
    text = (
        "CREATE ZONE z; CREATE TABLE a SET PRIMARY_ZONE = z; CREATE TABLE b SET PRIMARY_ZONE = z; "
    )
    assert "its zone, which 1 other table shares:" in str(
        refused(f"{text}ALTER TABLE a SET REPLICAS = 2")
    )
    text += "CREATE TABLE c SET PRIMARY_ZONE = z; "
    assert "its zone, which 2 other tables share:" in str(
        refused(f"{text}ALTER TABLE a SET REPLICAS = 2")
    )


def test_what_is_so_already_writes_nothing() -> None:
    world, _ = run("CREATE ZONE z WITH REPLICAS = 2; CREATE TABLE t WITH PRIMARY_ZONE = z")
    for text in (
        "ALTER ZONE z SET REPLICAS = 2",
        "ALTER ZONE z SET PARTITIONS = 25, CONSISTENCY_MODE = STRONG_CONSISTENCY, REPLICAS = 2",
        "CREATE ZONE IF NOT EXISTS Z WITH REPLICAS = 9",
        "ALTER ZONE IF EXISTS y SET REPLICAS = 2",
        "DROP ZONE IF EXISTS y",
        "CREATE TABLE IF NOT EXISTS T WITH PRIMARY_ZONE = z",
        "ALTER TABLE t SET PRIMARY_ZONE = Z",
        "ALTER TABLE IF EXISTS u SET PRIMARY_ZONE = z",
        "ALTER TABLE IF EXISTS u SET REPLICAS = 3",
        "ALTER TABLE GROUP IF EXISTS y SET REPLICAS = 3",
        "DROP TABLE IF EXISTS u",
    ):
        after, (outcome,) = run(text, world)
        if "PARTITIONS" not in text:
            assert outcome.changes == (), text
            assert outcome.notice.endswith("nothing to do"), text
            assert after == world, text


@pytest.mark.parametrize(
    ("text", "column", "sentence"),
    [
        ("CREATE ZONE Z", 13, "the zone z exists; use IF NOT EXISTS or ALTER"),
        ("ALTER ZONE y SET REPLICAS = 2", 12, "there is no zone y; there are my_zone, z"),
        ("DROP ZONE y", 11, "there is no zone y"),
        ("DESCRIBE ZONE y", 15, "there is no zone y"),
        ("DESCRIBE TABLE y", 16, "there is no table y; there are t"),
        ("DESCRIBE TABLE GROUP t", 22, "there is no zone t"),
        (
            "ALTER ZONE z SET REPLICAS = 4, PARTITIONS = 24",
            32,
            "PARTITIONS is 25 and can't be changed",
        ),
        ("ALTER ZONE z SET CONSISTENCY_MODE = 'HIGH_AVAILABILITY'", 18, "and can't be changed"),
        ("DROP ZONE z", 11, "the zone z holds 1 table: t; drop it first"),
        ("CREATE TABLE u WITH PRIMARY_ZONE = y", 36, "there is no zone y"),
        ("CREATE TABLE t WITH PRIMARY_ZONE = z", 14, "the table t exists"),
        ('CREATE ZONE "my-zone"', 13, "would be the resource my-zone, which is the zone my_zone"),
        ('CREATE ZONE IF NOT EXISTS "Z"', 27, "would be the resource z, which is the zone z"),
        ('DROP ZONE "my-zone"', 11, "which is the zone my_zone; choose another name"),
        ("CREATE ZONE _z", 13, "'_z' can't be a resource's name, expected letters a to z"),
        ("CREATE ZONE a.b.c.d", 13, "the name has 4 parts, expected at most database.schema.name"),
        ("CREATE ZONE größe", 13, "'größe' can't be a resource's name"),
        (f"CREATE ZONE {'z' * 51}", 13, "the name has 51 characters, expected at most 50"),
        (
            "ALTER TABLE t SET PRIMARY_ZONE = my_zone",
            34,
            "may hold data (the operator hasn't said yet)",
        ),
        (
            "ALTER TABLE t WITH data_nodes_filter = '\"it''s\"', DATA_NODES_AUTO_ADJUST = INFINITE",
            20,
            "these are properties of its zone: write ALTER ZONE z WITH DATA_NODES_FILTER = "
            "'\"it''s\"', DATA_NODES_AUTO_ADJUST = INFINITE",
        ),
        ("ALTER TABLE u WITH REPLICAS = 3", 13, "there is no table u"),
        ("ALTER TABLE GROUP t WITH REPLICAS = 3", 19, "there is no zone t"),
    ],
)
def test_a_refusal_says_where_and_why(text: str, column: int, sentence: str) -> None:
    world, _ = run(
        "CREATE ZONE z; CREATE ZONE my_zone; CREATE TABLE t WITH PRIMARY_ZONE = z",
    )
    error = refused(text, world)
    assert sentence in str(error)
    assert error.column == column


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ({"primaryZone": "a", "holdsData": True}, "the table t holds data in the zone a"),
        ({"primaryZone": "b", "holdsData": False}, "may hold data"),
        ({"primaryZone": "a"}, "may hold data"),
        ({"primaryZone": "a", "holdsData": False}, None),
    ],
)
def test_a_table_moves_only_if_the_operator_says_that_it_holds_nothing(
    status: dict[str, Any], sentence: str | None
) -> None:
    world, _ = run("CREATE ZONE a; CREATE ZONE b; CREATE TABLE t WITH PRIMARY_ZONE = a")
    world = with_status(world, "Table", "t", status)
    if sentence is None:
        after, _ = run("ALTER TABLE t SET PRIMARY_ZONE = b", world)
        assert after.tables["t"]["spec"] == {"primaryZone": "b"}
    else:
        assert sentence in str(refused("ALTER TABLE t SET PRIMARY_ZONE = b", world))


def test_a_zone_that_is_being_dropped_takes_nothing_any_more() -> None:
    world, _ = run("CREATE ZONE z")
    going = {**world.zones["z"], "metadata": {"name": "z", "uid": "u", "deletionTimestamp": "now"}}
    world = Catalog(zones={"z": going})
    for text in (
        "CREATE ZONE z",
        "CREATE ZONE IF NOT EXISTS z",
        "ALTER ZONE z SET REPLICAS = 2",
        "CREATE TABLE t WITH PRIMARY_ZONE = z",
    ):
        assert "the zone z is being dropped" in str(refused(text, world))
    _, (outcome,) = run("DROP ZONE z", world)
    assert outcome.changes == (Delete(kind="DistributionZone", name="z", uid="u"),)


def test_a_zone_made_by_other_means_is_meant_by_every_name_that_leads_to_it() -> None:
    made = {"metadata": {"name": "my-zone", "uid": "u"}, "spec": {}}
    for name in ("my_zone", "MY_ZONE", '"my-zone"', "my-zone"):
        _, (outcome,) = run(f"DROP ZONE {name}", Catalog(zones={"my-zone": made}))
        assert outcome.changes


def test_the_views_show_what_holds_with_defaults_and_timers() -> None:
    world, _ = run(
        "CREATE ZONE Accounts WITH DATA_NODES_AUTO_ADJUST_SCALE_UP = 300; CREATE ZONE b WITH "
        "DATA_NODES_AUTO_ADJUST = 7, CONSISTENCY_MODE = HIGH_AVAILABILITY; "
        "CREATE TABLE T WITH PRIMARY_ZONE = accounts"
    )
    status = {
        "revision": 4,
        "dataNodes": ["n1", "n2"],
        "scaleUp": {"nodes": ["n3"], "armedAt": "x", "deadline": "2026-01-01T00:05:00.000Z"},
        "scaleDown": {"nodes": ["n2"], "armedAt": "x"},
        "reset": {
            "nodes": ["n2"],
            "armedAt": "x",
            "deadline": "2026-01-01T00:00:05.000Z",
            "revision": 4,
            "topologyVersion": 3,
        },
    }
    world = with_status(world, "DistributionZone", "accounts", status)
    topology = {
        "status": {
            "version": 3,
            "nodes": [
                {
                    "name": "n1",
                    "processIncarnation": "p",
                    "storageIncarnation": "s",
                    "podUid": "u",
                    "attributes": {"region": "EU", "SSD": ""},
                },
            ],
        }
    }
    world = Catalog(zones=world.zones, tables=world.tables, topology=topology)
    _, (zones, nodes, tables, zone, table, group) = run(
        "SELECT * FROM ZONES; SELECT * FROM DATA_NODES; SELECT * FROM TABLES; "
        "DESCRIBE ZONE accounts; DESCRIBE TABLE t; DESCRIBE TABLE GROUP Accounts",
        world,
    )
    assert cells(zones) == [
        (
            "Accounts",
            "",
            "300",
            "INFINITE",
            "",
            "25",
            "3",
            "rendezvous",
            "STRONG_CONSISTENCY",
            "5",
            "accounts",
        ),
        ("b", "7", "", "", "", "25", "3", "rendezvous", "HIGH_AVAILABILITY", "5", "b"),
    ]
    assert cells(nodes) == [
        ("Accounts", "n1", "data node", "SSD, region=EU"),
        ("Accounts", "n2", "left, is never removed", ""),
        ("Accounts", "n3", "joined, is added at 2026-01-01T00:05:00.000Z", ""),
    ]
    assert cells(tables) == [("T", "Accounts", "not known", "t")]
    assert cells(group) == [*cells(zone), ("HOLDS_DATA", "T: not known")]
    shown = dict(cells(zone))
    assert shown["RESET_TIMER"] == "n2: at 2026-01-01T00:00:05.000Z"
    assert shown["DATA_NODES_AUTO_ADJUST_SCALE_UP"] == "300"
    assert (shown["DATA_NODES"], shown["TABLES"], shown["REVISION"]) == ("n1, n2", "T", "4")
    assert shown["SCALE_UP_TIMER"] == "n3: at 2026-01-01T00:05:00.000Z"
    shown = dict(cells(table))
    assert (shown["PRIMARY_ZONE"], shown["REPLICAS"]) == ("Accounts", "3")
    assert shown["DATA_NODES"] == "n1, n2"
    assert shown["RESET_TIMER"] == "n2: at 2026-01-01T00:00:05.000Z"

    due = {"resetDue": {"revision": 4, "topologyVersion": 3}}
    _, (zone, other) = run(
        "DESCRIBE ZONE accounts; DESCRIBE ZONE b",
        with_status(world, "DistributionZone", "accounts", due),
    )
    assert dict(cells(zone))["RESET_TIMER"].startswith("is due:")
    assert dict(cells(other))["RESET_TIMER"] == ""


def test_rows_that_are_wider_than_the_terminal_become_blocks() -> None:
    found = Rows(columns=("NAME", "FILTER", "X"), rows=(("a", "long" * 9, "1"), ("bb", "", "2")))
    assert as_text(found).splitlines()[2].split() == ["bb", "2"]
    assert as_text(found, width=80) == as_text(found)
    assert as_text(found, width=40).splitlines() == [
        "NAME    a",
        "FILTER  " + "long" * 9,
        "X       1",
        "",
        "NAME    bb",
        "FILTER",
        "X       2",
    ]
    assert as_text(Rows(columns=("NAME",), rows=()), width=2) == "NAME\n"
