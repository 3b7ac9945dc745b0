"""Evaluates triggers: pure predicates over a `ClusterView`.

A trigger reads observed state and never sleeps. It returns sightings: every place where its
condition holds now. The run's seed decides which of them the fault targets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zonequake_chaos.observe.view import ClusterView, PartitionView
from zonequake_chaos.scenario.node_names import node_named
from zonequake_chaos.scenario.triggers import (
    AfterTime,
    AtOnce,
    NodeState,
    OnKey,
    OnLeader,
    OnNodes,
    OnSettled,
    OnStage,
    PartitionKey,
    Trigger,
)
from zonequake_kube.objects import KeysView
from zonequake_protocol.admin import Stage

PartitionPlace = tuple[str, int]
"""Zone and partition number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One result of a trigger; `place` is None for conditions that concern no single partition."""

    at_ns: int
    what: str
    place: PartitionPlace | None = None
    stage: Stage | None = None
    progress: float | None = None
    leader: str | None = None
    catching_up: tuple[str, ...] = ()
    token: int | None = None
    term: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierFaults:
    """Facts of earlier faults, by name: the partition that they hit, and when they took effect."""

    places: Mapping[str, PartitionPlace | None] = field(default_factory=dict)
    effective_ns: Mapping[str, int] = field(default_factory=dict)


def sightings(trigger: Trigger, view: ClusterView, before: EarlierFaults) -> list[Sighting]:
    """Returns all places where `trigger` holds in `view`, sorted by zone and partition."""
    match trigger:
        case AtOnce():
            return [Sighting(at_ns=view.at_ns, what="at once")]
        case AfterTime(after_s=after_s, since=since):
            began_ns = view.began_ns if since is None else before.effective_ns.get(since)
            passed_s = (view.at_ns - began_ns) / 1e9 if began_ns is not None else -1.0
            return [Sighting(at_ns=view.at_ns, what=f"{after_s} s")] if passed_s >= after_s else []
        case OnSettled():
            return [] if unsettled(view) else [Sighting(at_ns=view.at_ns, what="settled")]
        case OnNodes(nodes=nodes, state=state):
            seen = all(_node_is(view, name, state) for name in nodes)
            what = f"{', '.join(nodes)}: {state.value}"
            return [Sighting(at_ns=view.at_ns, what=what)] if seen else []
        case OnStage() | OnKey() | OnLeader():
            asked = [
                partition
                for place, partition in sorted(view.partitions.items())
                if trigger.zone in (None, place[0]) and trigger.partition in (None, place[1])
            ]
            found = [one for one in asked if _holds(trigger, one, before)]
            if isinstance(trigger, OnKey) and trigger.everywhere and len(found) < len(asked):
                return []
            return [_sighting(partition, view.at_ns) for partition in found]


def unsettled(view: ClusterView) -> list[str]:
    """Returns why the cluster isn't settled, one short sentence each; empty if it is."""
    reasons = [f"{node.name} does not answer" for node in view.nodes.values() if not node.answers]
    reasons += [f"{node.name} is not Ready" for node in view.nodes.values() if not node.pod.ready]
    reasons += [
        f"{zone}/{number}: leader {partition.leader or 'unknown'}, stage {partition.stage.value}, "
        f"pending {list(partition.keys.pending) if partition.keys else 'unknown'}"
        for (zone, number), partition in sorted(view.partitions.items())
        if not partition.settled
    ]
    return reasons


def trigger_in_words(trigger: Trigger) -> str:
    """Returns the condition as the plan prints it."""
    match trigger:
        case AtOnce():
            return "at once"
        case AfterTime(after_s=after_s, since=since):
            return f"{after_s:g} s {'into the faults' if since is None else f'after {since}'}"
        case OnSettled():
            return "when every rebalance has ended and every node answers"
        case OnLeader(node=node):
            return f"when {node} leads" if node else "when there is a leader"
        case OnNodes(nodes=nodes, state=state):
            is_so = "answer" if state is NodeState.ANSWERS else f"are {state.value}"
            return f"when {', '.join(nodes)} {is_so}"
        case OnKey():
            return f"when {trigger.key.value} {_key_in_words(trigger)}"
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


def _holds(
    trigger: OnStage | OnKey | OnLeader, partition: PartitionView, before: EarlierFaults
) -> bool:
    match trigger:
        case OnLeader(node=node):
            leader = partition.leader
            return leader is not None and (node is None or node_named(node, [leader]) is not None)
        case OnKey():
            return partition.keys is not None and _key_is(trigger, partition.keys)
        case OnStage():
            other = before.places.get(trigger.other_partition_than or "")
            if other == (partition.zone, partition.partition):
                return False
            if partition.leader is None or partition.stage not in trigger.stages:
                return False
            if partition.stage is not Stage.CATCHING_UP:
                return True
            return trigger.min_progress <= partition.slowest_progress <= trigger.max_progress


def _key_is(trigger: OnKey, keys: KeysView) -> bool:
    """Returns whether the key meets every given condition."""
    key = trigger.key
    nodes = _nodes_of(keys, key)
    if trigger.empty:
        return not nodes
    size = len(keys.chain) if key is PartitionKey.CHAIN else len(nodes)
    return (
        bool(nodes)
        and (trigger.holds is None or node_named(trigger.holds, nodes) is not None)
        and (trigger.equals is None or _same_nodes(trigger.equals, nodes))
        and trigger.length in (None, size)
        and trigger.forced in (None, key.value in keys.forced)
        and trigger.from_reset in (None, key.value in keys.from_reset)
    )


def _nodes_of(keys: KeysView, key: PartitionKey) -> tuple[str, ...]:
    match key:
        case PartitionKey.STABLE:
            return keys.stable
        case PartitionKey.PENDING:
            return keys.pending
        case PartitionKey.PLANNED:
            return keys.planned
        case PartitionKey.SWITCH_REDUCE:
            return keys.switch_reduce
        case PartitionKey.SWITCH_APPEND:
            return keys.switch_append
        case PartitionKey.CHAIN:
            return keys.chain[-1].nodes if keys.chain else ()


def _same_nodes(wanted: list[str], nodes: tuple[str, ...]) -> bool:
    return {node_named(name, nodes) for name in wanted} == set(nodes)


def _node_is(view: ClusterView, name: str, state: NodeState) -> bool:
    found = node_named(name, view.nodes)
    node = view.node(found) if found is not None else None
    match state:
        case NodeState.SILENT:
            return node is None or not node.answers
        case NodeState.ANSWERS:
            return node is not None and node.answers
        case NodeState.READY:
            return node is not None and node.answers and node.pod.ready


def _key_in_words(trigger: OnKey) -> str:
    if trigger.empty:
        return "is empty" + (" everywhere" if trigger.everywhere else "")
    said = []
    if trigger.holds is not None:
        said.append(f"holds {trigger.holds}")
    if trigger.equals is not None:
        said.append(f"equals [{', '.join(trigger.equals)}]")
    if trigger.length is not None:
        unit = "links" if trigger.key is PartitionKey.CHAIN else "nodes"
        said.append(f"has {trigger.length} {unit}")
    if trigger.forced is not None:
        said.append("is forced" if trigger.forced else "is not forced")
    if trigger.from_reset is not None:
        said.append("is from a reset" if trigger.from_reset else "is not from a reset")
    return (" and ".join(said) or "is set") + (" everywhere" if trigger.everywhere else "")


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
