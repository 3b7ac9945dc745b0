"""The files with a run's samples: `metrics/*.parquet`, and those read from a live server.

    metrics/from_prometheus/3f2a9c01-00000.parquet    one file of each task, whole or not at all
    metrics/from_prometheus.json                      written last: names them, and their server

Without `from_prometheus.json` the others are what a read that broke off left, and no metrics.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from zonequake_analysis.errors import NO_JSON, SamplesError
from zonequake_analysis.storage.location import Location

METRICS = "metrics"
READ_FOLDER = "from_prometheus"
READ_FILE = f"{READ_FOLDER}.json"


class LiveRead(msgspec.Struct, frozen=True, kw_only=True):
    """The samples that were read from a live server: those with start_ms ≤ t < end_ms of the series
    that match; `files`: their names in `from_prometheus`.
    """

    url: str
    match: str = ""
    start_ms: int
    end_ms: int
    samples: int
    files: tuple[str, ...]

    @property
    def words(self) -> str:
        """The server that the samples are from, and their time, for the report."""
        matching = f" of {{{self.match}}}" if self.match else ""
        return f"read from {self.url}, {utc(self.start_ms)} to {utc(self.end_ms)} UTC{matching}"


def utc(unix_ms: int) -> str:
    """Returns a time for people, to the second."""
    try:
        return datetime.fromtimestamp(unix_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):  # written by hand
        return f"{unix_ms} ms"


def live_read(run: Path | Location) -> LiveRead | None:
    """Returns what was read from a live server for this run; None if nothing was, or not all.

    Raises SamplesError for a file of another form, LocationError.
    """
    file = Location.of(run) / METRICS / READ_FILE
    try:
        found = msgspec.json.decode(file.read_bytes(), type=LiveRead)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, *NO_JSON) as error:
        raise SamplesError(f"{file}: {error}; expected what `analyze --prometheus` writes") from (
            error
        )
    if any("/" in name or not name.endswith(".parquet") for name in found.files):
        raise SamplesError(f"{file}: found names of other files, expected those of {READ_FOLDER}/")
    return found


def metric_files(run: Path | Location) -> list[Location]:
    """Returns the files with samples of a run folder; empty if there are none.

    Raises SamplesError, also if their folder is no folder, or can't be listed; LocationError.
    """
    folder = Location.of(run) / METRICS
    try:
        folder.check_listable()
    except OSError as error:
        raise SamplesError(f"{folder}: {error.strerror}") from error
    read = live_read(run)
    of_server = () if read is None else read.files
    return [*folder.listed(".parquet"), *(folder / READ_FOLDER / name for name in of_server)]
