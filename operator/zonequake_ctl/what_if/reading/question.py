"""The content of a what-if file: a topology, a zone, keys, reports of replicas, and events.

Times are milliseconds of virtual time, from the zone's creation; revisions and terms are the
file's own numbers. See docs/what-if.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zonequake_protocol.admin import ReconfigurationStatus, Stage

Attributes = Mapping[str, str]
"""A node's attributes; a tag is one with an empty value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSet:
    """An assignment set; a bare list in the file has neither flag."""

    nodes: tuple[str, ...]
    force: bool = False
    from_reset: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenLink:
    """A link of the assignments chain."""

    nodes: tuple[str, ...]
    term: int = 0
    index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenKeys:
    """A partition's keys before the first event."""

    stable: GivenSet | None = None
    pending: GivenSet | None = None
    planned: GivenSet | None = None
    switch_reduce: tuple[str, ...] = ()
    switch_append: tuple[str, ...] = ()
    change_trigger_revision: int = 0
    pending_lock: bool = False
    stopped: bool = False
    chain: tuple[GivenLink, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenReplica:
    """The report of a node on its replica: the last entries of its log, of its user commands, and
    of its configurations.
    """

    term: int = 0
    index: int = 0
    last_user_cmd_term: int = 0
    last_user_cmd_idx: int = 0
    last_cfg_idx: int = 0


# ----------------------------------------------------------------------------------------- events


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEvent:
    """Something that happens; without `revision` it gets the next one."""

    at_ms: int
    revision: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipEvent(TimelineEvent):
    """A topology version: nodes join, leave, or both (a topology leap)."""

    join: Mapping[str, Attributes] = field(default_factory=dict)
    leave: tuple[str, ...] = ()
    kinds: tuple[str, ...]
    """The keys that the file has for it, also one that names no node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterEvent(TimelineEvent):
    """ALTER ZONE: fields of the spec that change; None takes one away."""

    changes: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEvent(TimelineEvent):
    """An event of one partition."""

    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEvent(PartitionEvent):
    """A trigger with `nodes` in place of the calculated set."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedEvent(PartitionEvent):
    """onNewPeersConfigurationApplied(peers), with where the configuration stands in the log."""

    peers: tuple[str, ...]
    term: int | None = None
    index: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElectedEvent(PartitionEvent):
    """onLeaderElected: `peers` is the new leader's configuration, stable's if None."""

    node: str
    term: int | None = None
    peers: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconfigurationErrorEvent(PartitionEvent):
    """onReconfigurationError(status): the leader gave the change up."""

    status: ReconfigurationStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLostEvent(PartitionEvent):
    """A volatile or cleaned replica restarts, without its state."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelledEvent(PartitionEvent):
    """The answer to cancelChangePeers."""

    result: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUpEvent(PartitionEvent):
    """tryCatchUpFinish(peers)."""

    peers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReported(PartitionEvent):
    """The stage that the leader reports."""

    stage: Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRestartEvent(PartitionEvent):
    """Every replica was stopped; those of `alive` have started, passively."""

    alive: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetByHandEvent(PartitionEvent):
    """`zonequake reset`: a person asks for a reset, to `survivor` if that is given."""

    survivor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRestartEvent(TimelineEvent):
    """The operator forgets all that isn't in the resources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropEvent(TimelineEvent):
    """DROP ZONE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A whole file. `until_ms` is None to go on until nothing is armed any more."""

    topology: Mapping[str, Attributes]
    zone: Mapping[str, object]
    partitions: Mapping[int, GivenKeys] = field(default_factory=dict)
    replicas: Mapping[int, Mapping[str, GivenReplica]] = field(default_factory=dict)
    events: tuple[TimelineEvent, ...] = ()
    until_ms: int | None = None
    auto_apply: bool = False
