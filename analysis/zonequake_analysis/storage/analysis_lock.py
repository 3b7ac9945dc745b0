"""A prefix of an object store that one analysis at a time holds, where no kernel has a lock.

Each analysis writes an object of its own, lists the others, and gives way if another one lives. If
two begin at once, each sees the other, as stores show at once what was written; then both may give
way. A live analysis writes its object again and again; a killed one counts as dead when its object
is old. Ages are compared between objects, by the store's clock alone.

An analysis that was silent for so long never writes its object again, nor one that is gone: another
analysis may hold the prefix, and would be deceived.
"""

from __future__ import annotations

import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from zonequake_analysis.errors import FolderHeld, LocationError
from zonequake_analysis.storage.location import Location

PREFIX = ".analysis-"
DEAD_AFTER_S = 120.0
"""An analysis whose object is older than this is dead."""

RENEW_S = 20.0
"""Time between two writes of an analysis's object."""

GIVE_WAY_S = 5.0
"""Time that another analysis, which has just begun, gets to give way to this one."""


@contextmanager
def locked_prefix(run: Location) -> Iterator[Callable[[], None]]:
    """Holds the prefix for one analysis.

    Yields a function that raises FolderHeld if another analysis may hold the prefix by now, and
    LocationError. Raises FolderHeld if another analysis holds it, and LocationError.
    """
    lock = _LockObject(run)
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEW_S) and lock.renewed():
            pass

    keeper = threading.Thread(target=renew, name="lock", daemon=True)
    try:
        lock.begin()
        keeper.start()
        yield lock.check
    finally:
        ended.set()
        if keeper.is_alive():
            keeper.join()  # it must not write the object again after its deletion
        lock.give_back()


class _LockObject:
    """The object of one analysis, by which others see that it lives."""

    def __init__(self, run: Location) -> None:
        self._run = run
        self._own = run / f"{PREFIX}{uuid.uuid4().hex}"
        self._renewed_s = time.monotonic()
        self._lost = ""

    def begin(self) -> None:
        """Writes the object, and deletes those of dead analyses. Raises FolderHeld if another one
        lives, and LocationError.
        """
        self._own.write(_who())
        own_s, others = self._listed()
        if own_s is None:
            raise LocationError(
                f"{self._run}: the store doesn't list what was just written, {self._own.name}"
            )
        for name, at_s in others.items():
            if own_s - at_s <= DEAD_AFTER_S:
                raise FolderHeld(
                    f"{self._run}: another process analyses it (it holds {name}); wait until it "
                    f"has ended, or {DEAD_AFTER_S:.0f} s if it was killed, then try again"
                )
            (self._run / name).delete()

    def renewed(self) -> bool:
        """Writes the object again; returns False, for good, if another analysis may hold the
        prefix.
        """
        begun_s = time.monotonic()
        with suppress(LocationError, OSError):
            if self._is_ours() and not self._own.exists():
                self._lost = f"this analysis's {self._own.name} is gone"
            if self._is_ours():
                self._own.write(_who())
                if self._is_ours():
                    self._renewed_s = begun_s
                else:  # another analysis may have deleted it before that write was done
                    self._own.delete()
        return not self._lost

    def check(self) -> None:
        """Raises FolderHeld if another analysis may hold the prefix by now, and LocationError."""
        if self._is_ours() and (others := self._living()):
            time.sleep(GIVE_WAY_S)
            if stayed := sorted(others & self._living()):
                self._lost = f"another analysis has written {stayed[0]}"
        if not self._is_ours():
            raise FolderHeld(
                f"{self._run}: {self._lost}, so another one may hold the run; try again"
            )

    def give_back(self) -> None:
        """Deletes the object, if the store lets it."""
        with suppress(LocationError, OSError):
            self._own.delete()

    def _is_ours(self) -> bool:
        """Returns whether no other analysis can have taken the prefix, as far as is known here."""
        silent_s = time.monotonic() - self._renewed_s
        if not self._lost and silent_s > DEAD_AFTER_S:
            self._lost = f"this analysis could not tell for {silent_s:.0f} s that it lives"
        return not self._lost

    def _living(self) -> set[str]:
        """Returns the objects of other analyses that live; notes it if the own one is gone."""
        own_s, others = self._listed()
        if own_s is None:
            self._lost = f"this analysis's {self._own.name} is gone"
            return set()
        return {name for name, at_s in others.items() if own_s - at_s <= DEAD_AFTER_S}

    def _listed(self) -> tuple[float | None, dict[str, float]]:
        """Returns the time of the own object, None if it isn't there, and those of all others."""
        listed = self._run.modified_s().items()
        objects = {name: at_s for name, at_s in listed if name.startswith(PREFIX)}
        return objects.pop(self._own.name, None), objects


def _who() -> bytes:
    return f"{socket.gethostname()}\n".encode()
