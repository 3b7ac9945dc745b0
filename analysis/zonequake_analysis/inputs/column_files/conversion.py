"""Writes the column files of histories."""

from __future__ import annotations

from collections.abc import Mapping

from zonequake_analysis.inputs.column_files.one_range import ENDING, FOLDER, encoded, name_of
from zonequake_analysis.inputs.lines import RANGE_BYTES, byte_ranges
from zonequake_analysis.storage.location import Location


def column_files(run: Location) -> Mapping[str, Location]:
    """Returns the column files of a run, by name. Raises LocationError."""
    return {file.name: file for file in (run / FOLDER).resolve().listed(ENDING)}


def convert(history: Location, folder: Location, *, range_bytes: int = RANGE_BYTES) -> int:
    """Writes the column files of a history file into a folder; returns their bytes.

    Each appears whole, or not at all. Raises OSError, LocationError.
    """
    size_bytes = 0
    folder.make_folder()
    for part in byte_ranges([history], range_bytes):
        content = encoded(part)
        (folder / name_of(part)).write(content)
        size_bytes += len(content)
    return size_bytes
