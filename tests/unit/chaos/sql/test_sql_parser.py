"""The documents' SQL: every form that they show, and errors that say where and what else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonequake_ctl.errors import SqlError
from zonequake_ctl.sql.parser import parse, parse_name
from zonequake_ctl.sql.statements import (
    AlterTable,
    AlterZone,
    CreateTable,
    CreateZone,
    DescribeTable,
    DescribeTableGroup,
    DescribeZone,
    DropTable,
    DropZone,
    SelectAll,
    TableView,
)

UP, DOWN, BOTH = (
    "dataNodesAutoAdjustScaleUp",
    "dataNodesAutoAdjustScaleDown",
    "dataNodesAutoAdjust",
)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (
            "CREATE ZONE zone1 WITH DATA_NODES_AUTO_ADJUST_SCALE_UP = 300, PARTITIONS = 1024, "
            "REPLICAS = 3, AFFINITY_FUNCTION = rendezvous; // Scale up only.",
            {UP: 300, "partitions": 1024, "replicas": 3, "affinityFunction": "rendezvous"},
        ),
        (
            "CREATE ZONE zone2 WITH DATA_NODES_AUTO_ADJUST_SCALE_UP = 300, "
            "DATA_NODES_AUTO_ADJUST_SCALE_DOWN = 300; // Both scale up and scale down.",
            {UP: 300, DOWN: 300},
        ),
        ("CREATE ZONE zone2 WITH DATA_NODES_AUTO_ADJUST = 100; // Same value", {BOTH: 100}),
        (
            "CREATE ZONE zone1 WITH   DATA_NODES_AUTO_ADJUST_SCALE_UP = 300, "
            "DATA_NODES_AUTO_ADJUST_SCALE_DOWN= 300_000;",
            {UP: 300, DOWN: 300_000},
        ),
        (
            "CREATE ZONE z WITH (DATA_NODES_AUTO_ADJUST_SCALE_UP = 3 & "
            "DATA_NODES_AUTO_ADJUST_SCALE_DOWN = 4), PARTITIONS = 2",
            {UP: 3, DOWN: 4, "partitions": 2},
        ),
        (
            "create zone z set (Data_Nodes_Auto_Adjust=INFINITE, Data_Nodes_Filter='\"SSD\"')",
            {BOTH: "Infinite", "dataNodesFilter": '"SSD"'},
        ),
        (
            "CREATE ZONE IF NOT EXISTS exampleZone WITH CONSISTENCY_MODE='HIGH_AVAILABILITY', "
            "PARTITION_DISTRIBUTION_RESET_TIMEOUT=1",
            {"consistencyMode": "HighAvailability", "partitionDistributionResetTimeout": 1},
        ),
        (
            "CREATE ZONE z WITH CONSISTENCY_MODE = StrongConsistency",
            {"consistencyMode": "StrongConsistency"},
        ),
        ("CREATE ZONE z", {}),
        ("ALTER ZONE Accounts WITH\n\tDATA_NODES_AUTO_ADJUST_SCALE_UP = 500", {UP: 500}),
        ("ALTER ZONE Accounts WITH DATA_NODES_AUTO_ADJUST = 1000", {BOTH: 1000}),
        (
            "ALTER ZONE Accounts WITH DATA_NODES_FILTER = ‘(“US” || “EU”) && “SSD”’",
            {"dataNodesFilter": "(“US” || “EU”) && “SSD”"},
        ),
        ("ALTER ZONE z SET DATA_NODES_FILTER = '/it''s/'", {"dataNodesFilter": "/it's/"}),
        ("ALTER ZONE z SET DATA_NODES_FILTER = ''", {"dataNodesFilter": None}),
        (
            "ALTER ZONE z SET DATA_NODES_FILTER = '\"a//b\"' // not this",
            {"dataNodesFilter": '"a//b"'},
        ),
        (
            "ALTER ZONE IF EXISTS exampleZone SET PARTITION_DISTRIBUTION_RESET_TIMEOUT=5",
            {"partitionDistributionResetTimeout": 5},
        ),
    ],
)
def test_zones_as_the_documents_write_them(text: str, fields: dict[str, object]) -> None:
    (statement,) = parse(text)
    assert isinstance(statement, CreateZone | AlterZone)
    assert statement.settings.fields == fields


def test_tables_as_the_document_writes_them() -> None:
    for text in (
        "CREATE TABLE Accounts … WITH  PRIMARY_ZONE = zone1 ",
        "CREATE TABLE Accounts ... WITH PRIMARY_ZONE = Zone1;",
        "CREATE TABLE Accounts SET PRIMARY_ZONE = 'zone1'",
        "CREATE TABLE Accounts (id INT PRIMARY KEY, v DECIMAL(3, 2) DEFAULT 'x', "
        "at TIMESTAMP WITH TIME ZONE) WITH PRIMARY_ZONE = zone1",
        "CREATE TABLE Accounts (id INT, …) WITH PRIMARY_ZONE = zone1",
        "CREATE TABLE Accounts ( ... ) WITH PRIMARY_ZONE = zone1",
    ):
        (made,) = parse(text)
        assert isinstance(made, CreateTable)
        assert (made.name.parts, made.primary_zone.parts) == (("accounts",), ("zone1",))
        assert made.has_columns == ("(id" in text)
    (altered,) = parse("ALTER TABLE IF EXISTS t SET PRIMARY_ZONE = a.b.c")
    assert isinstance(altered, AlterTable)
    assert altered.if_exists
    assert altered.primary_zone.parts == ("a", "b", "c")


def test_a_batch_with_comments_is_a_list_of_statements() -> None:
    text = """
    // first
    DROP ZONE IF EXISTS "My Zone"; DROP TABLE t;;
    DESCRIBE ZONE zone -- a zone of that name
    ; /* several
    lines */ DESCRIBE TABLE t; describe table group z; SELECT * FROM zones; SELECT * FROM TABLES;
    SELECT * FROM DATA_NODES;
    """
    statements = parse(text)
    kinds = [DropZone, DropTable, DescribeZone, DescribeTable, DescribeTableGroup] + [SelectAll] * 3
    assert [type(statement) for statement in statements] == kinds
    assert isinstance(statements[0], DropZone)
    assert statements[0].name.parts == ("My Zone",)
    views = [s.view for s in statements if isinstance(s, SelectAll)]
    assert views == [TableView.ZONES, TableView.TABLES, TableView.DATA_NODES]


def test_a_name_keeps_its_case_only_in_quotes() -> None:
    for text, parts in (
        ("Db.Schema.Zone_1", ("db", "schema", "zone_1")),
        ('db . "Schema"', ("db", "Schema")),
        ("“Über uns”", ("Über uns",)),
        ("my-zone", ("my-zone",)),
        ("with-a", ("with-a",)),
        ('"with"', ("with",)),
        ('"group"."if"', ("group", "if")),
        ("group-1", ("group-1",)),
    ):
        name = parse_name(text)
        assert name is not None
        assert name.parts == parts
    assert parse_name("a b") is None
    assert parse_name("") is None
    assert parse_name('a.""') is None


@pytest.mark.parametrize(
    ("text", "line", "column", "problem"),
    [
        ("CREATE ZON z", 1, 8, "found 'ZON', expected TABLE or ZONE"),
        ("CREATE ZONE", 1, 12, "found the end, expected IF or a name"),
        ("CREATE ZONE WITH REPLICAS = 3", 1, 13, "found 'WITH', expected IF or a name"),
        ("ALTER ZONE set REPLICAS = 3", 1, 12, "found 'set', expected IF or a name"),
        ("CREATE ZONE IF EXISTS z", 1, 16, "found 'EXISTS', expected NOT"),
        ("CREATE ZONE z @", 1, 15, "found '@', expected ';', SET, WITH or the end"),
        ("CREATE ZONE z PARTITIONS = 3", 1, 15, "expected ';', SET, WITH or the end"),
        ("CREATE ZONE z WITH", 1, 19, "found the end, expected '(' or a property"),
        ("CREATE ZONE z WITH REPLICAS 3", 1, 29, "found '3', expected '='"),
        (
            "CREATE ZONE z WITH REPLICAS = 3 PARTITIONS = 4",
            1,
            33,
            "expected '&', ',', ';' or the end",
        ),
        ("CREATE ZONE z WITH (REPLICAS = 3", 1, 33, "found the end, expected ')'"),
        (
            "CREATE ZONE z WITH\n  REPLICA = 3",
            2,
            3,
            "found 'REPLICA' (did you mean REPLICAS?), expected DATA_NODES_AUTO_ADJUST,",
        ),
        ("CREATE ZONE z WITH X = 3", 1, 20, "found 'X', expected DATA_NODES_AUTO_ADJUST,"),
        (
            "CREATE ZONE z WITH REPLICAS = 0",
            1,
            31,
            "found '0', expected a whole number from 1 to 1000",
        ),
        ("CREATE ZONE z WITH PARTITIONS = 65_001", 1, 33, "from 1 to 65000"),
        ("CREATE ZONE z WITH PARTITIONS = many", 1, 33, "found 'many', expected a whole number"),
        (
            "CREATE ZONE z WITH DATA_NODES_AUTO_ADJUST = -1",
            1,
            45,
            "found '-1', expected whole seconds (0 to 2147483647) or INFINITE",
        ),
        (
            "ALTER ZONE z SET DATA_NODES_AUTO_ADJUST_SCALE_UP=99999999999999",
            1,
            50,
            "found '99999999999999', expected whole seconds (0 to 2147483647) or INFINITE",
        ),
        (
            "ALTER ZONE z SET DATA_NODES_AUTO_ADJUST_SCALE_UP='300'",
            1,
            50,
            "found \"'300'\", expected whole seconds (0 to 2147483647) or INFINITE, without quotes",
        ),
        (
            "CREATE ZONE z WITH REPLICAS = '3'",
            1,
            31,
            "found \"'3'\", expected a whole number from 1 to 1000, without quotes",
        ),
        (
            'CREATE ZONE z WITH REPLICAS = "3"',
            1,
            31,
            "found '\"3\"', expected a whole number from 1 to 1000, without quotes",
        ),
        ("CREATE ZONE z WITH DATA_NODES_AUTO_ADJUST=INFINTE", 1, 43, "found 'INFINTE', expected"),
        (
            "CREATE ZONE z /* unclosed",
            1,
            15,
            "the comment that begins here has no end, expected '*/'",
        ),
        ("CREATE ZONE z WITH DATA_NODES_AUTO_ADJUST = 3s", 1, 45, "found '3s'"),
        ("CREATE ZONE z WITH DATA_NODES_AUTO_ADJUST = 1__0", 1, 45, "found '1__0'"),
        (
            'CREATE ZONE z WITH DATA_NODES_FILTER = "US"',
            1,
            40,
            "expected a filter in single quotes",
        ),
        (
            "CREATE ZONE z WITH DATA_NODES_FILTER = 'US'",
            1,
            41,
            "in the filter: found 'US', expected a quoted tag",
        ),
        (
            "CREATE ZONE z\nWITH DATA_NODES_FILTER = '\"US\" &&'",
            2,
            34,
            "in the filter: found the end",
        ),
        (
            "CREATE ZONE z WITH DATA_NODES_FILTER = '/''/ \"a\"'",
            1,
            46,
            "in the filter: found '\"a\"'",
        ),
        ('CREATE ZONE z WITH DATA_NODES_FILTER = \'"US"', 1, 40, "has no closing quote"),
        ("CREATE ZONE z WITH AFFINITY_FUNCTION = random", 1, 40, "expected rendezvous"),
        (
            "CREATE ZONE z WITH CONSISTENCY_MODE = 'HIGH'",
            1,
            39,
            "'STRONG_CONSISTENCY' or 'HIGH_AVAILABILITY'",
        ),
        ("CREATE ZONE z WITH REPLICAS = 3, replicas = 4", 1, 34, "REPLICAS is set twice"),
        (
            "CREATE ZONE z WITH DATA_NODES_AUTO_ADJUST = 1, DATA_NODES_AUTO_ADJUST_SCALE_UP = 1",
            1,
            48,
            "DATA_NODES_AUTO_ADJUST stands for both directions; remove it, or remove",
        ),
        (
            "ALTER ZONE z SET DATA_NODES_AUTO_ADJUST_SCALE_DOWN = 1 & DATA_NODES_AUTO_ADJUST = 1",
            1,
            58,
            "DATA_NODES_AUTO_ADJUST stands for both directions",
        ),
        ("ALTER ZONE z", 1, 13, "found the end, expected SET or WITH"),
        ("CREATE TABLE t", 1, 1, "the table t has no zone, expected WITH PRIMARY_ZONE ="),
        (
            "CREATE TABLE t WITH replicas = 3",
            1,
            21,
            "found 'replicas', expected PRIMARY_ZONE: it is a property of zones; write CREATE ZONE "
            "with a name and WITH REPLICAS = 3, and that name as PRIMARY_ZONE here",
        ),
        (
            "CREATE TABLE t WITH PRIMARY_ZONE = Zone1, DATA_NODES_FILTER = '\"US\"'",
            1,
            43,
            "found 'DATA_NODES_FILTER', expected the end: it is a property of zones; write "
            "ALTER ZONE Zone1 WITH DATA_NODES_FILTER = '\"US\"'",
        ),
        ("CREATE TABLE t WITH REPLICA = 3", 1, 21, "found 'REPLICA', expected PRIMARY_ZONE"),
        ('CREATE ZONE ""', 1, 13, "found empty quotes, expected a name in them"),
        ("CREATE ZONE a.“”", 1, 15, "found empty quotes, expected a name in them"),
        ('CREATE TABLE t WITH PRIMARY_ZONE = ""', 1, 36, "found empty quotes, expected a name"),
        (
            "CREATE TABLE t WITH PRIMARY_ZONE = '\"\"'",
            1,
            36,
            "found '\"\"', expected a zone's name",
        ),
        ('CREATE ZONE "', 1, 13, "the text that begins here has no closing quote"),
        ('CREATE ZONE “Ab"', 1, 13, "has no closing quote of its kind"),
        ('CREATE ZONE "Ab”', 1, 13, "has no closing quote of its kind"),
        (
            "CREATE TABLE group WITH PRIMARY_ZONE = z",
            1,
            14,
            "found 'group', expected a name: one that is a keyword stands in quotes, \"group\"",
        ),
        ("DROP TABLE IF EXISTS Group", 1, 22, "found 'Group', expected a name: one that is a"),
        ("CREATE TABLE t WITH PRIMARY_ZONE = if", 1, 36, 'stands in quotes, "if"'),
        ("CREATE ZONE db.if", 1, 16, 'stands in quotes, "if"'),
        ("DESCRIBE ZONE if", 1, 15, 'stands in quotes, "if"'),
        (
            "CREATE ZONE if",
            1,
            15,
            'found the end, expected NOT; for the name if write "if"',
        ),
        ("CREATE TABLE IF WITH PRIMARY_ZONE = z", 1, 17, 'NOT; for the name IF write "IF"'),
        ("DESCRIBE TABLE group;", 1, 21, 'expected a name; for the name group write "group"'),
        ("ALTER TABLE t WITH REPLICAS = 0", 1, 31, "found '0', expected a whole number from 1"),
        ("ALTER TABLE GROUP WITH REPLICAS = 3", 1, 19, "found 'WITH', expected IF or a name"),
        ("CREATE TABLE t WITH PRIMARY_ZONE = 3", 1, 36, "found 3, expected a zone's name"),
        ("ALTER TABLE t SET PRIMARY_ZONE = 'a b'", 1, 34, "found 'a b', expected a zone's name"),
        ("SELECT name FROM ZONES", 1, 8, "found 'name', expected '*'"),
        ("SELECT * FROM NODES", 1, 15, "found 'NODES', expected DATA_NODES, TABLES or ZONES"),
        ("DROP ZONE z;\nDROP", 2, 5, "found the end, expected TABLE or ZONE"),
        ("DROP ZONE a b", 1, 13, "found 'b', expected ';' or the end"),
        ("# x", 1, 1, "found '#', expected"),
        (
            " // nothing",
            1,
            1,
            "found no statement, expected ALTER, CREATE, DESCRIBE, DROP or SELECT",
        ),
    ],
)
def test_an_error_says_where_what_was_found_and_what_was_expected(
    text: str, line: int, column: int, problem: str
) -> None:
    with pytest.raises(SqlError) as caught:
        parse(text)
    assert problem in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert f"line {line}, column {column}: " in str(caught.value)


def test_the_caret_stands_under_the_place_also_in_a_long_line() -> None:
    text = f"CREATE ZONE {'z' * 200} WITH REPLICAS = 0, PARTITIONS = 4" + " " * 100 + ";"
    with pytest.raises(SqlError) as caught:
        parse(text)
    _, shown, caret = str(caught.value).split("\n")
    assert shown[caret.index("^")] == "0"
    assert len(shown) < 80


def test_the_caret_stands_under_the_place_also_behind_tabs() -> None:
    with pytest.raises(SqlError) as caught:
        parse("CREATE ZONE z WITH\r\n\tREPLICAS\t= 0,\r\n\tPARTITIONS = 4")
    _, shown, caret = str(caught.value).split("\n")
    assert (shown, caret) == ("    \tREPLICAS\t= 0,", "    \t        \t  ^")


PIECES = (
    "CREATE ALTER DROP DESCRIBE SELECT ZONE TABLE GROUP IF NOT EXISTS WITH SET FROM ZONES * ; , & "
    "= ( ) . … 3 300_000 'x' ‘“a”’ \" ' // -- PARTITIONS PRIMARY_ZONE DATA_NODES_FILTER z # é"
)


@given(st.lists(st.sampled_from([*PIECES.split(), "\n"]), max_size=12).map(" ".join))
def test_any_text_is_understood_or_refused_with_its_place(text: str) -> None:
    try:
        assert parse(text)
    except SqlError as error:
        place = (error.line, error.column)
        lines = text.split("\n")
    else:
        return
    assert 1 <= place[0] <= len(lines)
    assert 1 <= place[1] <= len(lines[place[0] - 1]) + 1
