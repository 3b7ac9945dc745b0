"""When a fault's turn has come: pure predicates over a `ClusterView`.

A trigger looks at observed state and never sleeps. It answers with sightings: every place where its
condition holds right now. Which of them the fault is for is drawn by the run's seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zonequake_chaos.scenario import (
    AfterTime,
    AtOnce,
    OnKey,
    OnLeader,
    OnSettled,
    OnStage,
    Trigger,
)
from zonequake_chaos.state import ClusterView, PartitionView
from zonequake_store.admin_protocol import Stage

Place = tuple[str, int]
"""Zone and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """What a trigger saw; `place` is None for conditions that aren't about one partition."""

    at_ns: int
    what: str
    place: Place | None = None
    stage: Stage | None = None
    progress: float | None = None
    leader: str | None = None
    catching_up: tuple[str, ...] = ()
    token: int | None = None
    term: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What earlier faults of the run were about: fault name -> the partition they saw."""

    places: Mapping[str, Place | None] = field(default_factory=dict)


def sightings(trigger: Trigger, view: ClusterView, before: Before) -> list[Sighting]:
    """All places where `trigger` holds in `view`, sorted by zone and partition."""
    match trigger:
        case AtOnce():
            return [Sighting(at_ns=view.at_ns, what="at once")]
        case AfterTime(after_s=after_s):
            passed_s = (view.at_ns - view.began_ns) / 1e9
            return [Sighting(at_ns=view.at_ns, what=f"{after_s} s")] if passed_s >= after_s else []
        case OnSettled():
            return [] if unsettled(view) else [Sighting(at_ns=view.at_ns, what="settled")]
        case OnStage() | OnKey() | OnLeader():
            return [
                _sighting(partition, view.at_ns)
                for place, partition in sorted(view.partitions.items())
                if trigger.zone in (None, place[0])
                and trigger.partition in (None, place[1])
                and _holds(trigger, partition, before)
            ]


def unsettled(view: ClusterView) -> list[str]:
    """Why the cluster isn't settled, one short sentence each; empty if it is."""
    reasons = [f"{node.name} does not answer" for node in view.nodes.values() if not node.answers]
    reasons += [f"{node.name} is not Ready" for node in view.nodes.values() if not node.pod.ready]
    reasons += [
        f"{zone}/{number}: leader {partition.leader or 'unknown'}, stage {partition.stage.value}, "
        f"pending {list(partition.keys.pending) if partition.keys else 'unknown'}"
        for (zone, number), partition in sorted(view.partitions.items())
        if not partition.settled
    ]
    return reasons


def in_words(trigger: Trigger) -> str:
    """The condition as the plan prints it."""
    match trigger:
        case AtOnce():
            return "at once"
        case AfterTime(after_s=after_s):
            return f"{after_s:g} s into the faults"
        case OnSettled():
            return "when every rebalance has ended and every node answers"
        case OnLeader(node=node):
            return f"when {node} leads" if node else "when there is a leader"
        case OnKey(key=key, empty=empty, holds=holds):
            if holds is not None:
                return f"when {key.value} holds {holds}"
            return f"when {key.value} is {'empty' if empty else 'set'}"
        case OnStage():
            stages = " or ".join(stage.value for stage in trigger.stages)
            where = (
                f" of another partition than {trigger.other_partition_than}'s"
                if trigger.other_partition_than
                else ""
            )
            bounds = ""
            if (trigger.min_progress, trigger.max_progress) != (0.0, 1.0):
                bounds = f" at {trigger.min_progress:.0%} to {trigger.max_progress:.0%}"
            return f"when {stages}{where} is seen{bounds}"


def _holds(trigger: OnStage | OnKey | OnLeader, partition: PartitionView, before: Before) -> bool:
    match trigger:
        case OnLeader(node=node):
            return partition.leader is not None and node in (None, partition.leader)
        case OnKey():
            if partition.keys is None:
                return False
            value: tuple[str, ...] = getattr(partition.keys, trigger.key.value)
            if trigger.holds is not None:
                return trigger.holds in value
            return bool(value) is not trigger.empty
        case OnStage():
            other = before.places.get(trigger.other_partition_than or "")
            if other == (partition.zone, partition.partition):
                return False
            if partition.leader is None or partition.stage not in trigger.stages:
                return False
            if partition.stage is not Stage.CATCHING_UP:
                return True
            return trigger.min_progress <= partition.slowest_progress <= trigger.max_progress


def _sighting(partition: PartitionView, at_ns: int) -> Sighting:
    catching_up = partition.stage is Stage.CATCHING_UP
    return Sighting(
        at_ns=at_ns,
        what=f"{partition.zone}/{partition.partition} {partition.stage.value}",
        place=(partition.zone, partition.partition),
        stage=partition.stage,
        progress=partition.slowest_progress if catching_up and partition.progress else None,
        leader=partition.leader,
        catching_up=tuple(sorted(partition.progress)),
        token=partition.stage_token or None,
        term=partition.term,
    )
