"""The conditions that start a fault: the manifest's `trigger`, as types.

Pure: `zonequake_chaos.targeting.triggers` decides whether one holds.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from zonequake_chaos.scenario.fields import Fraction, ManifestPart, Seconds
from zonequake_protocol.admin import Stage


class AtOnce(ManifestPart, frozen=True, kw_only=True, tag_field="when", tag="now"):
    """No condition: the fault begins when its turn comes."""

    timeout_s: Seconds = 60.0


class AfterTime(ManifestPart, frozen=True, kw_only=True, tag_field="when", tag="time"):
    """`after_s` seconds after the phase `faults` began, or after the fault `since` took effect."""

    after_s: Seconds
    since: str | None = None
    timeout_s: Seconds = 600.0


class OnStage(ManifestPart, frozen=True, kw_only=True, tag_field="when", tag="stage"):
    """Some partition's leader reports one of `stages` with its progress within the bounds.

    Progress is that of the slowest catching-up peer. `other_partition_than` names an earlier fault,
    whose partition is excluded.
    """

    stages: list[Stage]
    min_progress: Fraction = 0.0
    max_progress: Fraction = 1.0
    zone: str | None = None
    partition: int | None = None
    other_partition_than: str | None = None
    timeout_s: Seconds = 60.0


class PartitionKey(StrEnum):
    """Keys of a Partition resource that a trigger can watch."""

    STABLE = "stable"
    PENDING = "pending"
    PLANNED = "planned"
    SWITCH_REDUCE = "switchReduce"
    SWITCH_APPEND = "switchAppend"
    CHAIN = "chain"


class OnKey(ManifestPart, frozen=True, kw_only=True, tag_field="when", tag="key"):
    """A partition's key is set, or meets all given conditions.

    `empty`; it `holds` a node; it `equals` a set of nodes, in any order; it has `length` nodes, or
    links if it is the chain (whose nodes are those of its newest link); it is `forced`, or
    `from_reset`, or not. Nodes are named as in `Target.nodes`. `everywhere`: in all partitions.
    """

    key: PartitionKey
    empty: bool = False
    holds: str | None = None
    equals: list[str] | None = None
    length: Annotated[int, Meta(ge=1)] | None = None
    forced: bool | None = None
    from_reset: bool | None = None
    everywhere: bool = False
    zone: str | None = None
    partition: int | None = None
    timeout_s: Seconds = 60.0


class OnLeader(ManifestPart, frozen=True, kw_only=True, tag_field="when", tag="leader"):
    """A partition has a leader (on `node`, if given)."""

    node: str | None = None
    zone: str | None = None
    partition: int | None = None
    timeout_s: Seconds = 60.0


class NodeState(StrEnum):
    """The state of a data node that a trigger can see: `answers` by a process that reports its
    replicas, `silent` is the opposite, `ready` is the pod's Ready condition beside an answer.
    """

    ANSWERS = "answers"
    SILENT = "silent"
    READY = "ready"


class OnNodes(ManifestPart, frozen=True, kw_only=True, tag_field="when", tag="nodes"):
    """All of `nodes` are in `state`; they are named as in `Target.nodes`."""

    nodes: Annotated[list[str], Meta(min_length=1)]
    state: NodeState = NodeState.ANSWERS
    timeout_s: Seconds = 60.0


class OnSettled(ManifestPart, frozen=True, kw_only=True, tag_field="when", tag="settled"):
    """Every partition has a leader, no rebalance runs, and every data node answers."""

    timeout_s: Seconds = 120.0


Trigger = AtOnce | AfterTime | OnStage | OnKey | OnLeader | OnNodes | OnSettled


def trigger_type(trigger: Trigger) -> str:
    """Returns the trigger's `when`, as in the file."""
    return str(type(trigger).__struct_config__.tag)
