"""An asyncio event loop in virtual time, so that the operator's own coroutines run in a simulation.

It runs the ready callbacks, one after the other, inside one event of the world, and uses the
world's time. A killed process never runs again, whatever it was doing; a paused one runs the missed
callbacks later.
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import Any, TypeVar, cast

from zonequake_simulation.world import VirtualTimer, World

_T = TypeVar("_T")

_FEW = 32
_AWAITS_WHILE_CLOSED = 8


class VirtualLoop:
    """The loop of one process: the part that asyncio's tasks, futures and time-outs need."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._me = cast("asyncio.AbstractEventLoop", self)
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: dict[int, tuple[asyncio.TimerHandle, VirtualTimer]] = {}
        self._runs = False
        self._is_due = False
        self._paused = False
        self._killed = False
        self._tasks: list[asyncio.Task[Any]] = []
        """Unfinished tasks, and some finished ones."""
        self._pending = _FEW
        self.failure: BaseException | None = None
        """The exception of a callback that no task awaited."""

    def time(self) -> float:
        """Returns virtual seconds."""
        return self._world.now_us / 1e6

    # ── the process ──────────────────────────────────────────────────────────────────────────

    def kill(self) -> None:
        """Ends the process: nothing runs any more."""
        self._killed = True
        self._ready.clear()
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if not self._runs:
            self._close_coroutines()

    def pause(self) -> None:
        """Pauses the process: nothing runs until `resume`."""
        self._paused = True

    def resume(self) -> None:
        """Resumes with the callbacks that became ready meanwhile."""
        self._paused = False
        self.run_ready()

    def run_ready(self) -> None:
        """Runs all ready callbacks, and those that become ready meanwhile."""
        self._is_due = False
        if self._paused or self._killed or self._runs:
            return
        outside = events._get_running_loop()
        events._set_running_loop(self._me)
        self._runs = True
        try:
            while self._ready:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            self._runs = False
            events._set_running_loop(outside)
        if self._killed:
            self._close_coroutines()

    def _close_coroutines(self) -> None:
        """Closes suspended coroutines in order of their start. The garbage collector would close
        them at any moment of a later seed, and CPython 3.11.2 crashes at that now and then.
        """
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            for _ in range(_AWAITS_WHILE_CLOSED):
                with suppress(BaseException):  # of a process that has ended
                    task.get_coro().close()
                    break

    # ── what asyncio asks for ────────────────────────────────────────────────────────────────

    def call_soon(
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.Handle:
        """Runs a callback in this event of the world, or in one that follows at once."""
        handle = asyncio.Handle(callback, args, self._me, context)
        if not self._killed:
            self._ready.append(handle)
            if not self._runs and not self._is_due:
                self._is_due = True
                self._world.later(0, self.run_ready)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: object,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Runs a callback after `delay` seconds."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: object,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Runs a callback at a time."""
        handle = asyncio.TimerHandle(when, callback, args, self._me, context)
        if not self._killed:
            delay_us = max(0, round(when * 1e6) - self._world.now_us)
            timer = self._world.later(delay_us, partial(self._fire, handle))
            self._timers[id(handle)] = handle, timer
            handle._scheduled = True  # type: ignore[attr-defined]
        return handle

    def _fire(self, handle: asyncio.TimerHandle) -> None:
        del self._timers[id(handle)]
        handle._scheduled = False  # type: ignore[attr-defined]
        self._ready.append(handle)
        self.run_ready()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        found = self._timers.pop(id(handle), None)
        if found is not None:
            found[1].cancel()

    def create_future(self) -> asyncio.Future[Any]:
        """Returns a future of this loop."""
        return asyncio.Future(loop=self._me)

    def create_task(
        self,
        coro: Coroutine[Any, Any, _T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[_T]:
        """Returns a task of this loop."""
        task = asyncio.Task(coro, loop=self._me, name=name, context=context)
        if len(self._tasks) >= 2 * self._pending:
            self._tasks = [known for known in self._tasks if not known.done()]
            self._pending = max(_FEW, len(self._tasks))
        self._tasks.append(task)
        return task

    def get_debug(self) -> bool:
        """Returns False: the loop never runs in debug mode."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Takes an error that no task awaited."""
        error = context.get("exception")
        if error is not None and not self._killed:
            self.failure = error
