"""The clock of Leases and bounded reads: unlike the loop's, it goes on while the machine sleeps."""

from __future__ import annotations

import time


def boottime_s() -> float:
    """Seconds since the machine was started, or since some moment where that isn't known."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)
