"""An operator's calls that are under way: each is answered or fails, once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from zonequake_simulation.operated.event_loop import VirtualLoop
from zonequake_simulation.world import World

_T = TypeVar("_T")


class Calls:
    """The calls of one client that are under way."""

    def __init__(self, loop: VirtualLoop, world: World) -> None:
        self.loop = loop
        self.world = world
        self.open: dict[SimulatedCall[Any], None] = {}
        """Calls in the order in which they began."""

    def reset(self) -> None:
        """Breaks all connections."""
        for call in list(self.open):
            call.break_off("connection reset")


class SimulatedCall(Generic[_T]):
    """A call that fails with `error_of(reason)` after `timeout_s`, or when it is broken off."""

    def __init__(
        self, calls: Calls, *, timeout_s: float, error_of: Callable[[str], Exception]
    ) -> None:
        self._calls = calls
        self._error_of = error_of
        self.answered: asyncio.Future[_T] = calls.loop.create_future()
        self._timer = calls.world.later(int(timeout_s * 1e6), lambda: self.break_off("time-out"))
        calls.open[self] = None

    def answer(self, reply: _T) -> None:
        """Ends the call with its answer."""
        if self._ends():
            self.answered.set_result(reply)
            self._calls.loop.run_ready()

    def fail(self, error: Exception) -> None:
        """Ends the call with an error."""
        if self._ends():
            self.answered.set_exception(error)
            self._calls.loop.run_ready()

    def break_off(self, reason: str) -> None:
        """Ends the call without an answer."""
        self.fail(self._error_of(reason))

    def _ends(self) -> bool:
        """Ends the call; returns whether a caller still waits for it."""
        self._timer.cancel()
        self._calls.open.pop(self, None)
        return not self.answered.done()
