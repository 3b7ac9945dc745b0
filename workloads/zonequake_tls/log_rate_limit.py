"""A rate limit on log lines caused by strangers: a few times a minute, counted beyond that."""

from __future__ import annotations

from collections.abc import Callable

MINUTE_S = 60.0


class LogRateLimit:
    """At most `most` a minute. `held(count)` is called once a minute is over in which there were
    more, with how many weren't said."""

    def __init__(
        self, most: int, *, now_s: Callable[[], float], held: Callable[[int], None]
    ) -> None:
        self._most = most
        self._now_s = now_s
        self._tell_held = held
        self._minute_s = float("-inf")
        self._passed = 0
        self._held = 0

    def passes(self) -> bool:
        """Returns whether one more may be said now."""
        self.tick()
        if self._passed >= self._most:
            self._held += 1
            return False
        self._passed += 1
        return True

    def tick(self) -> None:
        """Reports the lines held back, once their minute is over."""
        now_s = self._now_s()
        if now_s - self._minute_s < MINUTE_S:
            return
        held, self._held = self._held, 0
        self._minute_s, self._passed = now_s, 0
        if held:
            self._tell_held(held)
