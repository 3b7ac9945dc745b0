"""`zonequake import-metrics FILE RUN`: samples of a Prometheus' storage, as a run's metrics."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from zonequake_analysis.command_errors import told_errors
from zonequake_analysis.errors import ImportRefused
from zonequake_analysis.run_argument import OF_A_RUN, RunPlace
from zonequake_analysis.storage.location import Location
from zonequake_analysis.storage.upload_mark import MARK_FILE, check_whole
from zonequake_analysis.text.untrusted_text import one_line

app = typer.Typer(help="Import metrics into a run folder.", add_completion=False)


def import_metrics(text: Path, run: Path | Location) -> tuple[Location, int]:
    """Writes the samples of a text into `metrics/` of the run; returns the file and their number.

    Raises ImportRefused for a line that can't be read, RunNotWhole for a location that a run has
    marked and not filled yet, FileExistsError, OSError, LocationError.
    """
    from zonequake_analysis.inputs.prometheus.openmetrics import convert

    check_whole(Location.of(run))
    folder = Location.of(run) / "metrics"
    file = folder / f"{text.stem}.parquet"
    if file.exists():
        raise FileExistsError(f"{file} is there already; delete it, or rename {text}")
    folder.make_folder()
    with tempfile.TemporaryDirectory(prefix="zonequake-") as made:
        samples = convert(text, Path(made) / "samples.parquet")
        file.copy_from(Path(made) / "samples.parquet")
    return file, samples


@app.command(
    "import-metrics", epilog="Example: zonequake import-metrics dump.txt runs/leader-kill-1"
)
def import_metrics_command(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help="Text of `promtool tsdb dump-openmetrics`, or of `promtool tsdb dump`.",
        ),
    ],
    run: RunPlace,
) -> None:
    """Import samples of a Prometheus' storage into a run folder, for `zonequake analyze` to read.

    Writes metrics/FILE.parquet. Each NaN counts as the end of its series.
    """
    with told_errors("import-metrics"):
        location = Location.of(run)
        if not any((location / name).exists() for name in (*OF_A_RUN, MARK_FILE)):
            raise TyperException(
                f"{run} is no run folder: found none of {', '.join(OF_A_RUN)}, expected at least "
                "history/*.jsonl"
            )
        try:
            written, samples = import_metrics(file, location)
        except (ImportRefused, FileExistsError) as error:
            raise TyperException(one_line(str(error))) from error
    print(f"{written}: {samples:,} samples", file=sys.stderr)  # noqa: T201
    print(f"next: zonequake analyze {run}", file=sys.stderr)  # noqa: T201
