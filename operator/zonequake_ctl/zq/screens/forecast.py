"""Forecasts the partitions of a zone under another spec: `forecast(...)`.

The operator's own planner decides, on the same snapshot that the operator would gather now; what it
would write is written into the snapshot, until it has nothing more to write. Then the clock goes to
the zone's next timer, and it decides again. Nothing is sent anywhere, so that a move never ends
here; where a partition is to end is what its keys say: planned, else pending, else stable.

    now ──plan, write──▶ settled ──next timer──▶ plan, write ──▶ … no timer is left
        at once                    in 30 s

Where a decision rests on what replicas hold that wait for their start order, the operator has them
inspected. A forecast can't: it names them (`unseen`), so that the caller inspects them and
forecasts again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from zonequake_operator.high_availability.reset import forced_node
from zonequake_operator.planning.applied import stored
from zonequake_operator.planning.plan import ZonePlan, plan
from zonequake_operator.resources.model import (
    AssignmentSet,
    Partition,
    PartitionKeys,
    ZoneSnapshot,
    ZoneSpec,
)
from zonequake_protocol.admin import InspectReplica

MAX_ROUNDS = 50
"""A planner that isn't done by then never will be."""
MAX_STEPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A partition that would be elsewhere: `copies` are the nodes that get a new replica.

    `reset_to`: it is forced to go on from this node's data alone before it gets anywhere.
    """

    partition: int
    before: tuple[str, ...]
    after: tuple[str, ...]
    waits: bool = False
    reset_to: str | None = None

    @property
    def copies(self) -> tuple[str, ...]:
        """Nodes that don't hold it now."""
        return tuple(node for node in self.after if node not in self.before)

    @property
    def erased(self) -> tuple[str, ...]:
        """Nodes that lose their replica."""
        return tuple(node for node in self.before if node not in self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastStep:
    """The decision due `after_ms` from now: data nodes then, and the moves beyond those of the step
    before. `created`: partitions that do not exist yet, with their nodes. `waits`: sentences on
    partitions that cannot be decided yet, and on the nodes they wait for. `away`: absent data
    nodes.
    """

    after_ms: int
    data_nodes: tuple[str, ...]
    moves: tuple[Move, ...] = ()
    created: Mapping[int, tuple[str, ...]]
    waits: tuple[str, ...] = ()
    away: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Steps in order, the first of them at once; later ones only where something changes.

    `unseen`: waiting replicas that count and have not been inspected, by node and group.
    """

    steps: tuple[ForecastStep, ...]
    unseen: frozenset[tuple[str, str]] = frozenset()


def forecast(snapshot: ZoneSnapshot, spec: ZoneSpec) -> Forecast:
    """Returns the zone's partitions as they would become if its spec were `spec`."""
    zone = replace(snapshot.zone, spec=spec, generation=snapshot.zone.generation + 1)
    if spec == snapshot.zone.spec:
        zone = snapshot.zone
    now_ms = snapshot.now_ms
    before, snapshot = snapshot.partitions, replace(snapshot, zone=zone)
    steps: list[ForecastStep] = []
    unseen: set[tuple[str, str]] = set()
    said: frozenset[str] = frozenset()
    for _ in range(MAX_STEPS):
        snapshot, decided = _settled(snapshot)
        step = _step(before, snapshot, decided, after_ms=snapshot.now_ms - now_ms)
        if (
            not steps
            or step.moves
            or step.data_nodes != steps[-1].data_nodes
            or (frozenset(step.waits) - said)
        ):
            steps.append(step)
        said = frozenset(step.waits)
        unseen |= _unseen(decided)
        if decided.wake_at_ms is None:
            break
        before, snapshot = snapshot.partitions, replace(snapshot, now_ms=decided.wake_at_ms)
    return Forecast(steps=tuple(steps), unseen=frozenset(unseen))


def _unseen(decided: ZonePlan) -> set[tuple[str, str]]:
    return {
        (send.node, send.order.group)
        for send in decided.orders
        if isinstance(send.order, InspectReplica)
    }


def _settled(snapshot: ZoneSnapshot) -> tuple[ZoneSnapshot, ZonePlan]:
    """Returns the snapshot when nothing is left to write, and what is decided then."""
    for _ in range(MAX_ROUNDS):
        decided = plan(snapshot)
        after = stored(snapshot, decided)
        if after == snapshot:
            return snapshot, decided
        snapshot = after
    raise AssertionError(f"the planner of {snapshot.zone.name} never stops writing")


def _step(
    before: Mapping[int, Partition], after: ZoneSnapshot, decided: ZonePlan, *, after_ms: int
) -> ForecastStep:
    moves, created = [], {}
    for number, partition in sorted(after.partitions.items()):
        end = _end(partition.keys)
        known = before.get(number)
        if known is None or known.keys.stable is None:
            if end is not None:
                created[number] = end.nodes
            continue
        begin = _end(known.keys) if after_ms else known.keys.stable
        reset_to = forced_node(partition.keys)
        if after_ms and reset_to == forced_node(known.keys):
            reset_to = None  # of a step before
        if begin is not None and end is not None and (end.nodes != begin.nodes or reset_to):
            moves.append(
                Move(
                    partition=number,
                    before=begin.nodes,
                    after=end.nodes,
                    waits=partition.keys.planned is not None and reset_to is None,
                    reset_to=reset_to,
                )
            )
    state = after.zone.status.data_nodes
    unreadable = after.zone.spec if isinstance(after.zone.spec, str) else None
    refused = next(
        (c.message for c in after.zone.conditions if c.reason.value == "InvalidFilter"), None
    )
    return ForecastStep(
        after_ms=after_ms,
        data_nodes=tuple(sorted(state.nodes)) if state is not None else (),
        moves=tuple(moves),
        created=created,
        away=tuple(sorted(state.nodes - after.topology.nodes.keys())) if state is not None else (),
        waits=tuple(one.awaits for one in decided.health.values() if one.awaits),
        problem=unreadable or refused,
    )


def _end(keys: PartitionKeys) -> AssignmentSet | None:
    """Returns where the partition is to end."""
    return keys.planned or keys.pending or keys.stable
