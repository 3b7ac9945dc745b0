"""Waiting for scheduled times, interruptibly."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from zonequake_load.pod.history import HistoryClock

NAP_S = 0.05
"""The longest sleep: a stop is noticed within it, without a waiter for each operation."""


@dataclass(slots=True)
class StopSignal:
    """Tells a phase to begin nothing more and to end."""

    asked: bool = False


async def sleep_until(due_ns: int, clock: HistoryClock, stop: StopSignal) -> bool:
    """Sleep until the monotonic time `due_ns`; False if a stop was asked for first.

    Yields to others at least once, however late it is.
    """
    await asyncio.sleep(0)
    while not stop.asked:
        left_s = (due_ns - clock.monotonic_ns()) / 1e9
        if left_s <= 0:
            return True
        await asyncio.sleep(min(left_s, NAP_S))
    return False
