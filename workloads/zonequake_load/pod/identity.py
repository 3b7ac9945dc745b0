"""Numbers that are unique in a run: process ids and written values, over pods and restarts.

Both are `ordinal (6 bits) | incarnation (21 bits) | counter (26 bits)`: 53 bits, so that even a
reader with doubles sees them exactly. The incarnation of a load process is the unix time of its
start in seconds, modulo 2**21 (24 days), and always above the last one kept on disk. It is no
plain restart counter, because a counter starts again when a pod comes back with an empty disk, and
values written twice would look like a store that duplicates.
"""

from __future__ import annotations

import errno
import itertools
import os
from pathlib import Path

from zonequake_load.errors import IdentityError

ORDINAL_BITS = 6
INCARNATION_BITS = 21
COUNTER_BITS = 26

INCARNATION_FILE = "incarnation"


class Numbers:
    """Gives out process ids and values of one incarnation of one load pod. None is ever 0."""

    def __init__(self, ordinal: int, incarnation: int) -> None:
        if not 0 <= ordinal < 1 << ORDINAL_BITS:
            raise IdentityError(
                f"found pod ordinal {ordinal}, expected 0..{(1 << ORDINAL_BITS) - 1}"
            )
        assert 0 <= incarnation < 1 << INCARNATION_BITS
        self._base = (ordinal << INCARNATION_BITS | incarnation) << COUNTER_BITS
        self._processes = itertools.count(1)
        self._values = itertools.count(1)

    def next_process(self) -> int:
        """Raises IdentityError when all are used up."""
        return self._next(self._processes)

    def next_value(self) -> int:
        """Raises IdentityError when all are used up."""
        return self._next(self._values)

    def _next(self, counter: itertools.count[int]) -> int:
        number = next(counter)
        if number >> COUNTER_BITS:
            raise IdentityError(
                f"{1 << COUNTER_BITS} numbers of this load process are used up; restart the pod "
                "to go on with fresh ones"
            )
        return self._base | number


def incarnation_after(last: int | None, unix_s: int) -> int:
    """Returns the incarnation of a process that starts at `unix_s`; `last` is the one before, if
    known.
    """
    size = 1 << INCARNATION_BITS
    now = unix_s % size
    if last is not None and (last - now) % size < size // 2:  # clock stood still or went back
        return (last + 1) % size
    return now


def begin_incarnation(directory: Path, unix_s: int) -> int:
    """Take the next incarnation, kept in `directory` before it is used.

    Raises:
        IdentityError: what is kept there is no number, or it can't be kept.
    """
    path = directory / INCARNATION_FILE
    try:
        text = path.read_text() if path.exists() else None
        last = None if text is None else int(text)
        incarnation = incarnation_after(last, unix_s)
        replace_file(path, f"{incarnation}\n".encode())
    except (OSError, ValueError) as error:
        raise IdentityError(f"cannot keep the incarnation in {path}: {error}") from error
    return incarnation


def replace_file(path: Path, content: bytes) -> None:
    """Write `content` to `path`; a crash leaves the old content or the new. So does a full disk,
    which may take a part without an error. Raises OSError.
    """
    draft = path.with_name(path.name + ".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        if (written := os.write(descriptor, content)) < len(content):
            raise OSError(errno.ENOSPC, f"{written} of {len(content)} bytes written", str(draft))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
