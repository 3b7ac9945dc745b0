"""Chooses a fault's nodes by role, at random from the run's seed. Pure.

An empty choice is an error and never ignored. The same view, sighting and seed give the same nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from zonequake_chaos.observe.view import ClusterView
from zonequake_chaos.scenario.faults import FaultTarget, Side, TargetRole
from zonequake_chaos.scenario.node_names import node_named
from zonequake_chaos.targeting.triggers import Sighting

_T = TypeVar("_T")


class Chooser(Protocol):
    """The methods of random.Random that choices need."""

    def sample(self, population: Sequence[_T], k: int) -> list[_T]: ...


class NoTarget(Exception):
    """Raised when no node has the role; the text names the nodes that were there."""


def choose_sighting(candidates: Sequence[Sighting], chooser: Chooser) -> Sighting:
    """Returns one of the places where the trigger held."""
    return chooser.sample(candidates, 1)[0]


def choose_nodes(
    target: FaultTarget, view: ClusterView, sighting: Sighting, chooser: Chooser
) -> tuple[str, ...]:
    """Returns the names of the fault's target nodes, sorted; named ones in the order given.

    Raises NoTarget.
    """
    found = _candidates(target, view, sighting)
    if target.role is TargetRole.NODES:
        return tuple(found)
    candidates = sorted(
        name
        for name in found
        if name in view.nodes and target.pool in (None, view.nodes[name].pod.pool)
    )
    if target.role is TargetRole.ALL:
        chosen = candidates
    else:
        chosen = chooser.sample(candidates, min(target.count, len(candidates)))
    if not chosen or (target.role is not TargetRole.ALL and len(chosen) < target.count):
        raise NoTarget(
            f"needed {target.count} of role {target.role.value}, found "
            f"{', '.join(candidates) or 'none'} among {', '.join(sorted(view.nodes))}"
        )
    return tuple(sorted(chosen))


def choose_sides(
    first: Sequence[str],
    second: Sequence[str],
    view: ClusterView,
    sighting: Sighting,
    chooser: Chooser,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the nodes of both sides, each sorted; no node is on both. Raises NoTarget."""
    one = _side(first, view, sighting, chooser, apart_from=())
    return one, _side(second, view, sighting, chooser, apart_from=one)


def _side(
    words: Sequence[str],
    view: ClusterView,
    sighting: Sighting,
    chooser: Chooser,
    *,
    apart_from: tuple[str, ...],
) -> tuple[str, ...]:
    found: set[str] = set()
    for word in words:
        match word:
            case Side.LEADER:
                there = _candidates(FaultTarget(role=TargetRole.LEADER), view, sighting)
            case Side.FOLLOWER | Side.FOLLOWERS:
                there = _candidates(FaultTarget(role=TargetRole.FOLLOWER), view, sighting)
            case Side.OTHERS:
                there = list(view.nodes)
            case name:
                there = named_nodes([name], view)
        there = sorted(set(there) & set(view.nodes) - set(apart_from))
        if word in (Side.LEADER, Side.FOLLOWER):
            there = chooser.sample(there, min(1, len(there)))
        if not there:
            raise NoTarget(
                f"found no {word} apart from {', '.join(apart_from) or 'none'} among "
                f"{', '.join(sorted(view.nodes))}"
            )
        found |= set(there)
    return tuple(sorted(found))


def named_nodes(names: Sequence[str], view: ClusterView) -> list[str]:
    """Returns the nodes of these names, full or without the release. Raises NoTarget."""
    found = {name: node_named(name, view.nodes) for name in names}
    absent = [name for name, node in found.items() if node is None]
    if absent:
        raise NoTarget(f"found no {', '.join(absent)} among {', '.join(sorted(view.nodes))}")
    return [node for node in found.values() if node is not None]


def target_in_words(target: FaultTarget) -> str:
    """Returns the target as the plan prints it before the nodes are known."""
    many = f"{target.count} × " if target.count > 1 else ""
    pool = f" of pool {target.pool}" if target.pool else ""
    match target.role:
        case TargetRole.NODE:
            return str(target.node)
        case TargetRole.NODES:
            return ", ".join(target.nodes)
        case TargetRole.ALL:
            return f"all data nodes{pool}"
        case TargetRole.ANY:
            return f"{many}any data node{pool}"
        case role:
            return f"{many}{role.value.replace('_', ' ')}{pool}"


def _candidates(target: FaultTarget, view: ClusterView, sighting: Sighting) -> list[str]:
    partition = view.partitions.get(sighting.place) if sighting.place is not None else None
    match target.role:
        case TargetRole.NODE:
            return named_nodes([str(target.node)], view)
        case TargetRole.NODES:
            return named_nodes(target.nodes, view)
        case TargetRole.ALL | TargetRole.ANY:
            return list(view.nodes)
        case TargetRole.CATCHING_UP_PEER:
            return list(sighting.catching_up)
        case TargetRole.LEADER:
            if sighting.leader is not None:
                return [sighting.leader]
            return sorted({p.leader for p in view.partitions.values() if p.leader is not None})
        case TargetRole.FOLLOWER:
            seen = [partition] if partition is not None else list(view.partitions.values())
            return sorted({node for p in seen for node in p.members if node != p.leader})
