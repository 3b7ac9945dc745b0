"""Ends processes that aren't this program's children."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable

from zonequake_agent import pods

_PATIENCE_S = 5.0
"""Time for each signal: a delayer releases the packets that it holds, strace detaches from its
processes.
"""

_POLL_S = 0.02


def end(pids: Iterable[int]) -> set[int]:
    """Sends SIGTERM, then SIGKILL to processes that ignore it; returns those still running."""
    left = set(pids)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline_s = time.monotonic() + _PATIENCE_S
        while (left := {pid for pid in left if runs(pid)}) and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
    return left


def runs(pid: int) -> bool:
    """Returns whether the process still runs; False for a zombie, not yet reaped."""
    try:
        state = (pods.PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
