"""The content of a what-if file: a topology, a zone, keys, reports of replicas, and events.

Times are milliseconds of virtual time, from the zone's creation; revisions and terms are the
file's own numbers. See docs/what-if.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Self, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from zonequake_kube.yaml_fields import any_of, convert, refuse
from zonequake_protocol.admin import ReconfigurationStatus, Stage

T = TypeVar("T")

MAX_WHOLE = 2**63 - 1
"""The largest whole number that the resources hold."""
MAX_TERM = 900_000_000
"""A term stands below a lineage's 10**9, and later elections count on from it."""


def _whole(what: str, most: int = MAX_WHOLE) -> Meta:
    return Meta(ge=0, le=most, description=f"{what}, a whole number (0 to {most})")


def _spelled(kinds: type[StrEnum]) -> Meta:
    return Meta(description=any_of([kind.title().replace("_", "") for kind in kinds]))


NodeName = Annotated[str, Meta(min_length=1, description="a node's name")]
Tag = Annotated[str, Meta(min_length=1, description="a tag")]
Term = Annotated[int, _whole("a term", MAX_TERM)]
Index = Annotated[int, _whole("an index")]
Revision = Annotated[int, _whole("a revision")]
GivenSeconds = Annotated[float, Meta(ge=0, lt=1e15, description="seconds (0 or more)")]


class FilePart(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """Base of mappings in the file. A field that may be UNSET can't be null in the file."""


def given(value: T | UnsetType) -> T | None:
    """Returns the value of a field; None if the file doesn't have it."""
    return None if value is UNSET else value


class NodeNames(tuple[str, ...]):
    """Names of nodes, sorted."""

    __slots__ = ()

    @classmethod
    def read(cls, value: object, path: str) -> Self:
        """Reads a list without repetition. Raises NotExpectedError."""
        if not isinstance(value, list):
            refuse(path, value, "a list of node names")
        found: set[str] = set()
        for i, name in enumerate(convert(value, list[NodeName], path)):
            if name in found:
                refuse(f"{path}[{i}]", name, "each node once")
            found.add(name)
        return cls(sorted(found))


class Attributes(dict[str, str]):
    """A node's attributes; a tag is one with an empty value."""

    @classmethod
    def read(cls, value: object, path: str) -> Self:
        """Reads attributes, a list of tags, or nothing. Raises NotExpectedError."""
        if isinstance(value, list):
            return cls((tag, "") for tag in convert(value, list[Tag], path))
        if not isinstance(value, dict | None):
            refuse(path, value, "attributes ({region: EU}) or a list of tags ([EU, SSD])")
        found = cls()
        for key, inner in (value or {}).items():
            if isinstance(inner, dict | list):
                refuse(f"{path}.{key}", inner, "an attribute's value, a text or a number")
            text = "" if inner is None else str(inner)
            found[str(key)] = text.lower() if isinstance(inner, bool) else text
        return found


Nodes = Annotated[
    dict[NodeName, Attributes], Meta(description="a mapping of node names to attributes")
]


class SetFields(FilePart, frozen=True):
    """An assignment set that is written as a mapping."""

    nodes: NodeNames
    force: bool = False
    from_reset: bool = False


class GivenSet:
    """An assignment set; a bare list in the file has neither flag."""

    def __init__(self, fields: SetFields) -> None:
        self.nodes, self.force, self.from_reset = fields.nodes, fields.force, fields.from_reset

    @classmethod
    def read(cls, value: object, path: str) -> Self:
        """Reads a list or a mapping. Raises NotExpectedError."""
        if isinstance(value, list):
            return cls(SetFields(nodes=NodeNames.read(value, path)))
        if not isinstance(value, dict):
            refuse(path, value, "a list of node names, or a mapping with nodes")
        fields = convert(value, SetFields, path)
        if fields.force and fields.from_reset:
            refuse(path, value, "force or fromReset: they are the two phases of a reset")
        return cls(fields)


class GivenLink(FilePart, frozen=True):
    """A link of the assignments chain."""

    nodes: NodeNames
    term: Term = 0
    index: Index = 0


class GivenKeys(FilePart, frozen=True):
    """A partition's keys before the first event."""

    stable: GivenSet | None = None
    pending: GivenSet | None = None
    planned: GivenSet | None = None
    switch_reduce: NodeNames = NodeNames()
    switch_append: NodeNames = NodeNames()
    change_trigger_revision: Revision = 0
    pending_lock: bool = False
    stopped: bool = False
    chain: Annotated[
        tuple[GivenLink, ...], Meta(description="a list of links, the oldest first")
    ] = ()

    def __post_init__(self) -> None:
        """Replaces a set without nodes by None: it is as good as none."""
        for name in ("stable", "pending", "planned"):
            found = getattr(self, name)
            if found is not None and not found.nodes:
                msgspec.structs.force_setattr(self, name, None)


class GivenReplica(FilePart, frozen=True):
    """The report of a node on its replica: the last entries of its log, of its user commands, and
    of its configurations.
    """

    term: Term = 0
    index: Index = 0
    last_user_cmd_term: Term | UnsetType = UNSET
    last_user_cmd_idx: Index = 0
    last_cfg_idx: Index = 0

    @property
    def user_term(self) -> int:
        """The term of the newest user command; the log's last, if the file doesn't say."""
        if self.last_user_cmd_term is not UNSET:
            return self.last_user_cmd_term
        return self.term if self.last_user_cmd_idx else 0


GivenReplicas = Annotated[
    dict[NodeName, GivenReplica],
    Meta(description="a mapping of node names to what they would report"),
]

# ----------------------------------------------------------------------------------------- events


class MembershipEvent(FilePart, frozen=True):
    """A topology version: nodes join, leave, or both (a topology leap)."""

    join: Nodes = {}
    leave: NodeNames = NodeNames()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterEvent:
    """ALTER ZONE: fields of the spec that change; None takes one away."""

    changes: Mapping[str, object]


class PartitionEvent(FilePart, frozen=True):
    """An event of one partition."""

    partition: int


class TargetEvent(PartitionEvent, frozen=True):
    """A trigger with `nodes` in place of the calculated set."""

    nodes: NodeNames


class AppliedEvent(PartitionEvent, frozen=True):
    """onNewPeersConfigurationApplied(peers), with where the configuration stands in the log."""

    peers: NodeNames
    term: Term | UnsetType = UNSET
    index: Index | UnsetType = UNSET


class LeaderElectedEvent(PartitionEvent, frozen=True):
    """onLeaderElected: `peers` is the new leader's configuration, by default stable's."""

    node: NodeName
    term: Term | UnsetType = UNSET
    peers: NodeNames | UnsetType = UNSET


class ReconfigurationErrorEvent(PartitionEvent, frozen=True):
    """onReconfigurationError(status): the leader gave the change up."""

    status: Annotated[ReconfigurationStatus, _spelled(ReconfigurationStatus)]


class ReplicaLostEvent(PartitionEvent, frozen=True):
    """A volatile or cleaned replica restarts, without its state."""

    node: NodeName


class CancelledEvent(PartitionEvent, frozen=True):
    """The answer to cancelChangePeers."""

    result: bool


class CaughtUpEvent(PartitionEvent, frozen=True):
    """tryCatchUpFinish(peers)."""

    peers: NodeNames


class StageReported(PartitionEvent, frozen=True):
    """The stage that the leader reports."""

    stage: Annotated[Stage, _spelled(Stage)]


class GroupRestartEvent(PartitionEvent, frozen=True):
    """Every replica was stopped; those of `alive` have started, passively."""

    alive: NodeNames


class ResetByHandEvent(PartitionEvent, frozen=True):
    """`zonequake reset`: a person asks for a reset, to `survivor` if that is given."""

    survivor: NodeName | UnsetType = UNSET


class OperatorRestartEvent(FilePart, frozen=True):
    """The operator forgets all that isn't in the resources."""


class DropEvent(FilePart, frozen=True):
    """DROP ZONE."""


OF_PARTITION: dict[str, type[PartitionEvent]] = {
    "target": TargetEvent,
    "applied": AppliedEvent,
    "leaderElected": LeaderElectedEvent,
    "reconfigurationError": ReconfigurationErrorEvent,
    "replicaLost": ReplicaLostEvent,
    "cancelled": CancelledEvent,
    "caughtUp": CaughtUpEvent,
    "stage": StageReported,
    "groupRestart": GroupRestartEvent,
    "resetByHand": ResetByHandEvent,
}
BARE: dict[str, type[OperatorRestartEvent | DropEvent]] = {
    "operatorRestart": OperatorRestartEvent,
    "drop": DropEvent,
}
"""Events that say nothing but that they happen: `drop: true`."""
Happening = MembershipEvent | AlterEvent | PartitionEvent | OperatorRestartEvent | DropEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEvent:
    """Something that happens; without `revision` it gets the next one."""

    at_ms: int
    revision: int | None = None
    kinds: tuple[str, ...]
    """The keys that the file has for what happens."""
    what: Happening


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
