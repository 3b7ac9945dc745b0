"""The argument of commands that read one run, wherever it lies."""

from __future__ import annotations

from typing import Annotated

import typer

from zonequake_analysis.errors import PlaceError
from zonequake_analysis.storage.place import Place


def _folder_or_uri(given: str) -> str:
    """Refuses, as wrong usage, a path that is no folder, and a URI that there can't be."""
    try:
        path = Place.of(given).local
    except PlaceError as error:
        raise typer.BadParameter(str(error)) from error
    if path is not None and not path.is_dir():
        raise typer.BadParameter(f"Directory '{path}' does not exist, or is no directory.")
    return given


RunPlace = Annotated[
    str,
    typer.Argument(
        help="Run folder, or its URI: s3://bucket/prefix, gs://…, hdfs://…, file://…",
        callback=_folder_or_uri,
    ),
]
