"""SIGTERM ends an analysis with a sentence, and with a verdict if it held the folder.

The JVM ends first, and at once: asked to stop, it would write of each task that it gave up. The
process ends in the handler, since whatever is under way may wait for that JVM. An analysis by pods
has none here: it is cancelled, and deletes them.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from zonequake_analysis.errors import FolderHeld, LocationError
from zonequake_analysis.jvm import local_jvm
from zonequake_analysis.text.untrusted_text import one_line
from zonequake_analysis.verdict import EXIT_CODES, Verdict

if TYPE_CHECKING:
    from zonequake_analysis.judgement.one_analysis import AnalysisLock

WHY = "SIGTERM ended it"


@contextmanager
def calling_at_sigterm(end: Callable[[], object]) -> Iterator[None]:
    """Calls `end` at a SIGTERM inside; afterwards the signal does what it did before.

    `end` runs between any two instructions of the main thread. Does nothing in another thread: only
    the main one may choose what a signal does.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: end())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclass(slots=True, kw_only=True)
class EndedEarly:
    """An analysis that SIGTERM may end. `lock`: what it holds its folder by, from its begin on."""

    run: str
    lock: AnalysisLock | None = None

    def begin(self, lock: AnalysisLock) -> None:
        """Says by what the analysis will hold its folder."""
        self.lock = lock

    def at_sigterm(self) -> AbstractContextManager[None]:
        """Ends the process at a SIGTERM inside. For the main thread of a command."""
        return calling_at_sigterm(self._end)

    def _end(self) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            local_jvm.end()
            self._tell()
        finally:
            os._exit(EXIT_CODES[Verdict.HARNESS_FAILED])

    def _tell(self) -> None:
        if self.lock is None or not self.lock.held:
            _say(f"analyze {self.run}: {WHY} before it began; no verdict was written")
            return
        from zonequake_analysis.judgement.one_analysis import tell_broken_off

        name = self.lock.run.resolve().name
        _say(f"analyze {name}: {WHY}")
        try:
            tell_broken_off(self.lock, WHY)
        except (OSError, FolderHeld, LocationError) as error:
            _say(f"analyze {name}: no verdict can be written: {error}")
        self.lock.give_back()  # the process ends without any other end of it


def _say(text: str) -> None:
    """Writes past Python's buffers, which the signal may have found half written."""
    with suppress(OSError):
        os.write(2, f"{one_line(text)}\n".encode())
