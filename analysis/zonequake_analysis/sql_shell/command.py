"""`zonequake sql-shell RUN`: the tables of an analyzed run, in SQL.

Exit codes: 0 answered, 254 usage error, as a statement that can't be answered or a run without
tables is, 255 the tables can't be opened.
"""

from __future__ import annotations

import logging
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zonequake_analysis.command_errors import told_errors
from zonequake_analysis.run_argument import RunPlace
from zonequake_analysis.sql_shell.answers import Form, write_rows
from zonequake_analysis.sql_shell.prompt import Prompt, lines_of_script
from zonequake_analysis.sql_shell.statements import StatementRefused, in_a_sentence, query_of
from zonequake_analysis.storage.location import Location
from zonequake_analysis.text.untrusted_text import one_line
from zonequake_analysis.verdict import USAGE_EXIT_CODE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_ROWS = 200
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark's own: they print an error as JSON, with its stack, before it is raised."""

app = typer.Typer(help="Query the tables of a run.", add_completion=False)


@app.command(
    "sql-shell",
    epilog="Example: zonequake sql-shell runs/leader-kill-1 --query 'SELECT * FROM windows'",
)
def sql_shell_command(
    run: RunPlace,
    query: Annotated[
        str | None, typer.Option("--query", help="Answer this query and end. Default: a prompt.")
    ] = None,
    form: Annotated[
        Form, typer.Option("--format", help="With --query: csv and json have all rows.")
    ] = Form.TABLE,
    rows: Annotated[
        int, typer.Option("--rows", min=1, help="Show at most so many rows of a table.")
    ] = MOST_ROWS,
) -> None:
    """Query the tables of an analyzed run in SQL: operations, findings, windows, metrics.

    Opens each table as a view in a local Spark session. At the prompt a statement ends with `;`,
    `.tables` lists the tables, `.schema NAME` shows the columns of one. Without a terminal it ends
    at the first statement that can't be answered.
    """
    if query is None and form is not Form.TABLE:
        raise typer.BadParameter(
            f"found --format {form} without --query, expected both: the prompt shows tables"
        )
    with told_errors("sql-shell"):
        try:
            code = _opened(run, query, form, rows)
        except StatementRefused as refused:
            _complain(str(refused))
            code = USAGE_EXIT_CODE
    raise typer.Exit(code)


def _opened(run: str, query: str | None, form: Form, rows: int) -> int:
    # Only here: it starts a Java virtual machine.
    from zonequake_analysis.spark_pass.session import build_session
    from zonequake_analysis.spark_pass.settings import size_of
    from zonequake_analysis.tables.opened import open_tables, without_metrics

    location = Location.of(run)
    location.check_reachable()
    if lacking := _lacking(location):
        _complain(
            f"found no table {', '.join(lacking)} in {location / 'tables'}, expected all that an "
            "analysis writes: run `zonequake analyze` over the run, and again if it broke off"
        )
        return USAGE_EXIT_CODE
    if query is not None:
        query_of(query)  # a session takes seconds to start, and answers nothing else
    histories = (location / "history").listed(".jsonl")
    spark = build_session(size=size_of(sum(file.size_bytes() for file in histories)))
    try:
        open_tables(spark, location)
        only_tables(spark)
        if lacking := without_metrics(location):
            _complain(f"without rows, as the run has no metrics for them: {', '.join(lacking)}")
        if query is not None:
            answer(spark, query, form, rows)
        else:
            _prompt(spark, rows)
    finally:
        spark.stop()
    return 0


def _lacking(location: Location) -> list[str]:
    """Returns the tables of a whole analysis that the run doesn't have: a session takes seconds to
    start, and opens none of them. Raises LocationError.
    """
    from zonequake_analysis.tables.schemas import OF_METRICS, TABLES

    tables = location.resolve() / "tables"
    needed = (name for name in TABLES if name not in OF_METRICS)
    return [name for name in needed if not (tables / name).exists()]


def only_tables(spark: SparkSession) -> None:
    """Has the session refuse files named in SQL, and leave what Spark says of an error to us."""
    spark.conf.set("spark.sql.runSQLOnFiles", "false")
    spark.sparkContext.setLogLevel("OFF")
    for name in _LOGGERS:
        logging.getLogger(name).disabled = True


def answer(spark: SparkSession, text: str, form: Form, most: int) -> None:
    """Prints the answer of a statement. Raises StatementRefused."""
    from pyspark.errors import PySparkException

    from zonequake_analysis.storage.causes import told_by_worker
    from zonequake_analysis.tables.schemas import TABLES

    statement = query_of(text)
    try:
        found = spark.sql(statement)
        columns = found.columns
        if form is Form.TABLE:
            found = found.limit(most + 1)
        write_rows(columns, found.toLocalIterator(), sys.stdout, form=form, most=most)
    except ValueError as error:
        raise StatementRefused(str(error)) from error
    except Exception as error:
        said = getattr(error, "java_exception", error)
        if said is error and not isinstance(error, PySparkException):
            raise
        told = told_by_worker(str(error))
        raise StatementRefused(told or in_a_sentence(_first_cause(said), TABLES)) from error


def _first_cause(said: Any) -> str:  # noqa: ANN401 - an object of Java
    """Returns what the innermost of Java's exceptions says: those around it only say where."""
    text = str(said)
    while hasattr(said, "getCause") and (said := said.getCause()) is not None:
        text = said.getMessage() or text
    return text


def _prompt(spark: SparkSession, rows: int) -> None:
    from zonequake_analysis.tables.schemas import ABOUT, TABLES, columns_of

    if is_person := sys.stdin.isatty():
        import readline  # noqa: F401 - lines can be edited, and called again

        typer.echo(".tables lists the tables, .help says more.")
    Prompt(
        read=_typed if is_person else lines_of_script(sys.stdin.buffer),
        say=typer.echo,
        complain=_complain,
        answer=partial(answer, spark, form=Form.TABLE, most=rows),
        about=ABOUT,
        columns=lambda name: columns_of(TABLES[name]),
        goes_on=is_person,
    ).run()


def _typed(shown: str) -> str:
    """Returns a line from the terminal. Raises EOFError, StatementRefused."""
    try:
        return input(shown)
    except UnicodeDecodeError as error:
        raise StatementRefused(
            f"found the byte 0x{error.object[error.start]:02x}, expected text in {error.encoding}, "
            "as the locale says: set the terminal to this encoding, and type the line again"
        ) from error


def _complain(text: str) -> None:
    print(one_line(f"sql-shell: {text}"), file=sys.stderr)  # noqa: T201
