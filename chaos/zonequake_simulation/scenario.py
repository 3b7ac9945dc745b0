"""The parts of a kind of run: nodes, groups, clients, faults and how often they come."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from zonequake_store.raft.api import RaftSettings

STEPS = 1_500


class FaultKind(enum.StrEnum):
    """A fault, or a request at a bad moment."""

    CRASH = "crash"
    CRASH_WRITING = "crash-writing"  # while the node's next write is under way
    ISOLATE = "isolate"  # nothing to it and from it
    DEAF = "deaf"  # nothing reaches it, what it says is heard
    MUTE = "mute"  # it hears, nothing leaves it
    SPLIT = "split"  # the nodes in two parts
    LEAK = "leak"  # in two parts, one of which still receives from the other
    STORM = "storm"  # much is lost, duplicated and late
    STALL = "stall"  # the process stands still, as under SIGSTOP
    SLOW_DISK = "slow-disk"
    FAILED_SYNC = "failed-sync"
    FULL_DISK = "full-disk"
    FULL_MAP = "full-map"  # of the log, or of the state
    TORN_TAIL = "torn-tail"  # only the beginning of a log's newest record is there
    ROT = "rot"  # a bit of the log flips while its node is down
    WIPE = "wipe"  # the node's storage is gone, and comes back empty
    TRANSFER = "transfer"  # leadership is handed over
    REFUSE = "refuse"  # a node drains: it leads nothing
    COMPACT = "compact"
    UNREACHABLE = "unreachable"  # a transport reports that it dropped something
    WISH = "wish"  # the operator wants another set of peers
    STRIKE = "strike"  # the leader is hit right after the next grant
    BLACKOUT = "blackout"  # a majority is cut off from all others and from the API server
    MASSACRE = "massacre"  # a majority dies at once
    API_OUTAGE = "api-outage"  # the API server is reachable from nowhere
    DECISION = "decision"  # a leader is hit right when a transaction takes its next step
    LAG = "lag"  # a node is down for long, and the logs of all others are cut off before its end
    BREAK_OFF = "break-off"  # an end of a coming frame of catch-up dies
    OPERATOR_CRASH = "operator-crash"
    OPERATOR_CRASH_WRITING = "operator-crash-writing"  # before or after one of its next writes
    OPERATOR_PAUSE = "operator-pause"  # as under SIGSTOP; sometimes another one works meanwhile
    API_OUT = "api-out"  # no answer to an operator's calls
    API_ERRORS = "api-errors"  # 500, before or after the request had its effect
    API_STALE = "api-stale"  # watch events reach an operator late, and so do answers to it
    POD_DELETED = "pod-deleted"  # its object is gone before its process is
    STANDSTILL = "standstill"  # all nodes stop, one after another, and come back in another order


SMALL = RaftSettings(
    election_ticks=5,
    max_append_bytes=64,
    max_in_flight_appends=4,
    max_apply_bytes=160,
    cached_bytes=120,
    catch_up_margin_entries=6,
    catch_up_silence_ticks=40,
)
"""Limits so small that each of them is reached all the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A kind of run; times in virtual ms. `faults`: kinds with their weights.

    Of `nodes`, the first `members` (drawn, if there are several) are each group's first peers; the
    operator's wishes go over all of them. `lost` and `slowest_us` are drawn from for each seed.
    """

    name: str
    nodes: int = 3
    members: tuple[int, ...] = (3,)
    groups: int = 1
    processes: int = 4
    pause_ms: int = 250
    settings: RaftSettings = SMALL
    is_volatile: bool = False
    transactions: float = 0.0
    """Share of transactions among the clients' operations."""
    lease_ms: int = 0
    """Duration of the nodes' Leases, without which nothing is acknowledged; 0: no Leases, and no
    resets.
    """
    cancels: float = 0.0
    """Share of the operator's looks at a running catch-up at which it is cancelled."""
    drift: float = 0.02
    lost: tuple[float, ...] = (0.0, 0.02, 0.15)
    doubled: tuple[float, ...] = (0.0, 0.05)
    slowest_us: tuple[int, ...] = (2_000, 20_000, 150_000)
    is_operated: bool = False
    """The real operator runs, over a simulated API server and pods; wishes are changes of the zone.
    """
    is_highly_available: bool = False
    """The zone's consistency mode."""
    watch_loss: float = 0.1
    """Share of an operator's watch events that never come."""
    steps: int = STEPS
    """Events with faults, before everything must settle."""
    faults: Mapping[FaultKind, int] = field(default_factory=dict)
    least_gap_ms: int = 50
    most_gap_ms: int = 1_000
    horizon_ms: int = 60_000
    settle_ms: int = 60_000
