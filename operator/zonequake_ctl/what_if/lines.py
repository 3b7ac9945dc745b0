"""The world's state, as text for one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from zonequake_ctl.what_if.actions import Action
from zonequake_ctl.what_if.replica import LINEAGE
from zonequake_ctl.what_if.world import WhatIfWorld
from zonequake_operator.nodes.data_nodes import deadline_down_ms, deadline_up_ms
from zonequake_operator.resources.model import AssignmentSet, PartitionKeys

TIMERS = ("scaleUp", "scaleDown", "autoAdjust", "reset")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTimer:
    """An armed timer that ends: when (virtual ms), and for which nodes."""

    at_ms: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineState:
    """The state at one instant. `handled`: the revision that counts as trigger revision of every
    partition whose keys it didn't change (design §3, Revision).
    """

    at_ms: int
    revision: int
    handled: int
    data_nodes: tuple[str, ...]
    timers: Mapping[str, ShownTimer | None]
    keys: Mapping[int, PartitionKeys]

    def looks_like(self, other: TimelineState) -> bool:
        """Returns whether a line for the other state would show the same, except for its time."""
        return (
            (self.revision, self.handled) == (other.revision, other.handled)
            and self.data_nodes == other.data_nodes
            and self.timers == other.timers
            and self.keys.keys() == other.keys.keys()
            and all(
                keys is other.keys[n] or shown_keys(keys, 0) == shown_keys(other.keys[n], 0)
                for n, keys in self.keys.items()
            )
        )

    def ending(self, at_ms: int) -> list[str]:
        """Returns the names of the timers that end by then."""
        return [name for name, timer in self.timers.items() if timer and timer.at_ms <= at_ms]


def look(world: WhatIfWorld) -> TimelineState:
    """Returns the state of the world as it is."""
    status, spec = world.zone.status, world.spec
    timers: dict[str, ShownTimer | None] = dict.fromkeys(TIMERS)
    nodes = status.data_nodes
    if nodes is not None:
        up_ms = deadline_up_ms(nodes, spec.timers)
        down_ms = deadline_down_ms(nodes, spec.timers)
        up = None if up_ms is None or nodes.up is None else _timer(up_ms, nodes.up.nodes)
        down = None if down_ms is None or nodes.down is None else _timer(down_ms, nodes.down.nodes)
        if spec.timers.joint:
            both = {name for timer in (up, down) if timer for name in timer.nodes}
            at_ms = up_ms if up_ms is not None else down_ms
            timers["autoAdjust"] = None if at_ms is None else _timer(at_ms, both)
        else:
            timers["scaleUp"], timers["scaleDown"] = up, down
    if status.reset is not None:
        at_ms = status.reset.armed_ms + spec.reset_timeout_s * 1000
        timers["reset"] = _timer(at_ms, status.reset.nodes)
    return TimelineState(
        at_ms=world.now_ms,
        revision=world.revision,
        handled=world.handled,
        data_nodes=tuple(sorted(nodes.nodes)) if nodes else (),
        timers=timers,
        keys={n: partition.keys for n, partition in world.partitions.items()},
    )


def _timer(at_ms: int, nodes: Iterable[str]) -> ShownTimer:
    return ShownTimer(at_ms=at_ms, nodes=tuple(sorted(nodes)))


def line(cause: str, state: TimelineState, actions: Iterable[Action]) -> dict[str, Any]:
    """Renders the line of one step."""
    return {
        "at": seconds(state.at_ms),
        "cause": cause,
        "revision": state.revision,
        "dataNodes": list(state.data_nodes),
        "timers": {
            name: None if t is None else {"at": seconds(t.at_ms), "nodes": list(t.nodes)}
            for name, t in state.timers.items()
        },
        "partitions": {
            str(n): shown_keys(keys, state.handled) for n, keys in sorted(state.keys.items())
        },
        "actions": [_action(action) for action in actions],
    }


def shown_keys(keys: PartitionKeys, handled: int) -> dict[str, Any]:
    """Renders a partition's keys as the file has them; `stopped` only where it is true."""
    shown = {
        "stable": list(keys.stable.nodes) if keys.stable else None,
        "pending": _set(keys.pending),
        "planned": _set(keys.planned),
        "switchReduce": list(keys.switch_reduce),
        "switchAppend": list(keys.switch_append),
        "changeTriggerRevision": max(keys.change_trigger_revision - 1, handled, 0),
        "pendingLock": keys.pending_lock is not None,
        "chain": [
            {"nodes": list(link.nodes), "term": link.term % LINEAGE, "index": link.index}
            for link in keys.chain
        ]
        or None,
    }
    return {**shown, "stopped": True} if keys.is_stopped else shown


def _set(value: AssignmentSet | None) -> dict[str, Any] | None:
    if value is None:
        return None
    return {"nodes": list(value.nodes), "force": value.force, "fromReset": value.from_reset}


def _action(action: Action) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "partition": action.partition,
        "node": action.node,
        "do": action.do.value,
    }
    if action.peers is not None:
        shown["peers"] = list(action.peers)
    return shown


def seconds(ms: int) -> int | float:
    """Seconds; a whole number if they are whole."""
    return ms // 1000 if ms % 1000 == 0 else ms / 1000
