"""`zonequake executor-archive OUT`: the Python that a cluster's workers lack, as one file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from zonequake_analysis.errors import AnalysisError
from zonequake_analysis.executors.archive import write_archive
from zonequake_analysis.executors.manifest import ENDINGS

app = typer.Typer(help="Write an executors' archive.", add_completion=False)


@app.command("executor-archive", epilog="Example: zonequake executor-archive environment.tar.gz")
def executor_archive(
    out: Annotated[Path, typer.Argument(help="File to write: NAME.tar.gz or NAME.tgz.")],
) -> None:
    """Write the Python environment of Spark's executors as one file, for `analyze --archives`.

    It has this environment's interpreter, the analysis and its packages, but no Spark. Workers need
    Linux on the same kind of processor with the same C library or a newer one, a shell, and Spark.
    """
    if not out.name.endswith(ENDINGS):
        raise TyperException(
            f"found {out}, expected a name that ends with {' or '.join(ENDINGS)}, since Spark "
            "unpacks by it"
        )
    try:
        manifest = write_archive(out)
    except (AnalysisError, OSError) as error:
        raise TyperException(f"no archive was written: {error}") from error
    _say(
        f"{out}: {out.stat().st_size / 1e6:.0f} MB, Python {manifest.python}, "
        f"{len(manifest.packages)} packages, for {manifest.machine} with {manifest.libc} or newer"
    )
    _say(f"next: zonequake analyze RUN --master spark://HOST:7077 --archives {out}")


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201
