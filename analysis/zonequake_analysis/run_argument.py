"""Arguments of commands that read runs, wherever they lie, and choose where Spark runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from zonequake_analysis.errors import LocationError, PrometheusError
from zonequake_analysis.inputs.prometheus.live_server import LiveServer
from zonequake_analysis.storage.location import Location

OF_A_RUN = ("history", "run.yaml", "events.jsonl")
"""A folder with none of them is no run folder."""

SPARK_REMOTE = "SPARK_REMOTE"
"""PySpark's own variable with the URL of a Spark Connect server."""


def remote_or_environment(remote: str | None, *, others: Sequence[str | None]) -> str | None:
    """Returns the URL of the Spark Connect server to use: that of the environment, if neither
    `remote` nor `others` choose where Spark runs.

    Every process of a machine can read an option, and a URL may hold a token.
    """
    if remote is None and all(other is None for other in others):
        return os.environ.get(SPARK_REMOTE)
    return remote


def live_server(url: str | None, match: str | None) -> LiveServer | None:
    """Returns the Prometheus to read from, None for none; refuses, as a usage error, what can't
    be one, or matchers alone.
    """
    if url is None:
        if match is not None:
            raise typer.BadParameter("found --prometheus-match, expected --prometheus beside it")
        return None
    try:
        return LiveServer.of(url, match or "")
    except PrometheusError as error:
        raise typer.BadParameter(f"--prometheus: {error}") from error


def _folder_or_uri(given: str) -> str:
    """Refuses, as a usage error, a path that is no folder, and a URI that there can't be."""
    try:
        path = Location.of(given).local
    except LocationError as error:
        raise typer.BadParameter(str(error)) from error
    if path is not None and not path.is_dir():
        raise typer.BadParameter(f"Directory '{path}' does not exist, or is no directory.")
    return given


def folders_or_uris(given: list[str] | None) -> list[str] | None:
    """Does the same for each of several."""
    return given and [_folder_or_uri(one) for one in given]


def path_or_uri(given: str | None) -> str | None:
    """Refuses, as a usage error, a URI that there can't be, for a file or a folder to write."""
    try:
        return given and str(Location.of(given))
    except LocationError as error:
        raise typer.BadParameter(str(error)) from error


def file_or_uri(given: str | None) -> str | None:
    """Refuses, as a usage error, what can't be a file to write, on this machine or in a store."""
    try:
        if given is None:
            return None
        location = Location.of(given)
        if location.local is not None:
            return str(file_to_write(given))
        if location.parent.local is not None:
            raise LocationError(
                f"found {given!r}, expected a file in it, such as {location}/trend.html"
            )
    except LocationError as error:
        raise typer.BadParameter(str(error)) from error
    return str(location)


def file_to_write(given: str) -> Path:
    """Returns a path of this machine that is no folder. Raises LocationError."""
    path = path_here(given)
    if path.is_dir():
        raise LocationError(f"found the folder {given!r}, expected a file to write")
    return path


def path_here(given: str) -> Path:
    """Returns a path of this machine. Raises LocationError for a location in a store."""
    path = Location.of(given).local
    if path is None:
        raise LocationError(f"found {given!r}, expected a path of this machine")
    return path


def file_here(given: str | None) -> str | None:
    """Refuses, as a usage error, what can't be a file to write on this machine."""
    try:
        return None if given is None else str(file_to_write(given))
    except LocationError as error:
        raise typer.BadParameter(str(error)) from error


FolderOfRuns = Annotated[
    str,
    typer.Argument(
        help="Folder of run folders, or its URI: s3://bucket/prefix, gs://…, hdfs://…, file://…",
        callback=_folder_or_uri,
    ),
]
RunPlace = Annotated[
    str,
    typer.Argument(
        help="Run folder, or its URI: s3://bucket/prefix, gs://…, hdfs://…, file://…",
        callback=_folder_or_uri,
    ),
]

Prometheus = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Live Prometheus to read the metrics of the history's time from, if the run has none.",
    ),
]
PrometheusMatch = Annotated[
    str | None,
    typer.Option(
        metavar="MATCHERS",
        help="Label matchers that must all hold of what --prometheus reads, as in PromQL: "
        '\'namespace="db",__name__!~"go_.*"\'.',
    ),
]

Master = Annotated[str | None, typer.Option(help="Spark master, default local[*].")]
Remote = Annotated[
    str | None,
    typer.Option(help=f"Spark Connect, sc://host:port. Default: ${SPARK_REMOTE}, if it is set."),
]
DriverHost = Annotated[
    str | None,
    typer.Option(help="Address at which the workers of --master find this process."),
]
Archives = Annotated[
    Path | None,
    typer.Option(help="Python of the workers of --master: a file of executor-archive."),
]
