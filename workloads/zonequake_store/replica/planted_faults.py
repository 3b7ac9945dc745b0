"""What a store does that orders writes by wall clocks: the planted fault `order-by-wall-clock`.

Each write of a key gets the time at which it came. One whose time is before that of an earlier one
lost against it: it is acknowledged and thrown away ("the last write wins"). As long as the clock
only goes forward that is the order in which they came, and nobody sees a difference.
"""

from __future__ import annotations

from collections.abc import Callable


class WallOrder:
    """The latest time of a write to each key of each group, of those that one node took."""

    def __init__(self, wall_ns: Callable[[], int]) -> None:
        self._wall_ns = wall_ns
        self._latest_ns: dict[tuple[str, str], int] = {}

    def is_late(self, group: str, key: str) -> bool:
        """Whether a write that comes now is older than one that came before it."""
        now_ns = self._wall_ns()
        latest_ns = self._latest_ns.get((group, key), now_ns)
        self._latest_ns[group, key] = max(now_ns, latest_ns)
        return now_ns < latest_ns
