"""Delays the packets of one pod, in a separate process inside the pod's network namespace.

It holds each packet in the kernel's queue for the fault's delay, and ends by itself at the fault's
deadline. After its end, even by SIGKILL, later packets pass at once; no connection is reset, since
none ends at the delayer.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import os
import random
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from zonequake_agent.link_fault import LinkFault
from zonequake_agent.queue_socket import HeldPacket, QueueSocket
from zonequake_agent.slow_line import SlowLine

STATE = Path(os.environ.get("ZQ_AGENT_STATE", "/run/zonequake-agent"))
_TELL_NS = 200_000_000


@dataclass(slots=True, kw_only=True)
class DelayCounts:
    """The delayer's counts so far: released packets, and the sum of the times it held them."""

    packets: int = 0
    held_ns: int = 0
    longest_ns: int = 0

    def let_go(self, held_ns: int) -> None:
        self.packets += 1
        self.held_ns += held_ns
        self.longest_ns = max(self.longest_ns, held_ns)

    def as_json(self) -> str:
        mean_ms = self.held_ns / self.packets / 1e6 if self.packets else 0.0
        return json.dumps(
            {
                "packets": self.packets,
                "mean_held_ms": round(mean_ms, 3),
                "longest_held_ms": round(self.longest_ns / 1e6, 3),
            }
        )


def state_file(name: str, uid: str) -> Path:
    """Returns the file in which the delayer of this fault at this pod counts."""
    return STATE / f"{name}-{uid}.json"


@dataclass(slots=True)
class Delayer:
    """The loop over one socket; `_held`: a heap of (release time, number, arrival time, packet)."""

    _queues: QueueSocket
    _lines: dict[int, SlowLine]
    _random: random.Random
    _held: list[tuple[int, int, int, HeldPacket]] = field(default_factory=list)
    told: DelayCounts = field(default_factory=DelayCounts)
    ended: bool = False

    def run(self, *, until_ns: int, tell: Callable[[str], None]) -> None:
        """Delays until the deadline (monotonic) or until `ended`, then releases all held
        packets."""
        told_ns = 0
        while not self.ended and (now_ns := time.monotonic_ns()) < until_ns:
            next_ns = min(until_ns, self._held[0][0] if self._held else until_ns)
            wait_s = min(max(next_ns - now_ns, 0), _TELL_NS) / 1e9
            with contextlib.suppress(InterruptedError):
                if select.select([self._queues], [], [], wait_s)[0]:
                    self._take()
            self._let_go(time.monotonic_ns())
            if now_ns - told_ns >= _TELL_NS:
                tell(self.told.as_json())
                told_ns = now_ns
        for _, _, _, packet in self._held:
            self._queues.accept(packet)

    def _take(self) -> None:
        now_ns = time.monotonic_ns()
        for packet in self._queues.receive():
            leaves_ns = self._lines[packet.queue].leaves_ns(
                now_ns=now_ns, size=packet.size, draw=self._random.uniform(-1, 1)
            )
            heapq.heappush(self._held, (leaves_ns, packet.number, now_ns, packet))

    def _let_go(self, now_ns: int) -> None:
        while self._held and self._held[0][0] <= now_ns:
            _, _, came_ns, packet = heapq.heappop(self._held)
            self._queues.accept(packet)
            self.told.let_go(now_ns - came_ns)


def delay(fault: LinkFault, uid: str, *, ready: int) -> None:
    """Runs a delayer to its end; writes a byte to the file descriptor `ready` once it listens.

    Raises QueueRefused.
    """
    queues = QueueSocket()
    lines = {}
    for number, wanted in ((fault.queue, fault.inbound), (fault.queue + 1, fault.outbound)):
        if wanted:
            queues.bind(number)
            lines[number] = SlowLine(
                delay_ms=fault.delay_ms,
                jitter_ms=fault.jitter_ms,
                bytes_per_second=fault.bytes_per_second,
            )
    delayer = Delayer(queues, lines, random.Random(fault.name))  # noqa: S311 - replayable

    def end(_number: int, _frame: object) -> None:
        delayer.ended = True

    signal.signal(signal.SIGTERM, end)
    STATE.mkdir(parents=True, exist_ok=True)
    file = state_file(fault.name, uid)
    file.write_text(delayer.told.as_json())
    os.write(ready, b".")
    os.close(ready)

    def tell(text: str) -> None:
        new = file.with_suffix(".new")
        new.write_text(text)
        new.replace(file)

    try:
        delayer.run(until_ns=time.monotonic_ns() + int(fault.seconds * 1e9), tell=tell)
    finally:
        file.unlink(missing_ok=True)
