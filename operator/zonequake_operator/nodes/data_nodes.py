"""A zone's data nodes and the timers that hold them back (document `distribution-zones`).

    topology event ──joined──▶ up timer   ──scale up fires──▶  data nodes + those that match
                   ──left────▶ down timer ──scale down fires─▶ data nodes - those still gone

Where the document is silent, Ignite 3's rules hold (design §3, Data nodes):

- a timer restarts with its newest event, and only events that add (remove) nodes touch the up
  (down) timer: "adding the node doesn't change scale_down time only scale_up one";
- a node that comes back leaves the down set, one that goes leaves the up set;
- every joining node arms the up timer, also one that is still among the data nodes;
- the filter applies when the up timer fires; a changed filter recomputes everything at once;
- dataNodesAutoAdjust is one timer for both directions and one recalculation;
- a changed time-out keeps the armed start, so that 0 fires at once;
- a timer that seems to be armed in the future is armed now: the wall clock was set back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from zonequake_operator.nodes.timers import armed_by
from zonequake_operator.resources.model import DataNodes, Timer, Timers, Topology

Matcher = Callable[[str, Mapping[str, str]], bool]
"""A function that returns whether a node of this name with these attributes passes the zone's
filter.
"""


def deadline_up_ms(state: DataNodes, timers: Timers) -> int | None:
    """Returns when the scale-up timer fires, unix ms; None if it isn't armed or never ends."""
    return _deadline_ms(state, state.up, timers.scale_up_s, joint=timers.joint)


def deadline_down_ms(state: DataNodes, timers: Timers) -> int | None:
    """Returns when the scale-down timer fires, unix ms; None if it isn't armed or never ends."""
    return _deadline_ms(state, state.down, timers.scale_down_s, joint=timers.joint)


def _deadline_ms(
    state: DataNodes, timer: Timer | None, wait_s: int | None, *, joint: bool
) -> int | None:
    if timer is None or wait_s is None:
        return None
    armed_ms = timer.armed_ms
    if joint:  # one frame for both directions: it begins with the newest event of either
        armed_ms = max(t.armed_ms for t in (state.up, state.down) if t is not None)
    return armed_ms + wait_s * 1000


def advance(
    state: DataNodes | None,
    *,
    timers: Timers,
    filter_text: str | None,
    matches: Matcher,
    topology: Topology,
    now_ms: int,
) -> DataNodes:
    """Brings a zone's data nodes up to `topology` and `now_ms`; returns an equal state if nothing
    is due.

    `state` is None for a zone that never had any: "Accounts table is created on current topology".
    """
    if state is None or state.filter != filter_text:
        # "Will add the filter without affecting DATA_NODES_AUTO_ADJUST properties"; the data nodes
        # follow the whole current topology at once, and both timers are void.
        nodes = frozenset(n.name for n in topology.nodes.values() if matches(n.name, n.attributes))
        return DataNodes(nodes=nodes, filter=filter_text, topology_version=topology.version)
    # Timers that ran out between two steps fire first, for the nodes they still concern: an event
    # after the deadline must not postpone them.
    state = replace(state, up=armed_by(state.up, now_ms), down=armed_by(state.down, now_ms))
    state = _drop_returned_and_gone(state, topology)
    state = _fire(state, timers, matches, topology, now_ms)
    if state.topology_version != topology.version:
        state = _accept_event(state, timers, topology, now_ms)
        state = _fire(state, timers, matches, topology, now_ms)
    return state


def _drop_returned_and_gone(state: DataNodes, topology: Topology) -> DataNodes:
    present = topology.nodes.keys()
    return replace(
        state,
        up=_without(state.up, lambda name: name not in present),
        down=_without(state.down, lambda name: name in present),
    )


def _without(timer: Timer | None, drop: Callable[[str], bool]) -> Timer | None:
    if timer is None:
        return None
    kept = frozenset(name for name in timer.nodes if not drop(name))
    return replace(timer, nodes=kept) if kept else None


def _accept_event(state: DataNodes, timers: Timers, topology: Topology, now_ms: int) -> DataNodes:
    joined = frozenset(n.name for n in topology.nodes.values() if n.since > state.topology_version)
    waiting_down = state.down.nodes if state.down else frozenset()
    left = state.nodes - frozenset(topology.nodes) - waiting_down
    up, down = _rearm(state.up, joined, now_ms), _rearm(state.down, left, now_ms)
    if timers.joint and (joined or left):
        up = replace(up, armed_ms=now_ms) if up else None
        down = replace(down, armed_ms=now_ms) if down else None
    return replace(state, up=up, down=down, topology_version=topology.version)


def _rearm(timer: Timer | None, nodes: frozenset[str], now_ms: int) -> Timer | None:
    if not nodes:
        return timer
    return Timer(nodes=nodes | (timer.nodes if timer else frozenset()), armed_ms=now_ms)


def _fire(
    state: DataNodes, timers: Timers, matches: Matcher, topology: Topology, now_ms: int
) -> DataNodes:
    up_ms, down_ms = deadline_up_ms(state, timers), deadline_down_ms(state, timers)
    nodes, up, down = state.nodes, state.up, state.down
    if up is not None and up_ms is not None and up_ms <= now_ms:
        fit = {
            name
            for name in up.nodes
            if (node := topology.nodes.get(name)) and matches(name, node.attributes)
        }
        # A node that came back with other attributes is rewritten too.
        nodes, up = (nodes - up.nodes) | fit, None
    if down is not None and down_ms is not None and down_ms <= now_ms:
        nodes, down = nodes - down.nodes, None
    return replace(state, nodes=nodes, up=up, down=down)
