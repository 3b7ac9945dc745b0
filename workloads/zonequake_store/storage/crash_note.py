"""The last output of a process that a signal ended, kept for the next process.

LMDB maps its files: a page that is damaged or cannot be read may end the process by SIGBUS or
SIGSEGV, without an exception that could be caught. Python's fault handler writes where it happened
into `<data>/CRASHED`; the next start finds it there and looks at the files before it maps them
(`storage`).
"""

from __future__ import annotations

import contextlib
import faulthandler
from pathlib import Path

FILE_NAME = "CRASHED"


def arm(directory: Path) -> None:
    """Makes a fatal signal write Python's tracebacks into the file; to stderr if the directory
    can't be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # Never closed: it is for the moment in which nothing can be opened any more.
        file = (directory / FILE_NAME).open("ab", buffering=0)
    except OSError:
        faulthandler.enable()
    else:
        faulthandler.enable(file=file)


def said(directory: Path) -> str | None:
    """Returns the output of the process before this one, if a signal ended it."""
    try:
        text = (directory / FILE_NAME).read_text(errors="replace").strip()
    except OSError:
        return None
    return text or None


def forget(directory: Path) -> None:
    """Empties the file, once its content was looked into."""
    with contextlib.suppress(OSError):
        (directory / FILE_NAME).write_bytes(b"")
