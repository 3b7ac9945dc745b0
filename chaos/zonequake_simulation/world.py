"""Virtual time: a heap of events, seeded streams of randomness, counters and the trace.

Each kind of random choice has its own named stream, so that a change in one part of a run (such as
one fault fewer in the plan) changes the draws of the others as little as possible.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable

from zonequake_simulation.scenario import FaultKind
from zonequake_simulation.trace import TraceEvent, TraceKind


class VirtualTimer:
    """A future event. After `cancel` it never happens, and is no step."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """Cancels the event."""
        self.action = None


class World:
    """One seed's virtual time."""

    def __init__(self, seed: int, *, trace: bool = False) -> None:
        self.seed = seed
        self.now_us = 0
        self.steps = 0
        self.tally: Counter[str] = Counter()
        self.events: list[TraceEvent] = []
        self.tracing = trace
        self._heap: list[tuple[int, int, VirtualTimer]] = []
        self._order = 0

    @property
    def now_ms(self) -> float:
        """Virtual milliseconds since the start."""
        return self.now_us / 1000

    def stream(self, name: str) -> random.Random:
        """Returns the seed's stream of this name."""
        return random.Random(f"{self.seed}/{name}")  # noqa: S311

    def later(self, delay_us: int, action: Callable[[], None]) -> VirtualTimer:
        """Schedules `action` after a delay in µs. Equal times happen in the order of the calls."""
        timer = VirtualTimer(action)
        self._order += 1
        heapq.heappush(self._heap, (self.now_us + delay_us, self._order, timer))
        return timer

    def step(self) -> None:
        """Runs the next event."""
        while True:
            self.now_us, _, timer = heapq.heappop(self._heap)
            if timer.action is not None:
                break
        self.steps += 1
        timer.action()

    def bites(self, fault: FaultKind) -> None:
        """Takes note that a fault changed the course of the run."""
        self.tally[f"bites {fault.value}"] += 1

    def note(
        self,
        kind: TraceKind,
        node: str = "",
        text: str = "",
        *,
        key: str | None = None,
        peer: str | None = None,
        since_us: int | None = None,
        term: int = 0,
        role: str = "",
    ) -> None:
        """Writes an event into the trace; test `tracing` first if the text is expensive."""
        if self.tracing:
            self.events.append(
                TraceEvent(
                    time_ms=self.now_us // 1000,
                    node=node,
                    kind=kind,
                    text=text,
                    key=key,
                    peer=peer,
                    since_ms=None if since_us is None else since_us // 1000,
                    term=term,
                    role=role,
                )
            )
