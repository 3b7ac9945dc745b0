"""Whether all that a run left is there: a folder may be copied in part, or while it grows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from zonequake_analysis.storage.place import Place


def incomplete_files(run: Path | Place, files: Mapping[str, int]) -> list[str]:
    """The files that are missing, or shorter than when the run ended.

    `files`: sizes in bytes by name, as the runner wrote them last of all into `run.yaml`. A longer
    file is none: `zonequake clean` may add events. Raises PlaceError.
    """
    return [name for name, size_bytes in sorted(files.items()) if _size(run, name) < size_bytes]


def _size(run: Path | Place, name: str) -> int:
    """The size in bytes; -1 where there is no such file, or can't be one of that name."""
    try:
        return (Place.of(run) / name).size_bytes()
    except (OSError, ValueError):
        return -1
