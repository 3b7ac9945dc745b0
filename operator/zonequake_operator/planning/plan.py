"""Decides what to do about one zone: `plan(snapshot)`.

Level-triggered: the plan follows from the snapshot alone. The edge applies its writes first; if
there were any it plans again from what was stored, so that no order rests on an unstored decision.

    1. accept inputs     topology, spec, timers  ->  zone status with a higher revision
    2. trigger step      once per revision and partition
    3. group reports     bootstrap, lock, stable switch
    4. orders            start, bootstrap, changePeers, grant, stop (`zone_orders`)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import msgspec

from zonequake_operator.errors import FilterError
from zonequake_operator.groups.reports import Group, by_group, observe
from zonequake_operator.high_availability import reset
from zonequake_operator.high_availability.decisions import (
    KeysDecision,
    judge_zone,
    without_done_reset,
)
from zonequake_operator.nodes import affinity, data_nodes, filters
from zonequake_operator.planning.conditions import Health, diagnose, invalid_spec, judge, summarise
from zonequake_operator.planning.namesakes import advice, missing_partitions
from zonequake_operator.planning.partition_events import Cleaning, FailedChange, failed_changes
from zonequake_operator.planning.waiting import waits_for
from zonequake_operator.planning.zone_orders import SendOrder, cleanings, zone_orders
from zonequake_operator.rebalance import key_changes
from zonequake_operator.resources.condition_types import Condition
from zonequake_operator.resources.leases import NodeLeaseTrouble
from zonequake_operator.resources.model import (
    AssignmentSet,
    ConsistencyMode,
    PartitionKeys,
    PartitionStatus,
    PartitionSummary,
    Topology,
    ZoneSnapshot,
    ZoneSpec,
    ZoneStatus,
    group_name,
)
from zonequake_protocol.admin import ReplicaStatus

CAUGHT_UP_MARGIN_ENTRIES = 1000
"""The most entries that a caught-up replica may lack: reports of two nodes are taken up to a poll
apart, and a busy group commits some hundred entries in that time.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteZone:
    """Write the zone's status. Not `urgent`: only messages or numbers changed, it may wait."""

    status: ZoneStatus
    conditions: tuple[Condition, ...]
    summary: PartitionSummary
    urgent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartition:
    """Create a Partition that isn't there."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePartition:
    """A write of a partition's status.

    Not `urgent`: its keys are unchanged, and it had a state before; the view may wait.
    """

    number: int
    keys: PartitionKeys
    view: PartitionStatus
    urgent: bool


ResourceWrite = WriteZone | CreatePartition | WritePartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ZonePlan:
    """Writes in the order in which to store them, and orders, which rest on what is stored.

    `settled`: the zone needs nothing but time or a new event. `wake_at_ms`: its next timer.
    `behind`: nodes that hold a stable replica which doesn't yet follow its leader closely.
    `failed`: changes that their leaders gave up. `cleaned`: replicas from before the last reset
    that are erased.
    """

    writes: list[ResourceWrite]
    orders: list[SendOrder]
    settled: bool
    wake_at_ms: int | None = None
    behind: frozenset[str] = frozenset()
    health: Mapping[int, Health]
    failed: tuple[FailedChange, ...] = ()
    cleaned: tuple[Cleaning, ...] = ()


Calculate = Callable[[tuple[str, ...], int, int], Sequence[AssignmentSet | None]]
"""calcPartAssignments() for every partition, from data nodes, partitions and replicas; None where
there are no data nodes."""


@lru_cache(maxsize=64)
def calculated_sets(
    nodes: tuple[str, ...], partitions: int, replicas: int
) -> list[AssignmentSet | None]:
    """Calculates sets by rendezvous, the affinity function of all zones; it is a `Calculate`."""
    sets = affinity.rendezvous(nodes, partitions, replicas)
    return [AssignmentSet.of(*names) if names else None for names in sets]


def plan(snapshot: ZoneSnapshot, *, calculate: Calculate = calculated_sets) -> ZonePlan:
    """Decide about one zone; `calculate` stands for its affinity function."""
    zone = snapshot.zone
    if zone.deleting:
        return ZonePlan(writes=[], orders=[], settled=True, health={})
    if isinstance(zone.spec, str):
        return _plan_unreadable(snapshot, zone.spec)
    spec, before = zone.spec, zone.status
    groups = groups_of(snapshot)
    health = {
        n: diagnose(p.keys, groups[n], p.view, snapshot.attempts.get(groups[n].name))
        for n, p in snapshot.partitions.items()
    }
    problem, accepted = _accept_inputs(snapshot, spec)
    decisions = judge_zone(snapshot, spec, accepted, groups)
    accepted = without_done_reset(snapshot, accepted, groups)
    for n, decision in decisions.items():
        if decision.awaits is not None:
            health[n] = replace(health[n], awaits=decision.sentence(f"partition {n}", spec.storage))
    health = {n: _with_waits(one, snapshot.topology) for n, one in health.items()}

    missing, namesakes = missing_partitions(snapshot, spec)
    writes: list[ResourceWrite] = []
    if not spec.paused:
        moves: list[ResourceWrite] = [CreatePartition(number=n) for n in missing]
        moves += _write_partitions(snapshot, spec, accepted, groups, health, calculate, decisions)
        if not moves and not namesakes:
            # Also one that is accepted now. A view never holds it back: it may wait for its turn.
            accepted = replace(accepted, handled_revision=accepted.revision)
        elif accepted.revision == before.revision:
            writes += moves
    written = {write.number for write in writes if isinstance(write, WritePartition)}
    writes += [
        WritePartition(
            number=n,
            keys=snapshot.partitions[n].keys,
            view=h.view,
            urgent=snapshot.partitions[n].view.state is None and h.view.state is not None,
        )
        for n, h in health.items()
        if n not in written and h.view != snapshot.partitions[n].view
    ]
    zone_write = _zone_write(snapshot, spec, accepted, health, problem, namesakes)
    if zone_write is not None:
        writes.insert(0, zone_write)
    orders = zone_orders(snapshot, spec, groups, decisions)
    return ZonePlan(
        writes=writes,
        orders=orders,
        settled=not orders
        and not any(map(_is_urgent, writes))
        and all(map(_is_at_rest, health.values())),
        wake_at_ms=_next_deadline_ms(accepted, spec),
        behind=_behind(health, groups),
        health=health,
        failed=failed_changes(snapshot.partitions, groups),
        cleaned=cleanings(orders, snapshot, groups),
    )


def _is_urgent(write: ResourceWrite) -> bool:
    return isinstance(write, CreatePartition) or write.urgent


def _with_waits(health: Health, topology: Topology) -> Health:
    view = msgspec.structs.replace(health.view, waits_for=waits_for(health, topology.nodes))
    return replace(health, view=view)


def _is_at_rest(health: Health) -> bool:
    return not health.is_moving and health.view.leader is not None and not health.missing


def _plan_unreadable(snapshot: ZoneSnapshot, problem: str) -> ZonePlan:
    zone = snapshot.zone
    status = replace(zone.status, observed_generation=zone.generation)
    conditions = invalid_spec(problem)
    writes: list[ResourceWrite] = []
    if (status, conditions) != (zone.status, zone.conditions):
        writes = [
            WriteZone(status=status, conditions=conditions, summary=zone.summary, urgent=True)
        ]
    return ZonePlan(writes=writes, orders=[], settled=True, health={})


def groups_of(snapshot: ZoneSnapshot) -> dict[int, Group]:
    """Returns each partition's Raft group as its replicas report it, by partition."""
    zone = snapshot.zone
    replicas: dict[str, dict[str, ReplicaStatus]] = by_group(snapshot.reports.values())
    names = {n: group_name(zone.name, zone.uid, n) for n in snapshot.partitions}
    answered = frozenset(snapshot.reports)
    return {n: observe(name, replicas.get(name, {}), answered) for n, name in names.items()}


# ------------------------------------------------------------------------------ 1. accept inputs


def _accept_inputs(snapshot: ZoneSnapshot, spec: ZoneSpec) -> tuple[str | None, ZoneStatus]:
    """Returns why the filter can't be used, and the zone's status with all inputs accepted."""
    zone, before = snapshot.zone, snapshot.zone.status
    in_force = before.data_nodes.filter if before.data_nodes else None
    problem, wanted = None, spec.filter
    try:
        matches = _matcher(wanted)
    except FilterError as error:
        # The filter that was accepted last stays in force; a new zone has no data nodes yet.
        problem, wanted = f"{error}.", in_force
        matches = _matcher(in_force)
    if spec.paused or (problem is not None and before.data_nodes is None):
        return problem, replace(before, observed_generation=zone.generation)
    nodes = data_nodes.advance(
        before.data_nodes,
        timers=spec.timers,
        filter_text=wanted,
        matches=matches,
        topology=snapshot.topology,
        now_ms=snapshot.now_ms,
    )
    timer, due = before.reset, before.reset_due
    if spec.consistency_mode is ConsistencyMode.HIGH_AVAILABILITY and before.data_nodes is not None:
        timer, due = reset.advance(
            timer,
            due,
            timeout_s=spec.reset_timeout_s,
            seen_version=before.data_nodes.topology_version,
            topology=snapshot.topology,
            revision=before.revision + 1,
            now_ms=snapshot.now_ms,
        )
    after = replace(
        before, observed_generation=zone.generation, data_nodes=nodes, reset=timer, reset_due=due
    )
    if after == before:
        return problem, before
    return problem, replace(after, revision=before.revision + 1)


def _matcher(text: str | None) -> data_nodes.Matcher:
    if text is None:
        return lambda name, attributes: True
    return filters.parse(text).matches


def _next_deadline_ms(status: ZoneStatus, spec: ZoneSpec) -> int | None:
    state = status.data_nodes
    if state is None or spec.paused:
        return None
    deadlines = (
        data_nodes.deadline_up_ms(state, spec.timers),
        data_nodes.deadline_down_ms(state, spec.timers),
        reset.deadline_ms(status.reset, spec.reset_timeout_s),
    )
    return min((at_ms for at_ms in deadlines if at_ms is not None), default=None)


# ---------------------------------------------------------------- 2. trigger step, 3. group reports


def _write_partitions(
    snapshot: ZoneSnapshot,
    spec: ZoneSpec,
    status: ZoneStatus,
    groups: Mapping[int, Group],
    health: Mapping[int, Health],
    calculate: Calculate,
    decisions: Mapping[int, KeysDecision],
) -> list[ResourceWrite]:
    state = status.data_nodes
    nodes = tuple(sorted(state.nodes)) if state else ()
    calculated = calculate(nodes, spec.partitions, spec.replicas)
    alive = frozenset(snapshot.topology.nodes)
    writes: list[ResourceWrite] = []
    for number, partition in snapshot.partitions.items():
        if number >= spec.partitions:
            continue
        trigger = max(partition.keys.change_trigger_revision, status.handled_revision)
        wish = key_changes.WantedKeys(
            calculated=calculated[number],
            revision=status.revision,
            due=trigger < status.revision,
            mode=spec.change_peers,
            consistency_mode=spec.consistency_mode,
            storage=spec.storage,
            held=state.up.nodes if state and state.up else frozenset(),
        )
        keys = decisions[number].keys if number in decisions else partition.keys
        if keys == partition.keys:
            keys = key_changes.decide(partition.keys, groups[number], wish, alive)
        if keys != partition.keys:
            judged = replace(health[number], keys=keys, awaits="")
            view = _with_waits(judged, snapshot.topology).view
            writes.append(WritePartition(number=number, keys=keys, view=view, urgent=True))
    return writes


def _zone_write(
    snapshot: ZoneSnapshot,
    spec: ZoneSpec,
    status: ZoneStatus,
    health: Mapping[int, Health],
    problem: str | None,
    namesakes: Sequence[str],
) -> WriteZone | None:
    zone = snapshot.zone
    conditions = judge(
        generation=zone.generation,
        spec=spec,
        status=status,
        health=health,
        filter_problem=problem,
        in_the_way=advice(namesakes, zone, spec),
        data_nodes=sorted(status.data_nodes.nodes) if status.data_nodes else [],
        retry_threshold=snapshot.retry_threshold,
        lease_troubles=_lease_troubles(snapshot, spec),
        missing_rights=snapshot.missing_rights,
    )
    summary = summarise(health, spec.partitions)
    if (status, conditions, summary) == (zone.status, zone.conditions, zone.summary):
        return None
    flipped = {(c.type, c.status) for c in conditions} != {
        (c.type, c.status) for c in zone.conditions
    }
    return WriteZone(
        status=status,
        conditions=conditions,
        summary=summary,
        urgent=flipped or status != zone.status,
    )


def _lease_troubles(
    snapshot: ZoneSnapshot, spec: ZoneSpec
) -> Mapping[str, NodeLeaseTrouble] | None:
    """Returns the Lease troubles of the nodes that hold the zone's partitions; None for a zone that
    needs no Leases.
    """
    if spec.consistency_mode is not ConsistencyMode.HIGH_AVAILABILITY:
        return None
    if not snapshot.lease_troubles:
        return {}
    named = {
        node
        for partition in snapshot.partitions.values()
        for node in partition.keys.stable_nodes | partition.keys.pending_nodes
    }
    return {n: trouble for n, trouble in snapshot.lease_troubles.items() if n in named}


def _behind(health: Mapping[int, Health], groups: Mapping[int, Group]) -> frozenset[str]:
    behind: set[str] = set()
    for number, one in health.items():
        if one.keys.bootstrap is None or one.keys.stable is None:
            continue
        leading = groups[number].leading
        if leading is None:
            behind.update(one.keys.stable.nodes)
            continue
        behind.update(one.missing)
        replicas = groups[number].replicas
        behind.update(
            node
            for node in one.keys.stable.nodes
            if node in replicas
            and replicas[node].applied + CAUGHT_UP_MARGIN_ENTRIES < leading.commit
        )
    return frozenset(behind)
