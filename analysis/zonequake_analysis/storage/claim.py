"""A prefix of an object store that one analysis at a time holds, where no kernel has a lock.

Each analysis writes an object of its own, lists the others, and gives way if another one lives. If
two begin at once, each sees the other, as stores show at once what was written; then both may give
way. A live analysis writes its object again and again; a killed one counts as dead when its object
is old. Ages are compared between objects, by the store's clock alone.
"""

from __future__ import annotations

import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from zonequake_analysis.errors import FolderHeld, PlaceError
from zonequake_analysis.storage.place import Place

PREFIX = ".analysis-"
DEAD_AFTER_S = 120.0
"""An analysis whose object is older than this is dead."""

RENEW_S = 20.0
"""Time between two writes of an analysis's object."""


@contextmanager
def claimed_object(run: Place) -> Iterator[Callable[[], None]]:
    """Holds the prefix for one analysis.

    Yields a function that raises FolderHeld if another analysis may hold the prefix by now. Raises
    FolderHeld if another analysis holds it, and PlaceError.
    """
    own = run / f"{PREFIX}{uuid.uuid4().hex}"
    renewed_s = time.monotonic()
    own.write(_who())
    ended = threading.Event()

    def renew() -> None:
        nonlocal renewed_s
        while not ended.wait(RENEW_S):
            begun_s = time.monotonic()
            with suppress(PlaceError, OSError):
                own.write(_who())
                renewed_s = begun_s

    def still_ours() -> None:
        silent_s = time.monotonic() - renewed_s
        if silent_s > DEAD_AFTER_S:
            raise FolderHeld(
                f"{run}: this analysis could not tell for {silent_s:.0f} s that it lives, so "
                "another one may hold the run; try again"
            )

    keeper = threading.Thread(target=renew, name="claim", daemon=True)
    try:
        _give_way(run, own)
        keeper.start()
        yield still_ours
    finally:
        ended.set()
        if keeper.is_alive():
            keeper.join()  # it must not write the object again after its deletion
        with suppress(PlaceError, OSError):
            own.delete()


def _give_way(run: Place, own: Place) -> None:
    """Raises FolderHeld if another analysis lives; deletes the objects of dead ones."""
    claims = {name: at_s for name, at_s in run.modified_s().items() if name.startswith(PREFIX)}
    now_s = claims.pop(own.name, None)
    if now_s is None:
        raise PlaceError(f"{run}: the store doesn't list what was just written, {own.name}")
    for name, at_s in claims.items():
        if now_s - at_s <= DEAD_AFTER_S:
            raise FolderHeld(
                f"{run}: another process analyses it (it holds {name}); wait until it has ended, "
                f"or {DEAD_AFTER_S:.0f} s if it was killed, then try again"
            )
        (run / name).delete()


def _who() -> bytes:
    return f"{socket.gethostname()}\n".encode()
