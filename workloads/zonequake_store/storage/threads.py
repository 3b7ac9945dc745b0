"""Reading much of a state in a thread, beside the loop that serves every other replica."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

Read = TypeVar("Read")


async def read_in_thread(read: Callable[[], Read]) -> Read:
    """Runs `read` in a thread and returns its result.

    A cancellation takes effect when the thread has ended, not before: the caller closes the read
    transaction next, and the thread would go on in memory that is no longer there.
    """
    reading = asyncio.ensure_future(asyncio.to_thread(read))
    try:
        return await asyncio.shield(reading)
    finally:
        while not reading.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([reading])
