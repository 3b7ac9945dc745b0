"""The interface of host and Raft core: settings, the stored log, Ready, status, events.

The host drives the core from one thread:

    tick / step / propose / …  →  has_ready()  →  ready()
        send `messages` at once
        install `snapshot`, store `entries` and `hard_state`, durably, in one write
        stored(ready), then send `messages_after_store`
        apply `committed` in order, then applied(index)
        answer `reads` once applied ≥ their index, fail `aborted_reads`
        supply `supplies` as they demand, keep `events`

At most one Ready is outstanding until its stored(). Nothing here takes time, randomness or I/O.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Protocol

import msgspec

from zonequake_protocol.admin import ReconfigurationStatus, Stage
from zonequake_store.raft.messages import (
    Configuration,
    Entry,
    HardState,
    Message,
    Peer,
    SnapshotMeta,
)

JOINT_BEFORE_CAUGHT_UP = "joint-before-caught-up"
"""Planted fault: a change goes to JOINT at once, without catch-up and without a grant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftSettings:
    """The settings of one group's replicas. All replicas of a group should have the same."""

    tick_s: float = 0.1
    """The duration of one tick(): it refills the catch-up rate limit."""
    election_ticks: int = 10
    """Shortest election time-out; each one is this plus random(this). Also check-quorum's."""
    heartbeat_ticks: int = 1
    max_append_bytes: int = 256 * 1024
    """Entry data in one APPEND; one entry always fits."""
    max_in_flight_appends: int = 64
    """Unanswered APPENDs to one replicating peer."""
    max_apply_bytes: int = 1024 * 1024
    """Entry data in `Ready.committed`; more comes in the next Ready."""
    cached_bytes: int = 1024 * 1024
    """Stored entries kept in memory per group, so that followers in step cost no read."""
    catch_up_margin_entries: int = 1000
    """A catching-up peer must be this near to the end of the leader's log to be caught up."""
    catch_up_silence_ticks: int = 100
    """A catching-up peer that says nothing for so long ends the change with an error."""
    catch_up_bytes_per_second: int = 0
    """Rate limit of what one leader supplies to all its catching-up peers; 0: unlimited."""
    planted: frozenset[str] = frozenset()
    """Planted faults, for tests that must fail: `JOINT_BEFORE_CAUGHT_UP`."""


class LogReader(Protocol):
    """Reads one replica's stored log; the core never writes it.

    The entries first_index..last_index are there, and the term of first_index - 1. An empty log has
    last_index = first_index - 1 (0 before the first entry).
    """

    @property
    def first_index(self) -> int: ...

    @property
    def last_index(self) -> int: ...

    @property
    def snapshot(self) -> SnapshotMeta | None:
        """The point up to which the log was compacted or installed; None: it starts at 1."""
        ...

    def term(self, index: int) -> int:
        """Term of entry `index`, first_index - 1 ≤ index ≤ last_index; 0 for index 0."""
        ...

    def entries(self, lo: int, hi: int, max_bytes: int) -> list[Entry]:
        """Entries lo..hi - 1, at least one, then only while their data fits in `max_bytes`."""
        ...

    def bytes_behind(self, index: int) -> int:
        """Returns the bytes of the stored entries after `index`, in whole records; for progress
        only.
        """
        ...

    def configurations(self) -> list[tuple[int, Configuration]]:
        """Every stored configuration with its index, the snapshot's first, ascending."""
        ...


class RaftRole(enum.StrEnum):
    """The role of a replica in its term."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre_candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


class ChangePeersAnswer(enum.StrEnum):
    """Answer to change_peers; the values are those of `OrderStatus` in the protocol."""

    RECEIVED = "received"
    BUSY = "busy"
    STALE = "stale"
    NOT_LEADER = "not_leader"


class CancelAnswer(enum.StrEnum):
    """Answer to cancel_change_peers; the values are those of `OrderStatus` in the protocol.

    The document's true is `received` (nothing runs, or catch-up was cancelled), its false `busy`
    (the change is past CATCHING_UP and goes on).
    """

    RECEIVED = "received"
    BUSY = "busy"
    STALE = "stale"
    NOT_LEADER = "not_leader"


class ResetAnswer(enum.StrEnum):
    """Answer to reset_peers; the values are those of `OrderStatus` in the protocol.

    `busy`: this replica hears a leader, leads, or installs a snapshot; repeat it later. A leader
    without a quorum steps down within two election time-outs.
    """

    RECEIVED = "received"
    BUSY = "busy"
    STALE = "stale"


class GrantAnswer(enum.StrEnum):
    """Answer to grant; the values are those of `OrderStatus` in the protocol.

    `busy`: the change runs, but its peers are not caught up (any more); repeat it later.
    """

    RECEIVED = "received"
    BUSY = "busy"
    STALE = "stale"
    NOT_LEADER = "not_leader"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerProgress:
    """The progress of one catching-up peer; `fraction` in 0..1 never falls within one attempt.

    `bytes_done` of `bytes_total`: of the transfer that runs, the log's or the snapshot's.
    """

    peer: Peer
    fraction: float
    bytes_sent: int
    bytes_done: int
    bytes_total: int
    match_index: int
    by_snapshot: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChanged:
    """This replica follows `leader` now, or none."""

    leader: Peer | None
    term: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElected:
    """This replica leads and its first own entry is committed (onLeaderElected)."""

    term: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageBegun:
    """This replica was reset and leads alone: its log ended at (`last_term`, `last_index`).

    What the old lineage has after that place is sacrificed. Reported before the first entry is
    stored, so a survivor that crashes in between may report it again.
    """

    term: int
    last_term: int
    last_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageChanged:
    """A configuration change entered `stage`, or (`caught_up`) waits for its grant in it.

    `adding`: peers that were not members before. `reason`, `status`: why it is NONE without being
    done.
    """

    stage: Stage
    token: int
    peers: tuple[Peer, ...]
    adding: tuple[Peer, ...]
    caught_up: bool = False
    reason: str | None = None
    status: ReconfigurationStatus | None = None
    progress: tuple[PeerProgress, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationApplied:
    """A final configuration is committed (onNewPeersConfigurationApplied); may come repeatedly."""

    peers: tuple[Peer, ...]
    term: int
    index: int
    token: int
    lineage: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconfigurationError:
    """A change went back to NONE (onReconfigurationError): `status` for programs, `reason` for
    people."""

    status: ReconfigurationStatus
    reason: str
    token: int


RaftEvent = (
    LeaderChanged
    | LeaderElected
    | LineageBegun
    | StageChanged
    | ConfigurationApplied
    | ReconfigurationError
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadState:
    """Read `request` may be answered from any state with applied ≥ `index`."""

    request: int
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyPeer:
    """The request to let `to` demand what it lacks, and to supply it, while
    `raft.supply.is_open(to)`:

    the APPENDs that `raft.supply.next_append` gives, which its core steps; where that is None, the
    applied state at an index, after which its core steps
    Message(SNAPSHOT, to=to, sender=me, term=term, snapshot=raft.snapshot_meta(index)).
    """

    to: Peer
    term: int


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the host must do next; see the module's head for the order.

    `entries`: the first may lie at or below the stored last index: truncate from there first.
    `snapshot`: install the staged data; it replaces the whole stored log. `committed`: stored
    entries, each once, in order. If nothing is to be stored, stored() may follow at once.
    """

    hard_state: HardState | None = None
    entries: tuple[Entry, ...] = ()
    snapshot: SnapshotMeta | None = None
    messages: tuple[Message, ...] = ()
    messages_after_store: tuple[Message, ...] = ()
    committed: tuple[Entry, ...] = ()
    reads: tuple[ReadState, ...] = ()
    aborted_reads: tuple[int, ...] = ()
    supplies: tuple[SupplyPeer, ...] = ()
    events: tuple[RaftEvent, ...] = ()

    @property
    def must_store(self) -> bool:
        return bool(self.entries) or self.hard_state is not None or self.snapshot is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftStatus:
    """A replica as its core sees it. `stage…`, `progress`: only a leader has them.

    `lineage`: the newest that this replica has received, its term's; `abstains`: its configuration
    is of an older one. `had_leader`: it has followed or been a leader since it started ("alive" is
    design §3, hole 9).
    """

    role: RaftRole
    term: int
    lineage: int
    abstains: bool
    had_leader: bool
    leader: Peer | None
    configuration: Configuration | None
    configuration_index: int
    stage: Stage
    stage_token: int
    stage_peers: tuple[Peer, ...]
    caught_up: bool
    progress: tuple[PeerProgress, ...]
    reconfiguration_error: ReconfigurationError | None
    commit: int
    applied: int
    first_index: int
    last_index: int
    last_term: int
