"""The files of a run as they were recorded: listed once, and checked that all are there, and read.

A folder may be copied in part, or while it grows, and a history may have files of other names.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from zonequake_analysis.errors import RunFolderError
from zonequake_analysis.inputs.prometheus.sample_files import METRICS, READ_FOLDER
from zonequake_analysis.inputs.run_folder import RunDescription, read_description
from zonequake_analysis.storage.location import Location

_DRAFT = re.compile(r"(^|/)\.|\.jsonl\.[0-9a-f]{16}$")
"""A file that is being written, or was when its writer was killed: hidden, or a store's."""

_PIECE = re.compile(r"(.+-\d+-(?:load|probe))(?:\.(\d{4,6}))?\.jsonl")
"""A piece of what a process of the load wrote; the first one has no number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Histories:
    """The files in `history`. `unread`: those that hold anything and aren't read, by their names in
    the run; `lacking`: pieces that aren't there, though a later one is.
    """

    files: tuple[Location, ...]
    size_bytes: int
    unread: tuple[str, ...]
    lacking: tuple[str, ...] = ()


@dataclass(frozen=True)
class RecordedRun:
    """A run folder, each part of which is looked at when it is asked for, and once."""

    location: Location

    @classmethod
    def of(cls, run: Path | str | Location | RecordedRun) -> RecordedRun:
        """Returns the record of a folder; one that has been looked at stays as it is."""
        return run if isinstance(run, RecordedRun) else cls(Location.of(run))

    @cached_property
    def description(self) -> RunDescription:
        """The content of `run.yaml`. Raises RunFolderError."""
        return read_description(self.location)

    @cached_property
    def histories(self) -> Histories:
        """The files in `history`. Raises RunFolderError if none can be read, or one can't."""
        return histories(self.location)

    @cached_property
    def incomplete(self) -> list[str]:
        """The files that are missing, or shorter than when the run ended. Raises RunFolderError."""
        recorded = incomplete_files(self.location, self.description.files)
        return sorted({*recorded, *self.histories.lacking})

    @cached_property
    def metrics_bytes(self) -> int:
        """The size of all files with samples. Raises LocationError."""
        sizes = (self.location / METRICS).sizes_below()
        below = f"{READ_FOLDER}/"
        return sum(
            size for name, size in sizes.items() if _directly(name.removeprefix(below), ".parquet")
        )


def histories(run: Path | Location) -> Histories:
    """Lists the folder `history` of a run.

    Raises RunFolderError if it has no file to read, or one that is no file or can't be read.
    """
    folder = Location.of(run) / "history"
    if folder.local is not None:  # a store holds only plain files
        for file in folder.listed(".jsonl"):
            _check_plain(Path(file.path))
    sizes = folder.sizes_below()
    read = sorted(name for name in sizes if _directly(name, ".jsonl"))
    if not read:
        raise RunFolderError(
            f"found no file {folder}/*.jsonl; a run folder needs at least its histories"
        )
    return Histories(
        files=tuple(folder / name for name in read),
        size_bytes=sum(sizes[name] for name in read),
        unread=tuple(
            f"history/{name}"
            for name, size_bytes in sorted(sizes.items())
            if size_bytes and not _directly(name, ".jsonl") and not _DRAFT.search(name)
        ),
        lacking=tuple(f"history/{name}" for name in _lacking_pieces(read)),
    )


def _lacking_pieces(names: Sequence[str]) -> list[str]:
    """Returns the pieces that were written before one of these, and aren't among them."""
    return sorted(followed_pieces(names).difference(names))


def followed_pieces(names: Iterable[str]) -> set[str]:
    """Returns the pieces that were written before one of these: each ends with a line."""
    last: dict[str, int] = {}
    for piece in filter(None, map(_PIECE.fullmatch, names)):
        last[piece[1]] = max(last.get(piece[1], 0), int(piece[2] or 0))
    return {
        f"{stem}{f'.{number:04}' if number else ''}.jsonl"
        for stem, newest in last.items()
        for number in range(newest)
    }


def _directly(name: str, ending: str) -> bool:
    return "/" not in name and name.endswith(ending) and not name.startswith(".")


def _check_plain(file: Path) -> None:
    try:
        kind = file.stat().st_mode
        if stat.S_ISREG(kind):
            file.open("rb").close()
    except OSError as error:
        raise RunFolderError(f"{file}: {error.strerror}; expected a file to read") from error
    if not stat.S_ISREG(kind):
        raise RunFolderError(f"{file}: found no plain file, expected one of JSON lines")


def incomplete_files(run: Path | Location, files: Mapping[str, int]) -> list[str]:
    """Returns the files that are missing, or shorter than when the run ended.

    `files`: sizes in bytes by name, which the runner wrote into `run.yaml` at the very end. A
    longer file is complete: `zonequake clean` may add events. Raises LocationError.
    """
    return [name for name, size_bytes in sorted(files.items()) if _size(run, name) < size_bytes]


def _size(run: Path | Location, name: str) -> int:
    """Returns the size in bytes; -1 if there is no such file, or no file can have that name."""
    try:
        return (Location.of(run) / name).size_bytes()
    except (OSError, ValueError):
        return -1
