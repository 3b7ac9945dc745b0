"""`zonequake trend FOLDER`: how objectives changed over many runs, as a page and as a table.

Exit codes: 0 the page is written, 254 usage error, 255 it could not be written. A change for the
worse has no exit code: it may be old and known; `zonequake compare` has one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from zonequake_analysis.cluster.options import wrong_option
from zonequake_analysis.command_errors import told_errors
from zonequake_analysis.run_argument import (
    Archives,
    DriverHost,
    FolderOfRuns,
    Master,
    file_or_uri,
)
from zonequake_analysis.storage.location import Location
from zonequake_analysis.text.first_few import first_few
from zonequake_analysis.text.untrusted_text import one_line

app = typer.Typer(help="Show the trend of many runs.", add_completion=False)

MOST_TOLD = 10
"""Most runs left out that the command names; the rest is counted, and on the page."""

PAGE, TABLE = "trend.html", "trend.parquet"


@app.command("trend", epilog="Example: zonequake trend runs --out trend.html")
def trend_command(
    folder: FolderOfRuns,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            callback=file_or_uri,
            help="Page to write, a path or a URI. Default: FOLDER/trend.html.",
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            callback=file_or_uri,
            help="Table to write. Default: trend.parquet beside the page.",
        ),
    ] = None,
    master: Master = None,
    driver_host: DriverHost = None,
    archives: Archives = None,
) -> None:
    """Show how each objective went over many runs and versions, with its change points.

    Looks up to three folders deep for runs with a verdict; writes one page that loads nothing, and
    the table `trend`.
    """
    wrong = wrong_option(master, None, driver_host, archives)
    if wrong is not None:
        raise typer.BadParameter(wrong)
    location = Location.of(folder)
    page = Location.of(out) if out is not None else location / PAGE
    written = Location.of(table) if table is not None else page.parent / TABLE
    _write(location, page, written, master, driver_host, archives)


def _write(
    folder: Location,
    page: Location,
    table: Location,
    master: str | None,
    driver_host: str | None,
    archives: Path | None,
) -> None:
    # Loaded only here: it starts a Java virtual machine.
    from zonequake_analysis.many_runs.folders import has_verdict, run_folders
    from zonequake_analysis.many_runs.trend_job import read_rows, write_table
    from zonequake_analysis.many_runs.trend_page import render_trend
    from zonequake_analysis.many_runs.trend_rows import each_once, left_out, notes, trends
    from zonequake_analysis.spark_pass.executor_deaths import ended_if_executors_die
    from zonequake_analysis.spark_pass.session import build_session
    from zonequake_analysis.spark_pass.settings import Size

    with told_errors("trend"):
        for location in (folder, page, table):
            location.check_reachable()
        runs = run_folders(folder)
        if not any(map(has_verdict, runs)):
            unjudged = f" ({first_few([str(run) for run in runs], 3)})" if runs else ""
            raise typer.BadParameter(
                f"found no verdict.json in {folder} and three folders below it{unjudged}, expected "
                "judged runs: run `zonequake analyze` over each first"
            )
        spark = build_session(
            size=Size.SMALL, master=master, driver_host=driver_host, archives=archives
        )
        try:
            with ended_if_executors_die(spark):
                rows = each_once(read_rows(spark, runs))
        finally:
            spark.stop()
        found = trends(rows)
        page.parent.make_folder()
        table.parent.make_folder()
        write_table(table, rows)
        page.write(render_trend(found, rows, folder.resolve().name).encode())
        steps = sum(len(series.steps) for trend in found for series in trend.series)
        without = left_out(rows)
        print(  # noqa: T201
            f"{page}: {len(runs) - len(without)} runs, {len(without)} left out, {steps} change "
            f"points; table: {table}"
        )
        told = [one_line(f"trend: left out: {why}") for _, why in without]
        told += [one_line(f"trend: {run}: {why}") for run, why in notes(rows)]
        if told:
            print(first_few(told, MOST_TOLD, separator="\n"), file=sys.stderr)  # noqa: T201
