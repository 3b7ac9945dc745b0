"""Gives memory that strangers' connections used back to the machine.

The C library keeps what is freed in pieces, and OpenSSL's go between longer-lived ones: without
this a node that was called by some thousands, with or without a handshake, stays 100 MB larger, and
grows further with each such crowd. Large buffers stay, too, once one of them was freed:
`M_MMAP_THRESHOLD` in mallopt(3). A request that could not be read leaves its connection in a cycle
of Python's, and with it what OpenSSL had for it; a node collects seldom.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable

_EVERY_S = 10.0
_WORTH = 256
"""Connections: some ten megabytes. Giving back takes milliseconds."""


_YOUNG = 1
"""The youngest generations, where strangers' connections are: the rest takes long to look through.
"""


def give_back() -> None:
    """Collects what is young, and has glibc hand back what is free; other C libraries do that by
    themselves, or never."""
    gc.collect(_YOUNG)
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


_M_MMAP_THRESHOLD = -3
_LARGE_BYTES = 1 << 20


def map_large_buffers() -> None:
    """Makes glibc map each large buffer by itself forever, so that freeing it gives it back."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


class MemoryTrim:
    """Gives back after `_WORTH` connections, and once more when the last of them have gone; at most
    every ten seconds."""

    def __init__(
        self, *, now_s: Callable[[], float], give_back: Callable[[], None] = give_back
    ) -> None:
        self._now_s = now_s
        self._give_back = give_back
        self._used = 0
        self._last_s = float("-inf")
        self._once_more = False

    def used(self) -> None:
        """Records that there was one more connection."""
        self._used += 1

    def tick(self) -> None:
        """Gives memory back, if the last time is long ago and connections have used some."""
        now_s = self._now_s()
        if now_s - self._last_s < _EVERY_S:
            return
        if self._used >= _WORTH or self._once_more:
            self._once_more = self._used >= _WORTH
            self._used, self._last_s = 0, now_s
            self._give_back()
