"""The harness's clocks, in one place; all other code takes a clock as an argument."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One instant: monotonic `time_ns` of the clock named `clock`, and unix `wall_ns`."""

    time_ns: int
    wall_ns: int
    clock: str


class RunClock(Protocol):
    """The source of instants."""

    def now(self) -> Moment: ...


class SystemClock:
    """This machine's clocks; the monotonic one is named by the boot id, as in the pods."""

    def __init__(self) -> None:
        self._name = _BOOT_ID.read_text().strip()

    def now(self) -> Moment:
        return Moment(time_ns=time.monotonic_ns(), wall_ns=time.time_ns(), clock=self._name)
