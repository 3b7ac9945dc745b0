"""The format of what a data directory holds, in its file `FORMAT`: a whole number.

A release that changes how logs, records or state are stored counts up, and says in `CHANGELOG.md`
what it does with the one before. Directories of before there was the file have format 1.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from zonequake_store.errors import LaterFormat, StoreCorrupt

FORMAT = 1
"""The format that this program writes, and the latest that it reads."""

_FILE = "FORMAT"


def check_format(directory: Path) -> None:
    """Marks the directory with the present format if it has no mark.

    Raises LaterFormat if a later release wrote it, StoreCorrupt if the mark is no number.
    """
    file = directory / _FILE
    try:
        text = file.read_text().strip()
    except FileNotFoundError:
        text = ""
    if not text:  # never written, or cut short by a power loss as it was
        with contextlib.suppress(OSError):  # a full disk: the next start does it
            _write(file)
        return
    if not text.isascii() or not text.isdecimal():
        raise StoreCorrupt(
            f"{file} holds {text[:40]!r}, expected a number: look at the disk, then erase the data "
            f"directory {directory}, and the replicas come back from their peers"
        )
    if int(text) > FORMAT:
        raise LaterFormat(
            f"the data directory {directory} has format {text}, and this release reads up to "
            f"{FORMAT}: a later one wrote it. Start that one again, or erase the directory, and "
            "the replicas come back from their peers"
        )


def _write(file: Path) -> None:
    with file.open("w") as out:
        out.write(f"{FORMAT}\n")
        out.flush()
        os.fsync(out.fileno())
