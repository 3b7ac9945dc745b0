"""Checks that all files of a run are there: a folder may be copied in part, or while it grows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from zonequake_analysis.storage.place import Place


def incomplete_files(run: Path | Place, files: Mapping[str, int]) -> list[str]:
    """Returns the files that are missing, or shorter than when the run ended.

    `files`: sizes in bytes by name, which the runner wrote into `run.yaml` at the very end. A
    longer file is complete: `zonequake clean` may add events. Raises PlaceError.
    """
    return [name for name, size_bytes in sorted(files.items()) if _size(run, name) < size_bytes]


def _size(run: Path | Place, name: str) -> int:
    """Returns the size in bytes; -1 if there is no such file, or no file can have that name."""
    try:
        return (Place.of(run) / name).size_bytes()
    except (OSError, ValueError):
        return -1
