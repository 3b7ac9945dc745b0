"""Locks between processes without lock files: the lock is a folder that exists anyway."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_S = 0.1


@contextmanager
def lock_folder(folder: Path, *, wait_s: float) -> Iterator[bool]:
    """Locks the folder; yields whether that succeeded. The kernel ends the lock with its process.

    The former holder may have removed and created the folder again: the lock counts only if the
    path still leads to the locked folder, and is tried again otherwise.
    """
    deadline = time.monotonic() + wait_s
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if _try_lock(held):
                if _is_same(held, folder):
                    yield True
                    return
                continue
            if time.monotonic() >= deadline:
                yield False
                return
        finally:
            os.close(held)
        time.sleep(_POLL_S)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_same(descriptor: int, folder: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(folder))
    except FileNotFoundError:
        return False
