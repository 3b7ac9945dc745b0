"""The shell without Spark: which statements it takes, what it says, how it writes answers."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import typer
import typer.main

from zonequake_analysis.sql_shell.answers import Form, write_rows
from zonequake_analysis.sql_shell.command import app
from zonequake_analysis.sql_shell.prompt import FIRST, NEXT, Prompt, lines_of_script
from zonequake_analysis.sql_shell.statements import StatementRefused, in_a_sentence, query_of
from zonequake_analysis.tables.schemas import ABOUT, TABLES, columns_of


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1;",
        "  select *\nfrom ops ;; ",
        "-- the longest\nWITH a AS (SELECT 1) SELECT * FROM a;",
        "/* of\nall */ (SELECT 1) UNION (SELECT 2);",
        "DESCRIBE ops;",
        "EXPLAIN SELECT 1;",
    ],
)
def test_what_reads_is_taken_without_its_end(text: str) -> None:
    assert query_of(text) == text.strip().rstrip("; ")


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE ops;",
        "INSERT OVERWRITE DIRECTORY '/tmp/x' SELECT 1",
        "CREATE TABLE x AS SELECT 1;",
        "-- SELECT\nSET spark.x = 1;",
    ],
)
def test_what_changes_anything_is_refused_by_its_first_word(text: str) -> None:
    with pytest.raises(
        StatementRefused, match="expected a query: one that begins with SELECT, WITH"
    ):
        query_of(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT java_method('java.lang.System', 'exit', 1);", "java_method"),
        ("SELECT try_reflect ('java.util.UUID', 'randomUUID')", "try_reflect"),
        ("SELECT '--', java_method('java.lang.System', 'exit', 1)", "java_method"),
        ("SELECT r'\\', '--', reflect('java.util.UUID', 'randomUUID')", "reflect"),
        ("SELECT `reflect`/**/('java.util.UUID', 'randomUUID')", "reflect"),
        (
            "WITH a AS (SELECT 1) INSERT OVERWRITE DIRECTORY '/x' SELECT * FROM a",
            "INSERT OVERWRITE",
        ),
        ("WITH a AS (SELECT 1)\ninsert  into ops SELECT * FROM a", "insert into"),
        ("SELECT identifier('java' || '_method')('java.util.UUID', 'randomUUID')", "identifier"),
        ("SELECT TRANSFORM(op) USING 'sh -c id' FROM ops", "USING"),
        ('SELECT TRANSFORM(op) USING/**/"sh -c id" AS (a) FROM ops', "USING"),
        ("SELECT TRANSFORM(op) USING r'id' FROM ops", "USING"),
    ],
)
def test_a_query_that_writes_or_runs_a_program_is_refused(text: str, found: str) -> None:
    with pytest.raises(StatementRefused, match=f"^found {found}, expected a query"):
        query_of(text)
    assert query_of("SELECT reflect, insert, transform(b, x -> x + 1) FROM ops JOIN a USING (op)")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM events WHERE text LIKE '%INSERT INTO%'",
        "SELECT \"insert overwrite\", 'reflect(' FROM ops",
        "SELECT r'\\', 'it''s \\' java_method (' FROM ops",
    ],
)
def test_words_in_a_text_are_no_statement(text: str) -> None:
    assert query_of(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 -- first\r, reflect('a', 'b')",
        "SELECT 'a' || reflect('a', 'b')",
        "SELECT `'`, reflect('a', 'b') AS `'`",
        "SELECT 1 -- \\\n '\n, reflect('a', 'b') --'",
        "SELECT /* /* */ ' */ reflect('a', 'b') /* ' */",
    ],
)
def test_a_call_is_found_beside_any_quotes(text: str) -> None:
    with pytest.raises(StatementRefused, match=r"^found reflect, expected a query"):
        query_of(text)


@pytest.mark.parametrize("text", ["", " ;", "-- only a word\n;"])
def test_no_statement_is_refused(text: str) -> None:
    with pytest.raises(StatementRefused, match="found no statement"):
        query_of(text)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table or view `nowhere` cannot be found. Verify the "
            "spelling and correctness of the schema and catalog.\nIf you did not qualify the "
            "name with a schema, verify the current_schema() output, or qualify the name with "
            "the correct schema and catalog.\nTo tolerate the error on drop use DROP VIEW IF "
            "EXISTS or DROP TABLE IF EXISTS. SQLSTATE: 42P01; line 1 pos 14;\n'Project [*]\n",
            "found no table nowhere, expected one of a, b",
        ),
        (
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with "
            "name `nod` cannot be resolved. Did you mean one of the following? [`node`, `op`]. "
            "SQLSTATE: 42703; line 1 pos 7;\n'Project ['nod]\n+- SubqueryAlias ops\n",
            "A column, variable, or function parameter with name `nod` cannot be resolved. Did you "
            "mean one of the following? [`node`, `op`] (line 1, column 8)",
        ),
        (
            "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'FORM'. SQLSTATE: 42601 (line 1, pos "
            "9)\n\n== SQL ==\nSELECT * FORM ops\n---------^^^\n",
            "Syntax error at or near 'FORM' (line 1, column 10)",
        ),
        ("something else\n\tat org.apache.spark.X.y(X.scala:3)", "something else"),
    ],
)
def test_what_spark_says_becomes_a_sentence(said: str, told: str) -> None:
    assert in_a_sentence(said, ["b", "a"]) == told


def text_of(
    columns: Sequence[str], rows: Sequence[Sequence[object]], form: Form, most: int | None = None
) -> str:
    out = io.StringIO()
    write_rows(columns, rows, out, form=form, most=most)
    return out.getvalue()


COLUMNS = ["key", "n", "labels", "hit"]
ROWS: list[list[object]] = [["a\nb", 12, {"pod": "x"}, True], [None, -3, ["ü"], None]]


def test_a_table_is_aligned_and_says_how_many_rows_it_has() -> None:
    assert text_of(COLUMNS, ROWS, Form.TABLE) == (
        "key    n  labels       hit\n"
        "----  --  -----------  ----\n"
        'a b   12  {"pod":"x"}  true\n'
        'NULL  -3  ["ü"]        NULL\n'
        "2 rows\n"
    )
    assert text_of(["n"], [], Form.TABLE) == "n\n-\n0 rows\n"


def test_a_table_that_is_cut_says_so() -> None:
    assert text_of(["n"], [[1], [2], [3]], Form.TABLE, most=2).splitlines()[2:] == [
        "1",
        "2",
        "2 rows, and more: --rows, or LIMIT and OFFSET, show others",
    ]
    assert text_of(["n"], [[1], [2]], Form.TABLE, most=2).splitlines()[-1] == "2 rows"


def test_a_plan_keeps_its_lines() -> None:
    assert text_of(["plan"], [["== Plan ==\n+- Scan\x1b"]], Form.TABLE) == (
        "== Plan ==\n+- Scan⟨U+001B⟩\n"
    )


def test_a_terminal_is_told_nothing_that_it_would_obey() -> None:
    assert "\x1b" not in text_of(["a\x1b[2J"], [["b\x1b[2J"]], Form.TABLE)


def test_csv_and_json_have_all_rows_and_can_be_read_back() -> None:
    read = list(csv.reader(io.StringIO(text_of(COLUMNS, ROWS, Form.CSV, most=1))))
    assert read == [COLUMNS, ["a\nb", "12", '{"pod":"x"}', "true"], ["", "-3", '["ü"]', ""]]
    lines = text_of(COLUMNS, ROWS, Form.JSON, most=1).splitlines()
    assert [list(json.loads(line).values()) for line in lines] == ROWS
    at = datetime(2026, 11, 25, 6, 22)
    assert json.loads(text_of(["at"], [[at]], Form.JSON)) == {"at": "2026-11-25T06:22:00"}


def test_two_columns_of_one_name_are_refused_for_json_alone() -> None:
    with pytest.raises(ValueError, match="found the column zone twice"):
        text_of(["zone", "zone"], [[1, 2]], Form.JSON)
    assert text_of(["zone", "zone"], [[1, 2]], Form.CSV) == "zone,zone\n1,2\n"


class Talk:
    """A prompt whose lines are given, and what it said and asked."""

    def __init__(self, *lines: str | type[BaseException], goes_on: bool = True) -> None:
        self._goes_on = goes_on
        self.shown: list[str] = []
        self.said: list[str] = []
        self.refused: list[str] = []
        self.asked: list[str] = []
        self._lines = iter(lines)

    def read(self, shown: str) -> str:
        self.shown.append(shown)
        line = next(self._lines, EOFError)
        if isinstance(line, str):
            return line
        raise line

    def answer(self, statement: str) -> None:
        self.asked.append(query_of(statement))

    def run(self) -> Talk:
        Prompt(
            read=self.read,
            say=self.said.append,
            complain=self.refused.append,
            answer=self.answer,
            about=ABOUT,
            columns=lambda name: columns_of(TABLES[name]),
            goes_on=self._goes_on,
        ).run()
        return self


def test_a_statement_of_several_lines_ends_with_its_semicolon() -> None:
    talk = Talk("SELECT 1,", "", "  .5;", "", "SELECT 2;").run()
    assert talk.asked == ["SELECT 1,\n\n  .5", "SELECT 2"]
    assert talk.shown == [FIRST, NEXT, NEXT, FIRST, FIRST, FIRST]


def test_a_refused_statement_does_not_end_the_shell() -> None:
    talk = Talk("DROP TABLE ops;", ".schema nothing", ".tabels", "SELECT 1;").run()
    assert talk.asked == ["SELECT 1"]
    assert [text.partition(",")[0] for text in talk.refused] == [
        "found DROP",
        "found no table nothing",
        "found .tabels",
    ]


def test_a_script_ends_with_its_first_refused_statement() -> None:
    talk = Talk("SELECT 1;", "SELEC 2;", "SELECT 3;", goes_on=False)
    with pytest.raises(StatementRefused, match="found SELEC,"):
        talk.run()
    assert (talk.asked, talk.refused) == (["SELECT 1"], [])


@pytest.mark.parametrize(
    ("lines", "asked"),
    [
        (["SELECT 1;", "SELECT 2,", "  3"], ["SELECT 1", "SELECT 2,\n  3"]),
        (["SELECT 1; SELECT 2; -- both", "SELECT 3"], ["SELECT 1", "SELECT 2", "SELECT 3"]),
        (["SELECT ';--', \"a;b\", `c;d`, r'\\';"], ["SELECT ';--', \"a;b\", `c;d`, r'\\'"]),
        (["SELECT 1 /* ;", "; */, 2", " ", "-- end"], ["SELECT 1 /* ;\n; */, 2\n \n-- end"]),
        (
            ["-- first", "", ".tables", ";", "SELECT 1", " ;;", "/* the", "end */", "-- ;"],
            ["SELECT 1"],
        ),
    ],
)
def test_the_end_of_a_script_ends_its_last_statement(lines: list[str], asked: list[str]) -> None:
    assert Talk(*lines, goes_on=False).run().asked == asked


def test_a_person_who_ends_the_shell_leaves_what_was_begun() -> None:
    assert Talk("SELECT 1;", "SELECT 2").run().asked == ["SELECT 1"]


def test_an_interrupt_drops_what_was_begun_and_quit_ends_the_shell() -> None:
    talk = Talk("SELECT", KeyboardInterrupt, "SELECT 1;", ".quit", "SELECT 2;").run()
    assert talk.asked == ["SELECT 1"]


def test_tables_and_their_columns_are_told() -> None:
    said = Talk(".tables", ".schema windows", ".help").run().said
    assert [line.split()[0] for line in said[: len(TABLES)]] == list(TABLES)
    assert f"{'zone'.ljust(12)}  string" in said
    assert ".schema NAME" in said[-1]


def test_a_folder_that_is_not_there_and_a_format_without_a_query_are_wrong_usage(
    tmp_path: Path,
) -> None:
    command = typer.main.get_command(app)
    with pytest.raises(typer.BadParameter, match="does not exist"):
        command.main([str(tmp_path / "gone")], standalone_mode=False)
    with pytest.raises(typer.BadParameter, match="without --query"):
        command.main([str(tmp_path), "--format", "csv"], standalone_mode=False)


def refused_without_spark(run: Path, query: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the command ends with wrong usage; fails if it starts Spark."""

    def started(**_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("zonequake_analysis.spark_pass.session.build_session", started)
    command = typer.main.get_command(app)
    return bool(command.main([str(run), "--query", query], standalone_mode=False) == 254)


def test_a_folder_without_tables_is_refused_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused_without_spark(tmp_path, "SELECT 1", monkeypatch)
    assert f"in {tmp_path / 'tables'}, expected all" in capsys.readouterr().err


def test_a_statement_that_is_no_query_is_refused_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in TABLES:
        (tmp_path / "tables" / name).mkdir(parents=True)
    assert refused_without_spark(tmp_path, "DROP TABLE ops", monkeypatch)
    assert "sql-shell: found DROP, expected a query" in capsys.readouterr().err


def test_a_script_is_read_as_utf_8_with_or_without_a_mark() -> None:
    read = lines_of_script(["\ufeffSELECT 'ü',\r\n".encode(), b"\n", b"1"])
    assert [read(FIRST) for _ in range(3)] == ["SELECT 'ü',", "", "1"]
    with pytest.raises(EOFError):
        read(FIRST)


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a session, which is none, was asked; its run is `tmp_path`."""
    statements: list[str] = []
    for name in TABLES:
        (tmp_path / "tables" / name).mkdir(parents=True)
    for name in (
        "zonequake_analysis.spark_pass.session.build_session",
        "zonequake_analysis.tables.opened.open_tables",
        "zonequake_analysis.sql_shell.command.only_tables",
    ):
        monkeypatch.setattr(name, MagicMock())
    monkeypatch.setattr(
        "zonequake_analysis.sql_shell.command.answer", lambda _, text, **__: statements.append(text)
    )
    return statements


def code_of(run: Path) -> int:
    return int(typer.main.get_command(app).main([str(run)], standalone_mode=False))


@pytest.mark.parametrize(
    ("second", "told"),
    [
        (
            "SELECT 'ü';\n".encode("latin-1"),
            "found the byte 0xfc, which is no UTF-8 (invalid start byte), expected text in UTF-8; ",
        ),
        ("SELECT 2;\n".encode("utf-16"), "found text in UTF-16, expected UTF-8: save the file as "),
        (b"SELECT '\0';\n", "found 1 NUL byte, "),
    ],
)
def test_a_script_that_is_no_utf_8_ends_with_a_sentence_at_its_line(
    tmp_path: Path,
    asked: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    second: bytes,
    told: str,
) -> None:
    script = io.BytesIO(b"SELECT 1;\n" + second + b"SELECT 3;\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(script, encoding="utf-8"))
    assert code_of(tmp_path) == 254
    assert asked == ["SELECT 1;"]
    (line,) = [one for one in capsys.readouterr().err.splitlines() if "metrics" not in one]
    assert line.startswith(f"sql-shell: standard input, line 2: {told}")
    assert line.endswith("`iconv -f ENCODING -t UTF-8` converts a script")


def test_a_line_from_a_terminal_of_another_encoding_is_refused_and_the_next_one_read(
    tmp_path: Path,
    asked: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    typed = iter([b"SELECT '\xfc';", b"SELECT 2;"])

    def line(_: str) -> str:
        try:
            return next(typed).decode()
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", line)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    assert code_of(tmp_path) == 0
    assert asked == ["SELECT 2;"]
    assert "found the byte 0xfc, expected text in utf-8" in capsys.readouterr().err
