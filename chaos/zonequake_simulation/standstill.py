"""A paused process (SIGSTOP, a long pause): its input waits meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from zonequake_simulation.scenario import FaultKind
from zonequake_simulation.world import World


class Standstill:
    """The pause of one node, with any process that runs there."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._until_us = 0
        self._held: list[Callable[[], None]] = []

    def begin(self, for_us: int) -> None:
        """Pauses the process from now on, for at least this time."""
        self._until_us = max(self._until_us, self._world.now_us + for_us)

    def end(self) -> None:
        """Resumes the process at once, and delivers its waiting input."""
        self._until_us = 0
        self._go_on()

    def left_us(self) -> int:
        """Returns the remaining time of the pause, in µs."""
        left_us = max(0, self._until_us - self._world.now_us)
        if left_us:
            self._world.bites(FaultKind.STALL)
        return left_us

    def puts_off(self, call: Callable[[], None]) -> bool:
        """Returns whether the process is paused; then `call` is repeated when that should be
        over.
        """
        left_us = self.left_us()
        if left_us:
            self._world.later(left_us, call)
        return left_us > 0

    def holds(self, call: Callable[[], None]) -> bool:
        """Returns whether the process is paused; then `call` is repeated as soon as it resumes."""
        left_us = self.left_us()
        if left_us:
            self._held.append(call)
            self._world.later(left_us, self._go_on)
        return left_us > 0

    def _go_on(self) -> None:
        if self.puts_off(self._go_on):
            return
        held, self._held = self._held, []
        for call in held:
            call()
