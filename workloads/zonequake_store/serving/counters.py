"""Counters of a node, which its metrics show."""

from __future__ import annotations

from dataclasses import dataclass, field

from zonequake_store.replica.writes import AnsweredWrites
from zonequake_store.serving.durations import Durations


@dataclass(slots=True)
class Counters:
    """The node's counters since its start.

    `request_times`: of clients' requests, from their frame to their answer.
    `removed_catch_up_bytes`: what replicas that don't run any more sent to catching-up peers.
    `answered`: the writes that were answered, by zone.
    """

    turns: int = 0
    writes_applied: int = 0
    requests: int = 0
    frames_dropped: int = 0
    removed_catch_up_bytes: int = 0
    request_times: Durations = field(default_factory=Durations)
    loop_lag_s: float = 0.0
    longest_loop_lag_s: float = 0.0
    answered: dict[str, AnsweredWrites] = field(default_factory=dict)

    def lagged(self, lag_s: float) -> None:
        """Records that a tick came so much late."""
        self.loop_lag_s = lag_s
        self.longest_loop_lag_s = max(self.longest_loop_lag_s, lag_s)
