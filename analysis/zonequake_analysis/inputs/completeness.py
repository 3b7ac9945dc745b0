"""Checks that all files of a run are there, and read: a folder may be copied in part, or while it
grows, and a history may have files of other names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from zonequake_analysis.storage.place import Place

_DRAFT = re.compile(r"(^|/)\.|\.jsonl\.[0-9a-f]{16}$")
"""A file that is being written, or was when its writer was killed: hidden, or a store's."""


def incomplete_files(run: Path | Place, files: Mapping[str, int]) -> list[str]:
    """Returns the files that are missing, or shorter than when the run ended.

    `files`: sizes in bytes by name, which the runner wrote into `run.yaml` at the very end. A
    longer file is complete: `zonequake clean` may add events. Raises PlaceError.
    """
    return [name for name, size_bytes in sorted(files.items()) if _size(run, name) < size_bytes]


def unread_histories(run: Path | Place) -> list[str]:
    """Returns the files in and below `history` that hold anything and aren't read as a history.

    Drafts are left out. It lists the folder once. Raises OSError, PlaceError.
    """
    sizes = (Place.of(run) / "history").sizes_below()
    return [
        f"history/{name}"
        for name, size_bytes in sorted(sizes.items())
        if size_bytes and ("/" in name or not name.endswith(".jsonl")) and not _DRAFT.search(name)
    ]


def _size(run: Path | Place, name: str) -> int:
    """Returns the size in bytes; -1 if there is no such file, or no file can have that name."""
    try:
        return (Place.of(run) / name).size_bytes()
    except (OSError, ValueError):
        return -1
