"""Sends the files of a run into its store while the run goes on.

    every few seconds: each file that is new, or has changed since it was sent ──▶ the store

A file is sent as a whole, as it is by then: no store lets one append. So files that grow are small,
or have an end and go on in a next one (`zonequake_chaos.load.histories`). Nothing depends on it: it
may fail for as long as the run lasts. `upload` then sends what is missing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from zonequake_analysis.errors import LocationError
from zonequake_analysis.storage import limits
from zonequake_analysis.storage.location import Location

PAUSE_S = 3.0
"""Shortest pause between two rounds."""

_MOST_PAUSE_S = 15.0
"""A pause is as long as the round before, between these two: what grows is sent again and again,
and must not take the network for itself."""

AT_ONCE = 4
"""Files that are sent at the same time: a run has many small ones."""


class FileState(NamedTuple):
    """Size and time of a file, which show that it has not changed."""

    size_bytes: int
    modified_ns: int


Sent = dict[str, FileState]
"""The files that a store has, by name, as they were when they were sent."""


def state_of(file: Path) -> FileState | None:
    """Returns the state of a file, None if there is no such file."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return FileState(found.st_size, found.st_mtime_ns)


def unchanged(folder: Path, store: Location, sent: Mapping[str, FileState]) -> set[str]:
    """Returns the names of the files that the store has as the folder has them by now.

    Asks the store, as one request that it served late may have replaced a file by its beginning.
    Raises LocationError.
    """
    if not sent:
        return set()
    there = store.sizes_below()
    return {
        name
        for name, state in sent.items()
        if there.get(name) == state.size_bytes and state_of(folder / name) == state
    }


@contextmanager
def streamed(
    folder: Path,
    store: Location,
    patterns: Sequence[str],
    *,
    sent: Sent,
    say: Callable[[str], None],
) -> Iterator[None]:
    """Sends the files of a folder that match, in a thread, and notes them in `sent`.

    At the end it waits for what is on its way: a request that were served later than those of
    `upload` would replace a file by its beginning. `say` is told when the store takes nothing, and
    when it does again.
    """
    ended = threading.Event()
    work = threading.Thread(
        target=_keep_sending,
        args=(folder, store, patterns, sent, say, ended),
        name="stream",
        daemon=True,
    )
    work.start()
    try:
        yield
    finally:
        ended.set()
        work.join()


def _keep_sending(
    folder: Path,
    store: Location,
    patterns: Sequence[str],
    sent: Sent,
    say: Callable[[str], None],
    ended: threading.Event,
) -> None:
    pause_s, failing = PAUSE_S, False
    while not ended.wait(pause_s):
        began_s = time.monotonic()
        try:
            _send_changed(folder, store, patterns, sent, ended)
        except (LocationError, OSError) as error:
            if not failing:
                say(f"not sent yet, and tried again while the run goes on: {error}")
            failing = True
        else:
            if failing:
                say(f"{store} takes files again")
            failing = False
        took_s = time.monotonic() - began_s
        pause_s = min(max(PAUSE_S, took_s), _MOST_PAUSE_S)


def _send_changed(
    folder: Path, store: Location, patterns: Sequence[str], sent: Sent, ended: threading.Event
) -> None:
    quick = replace(store, attempts=limits.FIRST_ATTEMPTS)  # the run's end waits for it

    def send(name: str) -> None:
        file = folder / name
        state = state_of(file)
        if state is None or sent.get(name) == state or ended.is_set():
            return
        (quick / name).copy_from(file)
        sent[name] = state

    with ThreadPoolExecutor(AT_ONCE, "stream") as pool:
        list(pool.map(send, _matching(folder, patterns)))


def _matching(folder: Path, patterns: Sequence[str]) -> list[str]:
    """Returns the plain files that match, but those whose names begin with a dot: drafts."""
    found = (file for pattern in patterns for file in sorted(folder.glob(pattern)))
    return [
        file.relative_to(folder).as_posix()
        for file in found
        if not file.name.startswith(".") and file.is_file() and not file.is_symlink()
    ]
