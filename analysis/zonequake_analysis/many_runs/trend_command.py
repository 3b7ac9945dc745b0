"""`zonequake trend FOLDER`: how objectives changed over many runs, as a page and as a table.

Exit codes: 0 the page is written, 254 wrong usage, 255 it could not be written. A change for the
worse has no exit code: it may be old and known; `zonequake compare` has one.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from zonequake_analysis.errors import AnalysisError
from zonequake_analysis.verdict import EXIT_CODES, Verdict
from zonequake_analysis.whole_files import write_whole

app = typer.Typer(help="Show the trend of many runs.", add_completion=False)

PAGE, TABLE = "trend.html", "trend.parquet"


@app.command("trend", epilog="Example: zonequake trend runs --out trend.html")
def trend_command(
    folder: Annotated[
        Path, typer.Argument(exists=True, file_okay=False, help="Folder of run folders.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="Page to write. Default: FOLDER/trend.html.")
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option("--table", help="Table to write. Default: trend.parquet beside the page."),
    ] = None,
    master: Annotated[
        str | None, typer.Option("--master", help="Spark master, default local[*].")
    ] = None,
) -> None:
    """Show how each objective went over many runs and versions, with its change points.

    Looks up to three folders deep for runs with a verdict; writes one page that loads nothing, and
    the table `trend`.
    """
    page = out or folder / PAGE
    raise typer.Exit(_written(folder, page, table or page.with_name(TABLE), master))


def _written(folder: Path, page: Path, table: Path, master: str | None) -> int:
    # Loaded only here: it starts a Java virtual machine.
    from zonequake_analysis.many_runs.folders import run_folders
    from zonequake_analysis.many_runs.trend_job import read_rows, write_table
    from zonequake_analysis.many_runs.trend_page import render_trend
    from zonequake_analysis.many_runs.trend_rows import trends
    from zonequake_analysis.spark_pass.session import Size, build_session

    try:
        runs = run_folders(folder)
        if not runs:
            raise typer.BadParameter(
                f"found no verdict.json in {folder} and three folders below it, expected judged "
                "runs: run `zonequake analyze` over each first"
            )
        spark = build_session(size=Size.SMALL, master=master)
        try:
            rows = read_rows(spark, runs)
        finally:
            spark.stop()
        found = trends(rows)
        page.parent.mkdir(parents=True, exist_ok=True)
        table.parent.mkdir(parents=True, exist_ok=True)
        write_table(table, rows)
        write_whole(page, render_trend(found, rows, folder.resolve().name).encode())
        steps = sum(len(series.steps) for trend in found for series in trend.series)
        left_out = sum(row.problem is not None for row in rows)
        print(  # noqa: T201
            f"{page}: {len(runs) - left_out} runs, {left_out} left out, {steps} change points; "
            f"table: {table}"
        )
    except (AnalysisError, OSError) as error:
        print(f"trend: {error}", file=sys.stderr)  # noqa: T201
    except typer.BadParameter:
        raise
    except Exception:  # noqa: BLE001 - Python's own exit code would mean a violation
        traceback.print_exc()
    else:
        return 0
    return EXIT_CODES[Verdict.HARNESS_FAILED]
