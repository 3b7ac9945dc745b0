"""`zonequake sql-shell` over an analysed run: answers, errors in a sentence, exit codes."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.tables.conftest import Analysed
from zonequake_analysis.errors import RunFolderError
from zonequake_analysis.sql_shell.answers import Form
from zonequake_analysis.sql_shell.command import answer
from zonequake_analysis.sql_shell.statements import StatementRefused
from zonequake_analysis.storage.location import Location
from zonequake_analysis.tables import open_tables
from zonequake_analysis.tables.opened import by_tasks, without_metrics
from zonequake_analysis.tables.schemas import OF_METRICS, TABLES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

LOST = "SELECT key, partition FROM findings WHERE check = 'lost-writes' ORDER BY key DESC"


def shell(*arguments: str | Path, typed: str | None = None) -> subprocess.CompletedProcess[str]:
    code = "from zonequake_chaos.commands.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "sql-shell", *map(str, arguments)],
        capture_output=True,
        text=True,
        input=typed,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        check=False,
        timeout=500,
    )


def test_one_query_is_answered_in_each_form(
    spark: SparkSession, analysed: Analysed, capsys: pytest.CaptureFixture[str]
) -> None:
    open_tables(spark, analysed.run)  # views are the session's: another test may have opened others
    answer(spark, LOST, Form.TABLE, 10)
    assert capsys.readouterr().out.splitlines()[2:] == [
        "planted-lost-element          0",
        "planted-lost                  0",
        "2 rows",
    ]
    answer(spark, LOST, Form.CSV, 1)
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows == [["key", "partition"], ["planted-lost-element", "0"], ["planted-lost", "0"]]
    answer(spark, f"{LOST};", Form.JSON, 1)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        {"key": "planted-lost-element", "partition": 0},
        {"key": "planted-lost", "partition": 0},
    ]
    answer(spark, "SELECT labels, t_ms FROM metrics", Form.TABLE, 3)
    assert "3 rows, and more" in capsys.readouterr().out
    answer(spark, "SELECT 1 AS a WHERE false", Form.TABLE, 3)
    assert capsys.readouterr().out.endswith("0 rows\n")


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("SELECT * FROM nowhere", f"found no table nowhere, expected one of {min(TABLES)}, "),
        ("SELECT * FROM a.b", "found no table a.b, expected one of "),
        ("SELECT nod FROM ops", "name `nod` cannot be resolved. Did you mean"),
        ("SELECT\n  key FORM ops WHERE", "Syntax error at or near 'ops' (line 2, column 12)"),
        ("SELECT key,, op FROM ops", "Syntax error at or near ','"),
        ("SELECT 1 / 0", "Division by zero"),
        ("SELECT nosuch(1)", "nosuch"),
        ("SELECT sum(key) OVER (", "Syntax error"),
    ],
)
@pytest.mark.parametrize("form", [Form.TABLE, Form.CSV])
def test_an_error_of_sql_is_a_sentence_without_javas_stack(
    spark: SparkSession, analysed: Analysed, statement: str, told: str, form: Form
) -> None:
    with pytest.raises(StatementRefused) as refused:
        answer(spark, statement, form, 10)
    said = str(refused.value)
    assert told in said
    assert "\n" not in said
    assert not any(word in said for word in ("SQLSTATE", "org.apache", "== SQL", "Project"))


def test_a_run_without_metrics_has_their_tables_without_rows(
    spark: SparkSession, analysed: Analysed, tmp_path: Path
) -> None:
    run = tmp_path / "without"
    shutil.copytree(analysed.run, run)
    for name in OF_METRICS:
        shutil.rmtree(run / "tables" / name)
    opened = open_tables(spark, run)
    assert [opened[name].count() for name in OF_METRICS] == [0, 0, 0]
    assert opened["findings"].count() == analysed.tables["findings"].count()
    assert without_metrics(run) == list(OF_METRICS)
    assert without_metrics(analysed.run) == []
    open_tables(spark, analysed.run)


@pytest.mark.parametrize("name", [name for name in TABLES if name not in OF_METRICS])
def test_a_run_without_a_table_is_refused_and_never_taken_for_one_without_findings(
    spark: SparkSession, analysed: Analysed, tmp_path: Path, name: str
) -> None:
    for other in TABLES:
        (tmp_path / "tables" / other).mkdir(parents=True)
    (tmp_path / "tables" / name).rmdir()
    with pytest.raises(
        RunFolderError, match=rf"found no table {name} in .*run `zonequake analyze`"
    ):
        open_tables(spark, tmp_path)


def test_tasks_read_a_store_as_spark_reads_a_folder(
    spark: SparkSession, analysed: Analysed
) -> None:
    """The way of a store, over the same files."""
    for name in TABLES:
        files = Location.of(analysed.run / "tables" / name).all_below(".parquet")
        assert files, name
        read = by_tasks(spark, files, name)
        assert read.schema.simpleString() == analysed.tables[name].schema.simpleString()
        wanted, found = (
            sorted(str(row.asDict(recursive=True)) for row in table.collect())
            for table in (analysed.tables[name], read)
        )
        assert found == wanted


@pytest.mark.long
def test_the_command_prints_an_error_as_a_sentence_alone_and_files_are_no_tables(
    analysed: Analysed, tmp_path: Path
) -> None:
    (tmp_path / "other").write_text("no Parquet")
    for query, told in (
        ("SELECT 1 / (id - 1) FROM range(3)", "sql-shell: Division by zero"),
        (f"SELECT * FROM parquet.`{tmp_path / 'other'}`", "sql-shell: found no table parquet."),
    ):
        ended = shell(analysed.run, "--query", query)
        assert ended.stderr.splitlines()[-1].startswith(told)
        assert not any(word in ended.stderr for word in ('{"', "Traceback", "\tat ", " ERROR "))
        assert (ended.returncode, ended.stdout) == (254, "")


def test_the_command_answers_and_ends_with_the_exit_codes_of_all_commands(
    analysed: Analysed,
) -> None:
    asked = shell(analysed.run, "--query", LOST, "--format", "json")
    assert (asked.returncode, asked.stdout.splitlines()[0]) == (
        0,
        '{"key":"planted-lost-element","partition":0}',
    )
    typed = shell(
        analysed.run,
        typed=".tables\nSELECT 41 + 1\nAS n;\nSELECT count(*) FROM findigs;\nSELECT 43 AS n;\n",
    )
    assert typed.returncode == 254
    assert "findings " in typed.stdout
    assert "found no table findigs, expected one of" in typed.stderr
    assert typed.stdout.endswith(" n\n--\n42\n1 row\n")
    for ended in (asked, typed):
        assert "Traceback" not in ended.stderr
        assert "\tat " not in ended.stderr


@pytest.mark.long
def test_the_command_refuses_what_is_no_query_and_a_folder_without_tables(
    analysed: Analysed, tmp_path: Path
) -> None:
    wrong = shell(analysed.run, "--query", "DROP TABLE ops")
    assert (wrong.returncode, wrong.stdout) == (254, "")
    assert "sql-shell: found DROP, expected a query" in wrong.stderr
    (tmp_path / "history").mkdir()
    unjudged = shell(tmp_path, "--query", LOST)
    assert unjudged.returncode == 254
    assert "found no table ops, findings, windows" in unjudged.stderr
    assert shell(tmp_path / "gone", "--query", LOST).returncode == 254
    for ended in (wrong, unjudged):
        assert "Traceback" not in ended.stderr
        assert "\tat " not in ended.stderr
