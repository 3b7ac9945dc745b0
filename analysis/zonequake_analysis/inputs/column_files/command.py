"""`zonequake columns RUN`: writes the column files of a run's histories."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import typer

from zonequake_analysis.command_errors import told_errors
from zonequake_analysis.inputs.column_files.conversion import convert
from zonequake_analysis.inputs.column_files.one_range import FOLDER
from zonequake_analysis.inputs.completeness import histories
from zonequake_analysis.run_argument import RunPlace
from zonequake_analysis.storage.location import Location
from zonequake_analysis.storage.upload_mark import check_whole

app = typer.Typer(help="Write column files of histories.", add_completion=False)


def write_column_files(run: Location) -> tuple[int, int]:
    """Writes the column files of all histories, on all cores; returns the bytes of both.

    Replaces those that the run has. Raises RunFolderError, and RunNotWhole for a location that a
    run has marked and not filled yet; OSError.
    """
    check_whole(run)
    found = histories(run)
    folder = run / FOLDER
    folder.empty_folder()
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        return found.size_bytes, sum(pool.map(partial(convert, folder=folder), found.files))


@app.command("columns", epilog="Example: zonequake columns runs/leader-kill-1")
def columns_command(run: RunPlace) -> None:
    """Write a run's histories as columns, too, which the analysis reads much faster than lines.

    The lines stay as they are, and stay the truth. Worth it before several analyses of one run.
    """
    with told_errors("columns"):
        lines_bytes, columns_bytes = write_column_files(Location.of(run))
    print(f"{run}/{FOLDER}: {columns_bytes:,} bytes, of {lines_bytes:,}", file=sys.stderr)  # noqa: T201
