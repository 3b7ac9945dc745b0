"""Planted faults that change what a replica answers (docs/interfaces.md).

`order-by-wall-clock` is a store that orders writes by wall clocks. Each write of a key gets the
time at which it came. One whose time is before that of an earlier one lost against it: it is
acknowledged and thrown away ("the last write wins"). As long as the clock only goes forward that is
the order in which they came, and no difference shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


class WallOrder:
    """The latest time of a write to each key of each group, of those that one node took."""

    def __init__(self, wall_ns: Callable[[], int]) -> None:
        self._wall_ns = wall_ns
        self._latest_ns: dict[tuple[str, str], int] = {}

    def is_late(self, group: str, key: str) -> bool:
        """Returns whether a write that comes now is older than one that came before it."""
        now_ns = self._wall_ns()
        latest_ns = self._latest_ns.get((group, key), now_ns)
        self._latest_ns[group, key] = max(now_ns, latest_ns)
        return now_ns < latest_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedFaults:
    """The planted faults of a replica."""

    acknowledge_before_commit: bool = False
    local_reads: bool = False
    forget_request_ids: bool = False
    wall_order: WallOrder | None = None
