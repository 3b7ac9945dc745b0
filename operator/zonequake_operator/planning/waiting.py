"""The wait that `kubectl get` shows: a zone's armed timers, and what a partition waits for. Pure.

The words change with what is stored beside them, such as a deadline, a set or a leader, and never
with time or progress: a settled zone writes nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from zonequake_operator.first_few import few
from zonequake_operator.high_availability.reset import deadline_ms
from zonequake_operator.nodes.data_nodes import deadline_down_ms, deadline_up_ms
from zonequake_operator.planning.conditions import Health
from zonequake_operator.resources.model import ZoneSpec, ZoneStatus
from zonequake_operator.resources.stored_shapes import to_rfc3339
from zonequake_protocol.admin import Stage


def armed(status: ZoneStatus, spec: ZoneSpec) -> str:
    """Lists the timers that run, until when and for which nodes; empty if none does."""
    state, found = status.data_nodes, list[str]()
    if state is not None and state.up is not None:
        found.append(_timer("scale-up", deadline_up_ms(state, spec.timers), state.up.nodes, spec))
    if state is not None and state.down is not None:
        ends_ms = deadline_down_ms(state, spec.timers)
        found.append(_timer("scale-down", ends_ms, state.down.nodes, spec))
    if status.reset is not None:
        ends_ms = deadline_ms(status.reset, spec.reset_timeout_s)
        found.append(_timer("reset", ends_ms, status.reset.nodes, spec))
    elif status.reset_due is not None:
        found.append("reset is due")
    return "; ".join(found)


def _timer(name: str, ends_ms: int | None, nodes: Collection[str], spec: ZoneSpec) -> str:
    if ends_ms is None:
        until = "never"
    else:
        until = f"{'once resumed, ' if spec.paused else ''}at {_to_the_second(ends_ms)}"
    return f"{name} {until}: {few(sorted(nodes))}"


def _to_the_second(unix_ms: int) -> str:
    """Rounded up: at this time the timer has ended."""
    return to_rfc3339(-(-unix_ms // 1000) * 1000).replace(".000", "")


def waits_for(health: Health, present: Collection[str]) -> str:
    """Returns what the partition waits for that does not come by itself; empty if nothing.

    `present`: the topology's nodes. A member that is missing is named, though the others serve.
    """
    keys, view = health.keys, health.view
    if keys.stable is None:
        return ""  # for data nodes: the zone says so
    if keys.bootstrap is None:
        away = [node for node in keys.stable.nodes if node not in present]
        return f"{few(away)} to join" if away else ""
    if keys.pending is not None and keys.pending.force:
        return f"{few(keys.pending.nodes)} to go on alone: it is reset"
    if health.awaits:
        return health.awaits
    missing = [node for node in health.missing if node in keys.stable_nodes]
    if health.lost and missing:
        more = len(keys.stable.nodes) // 2 + 1 - len(keys.stable.nodes) + len(missing)
        return f"{more} more of {few(missing)}, for a majority"
    if view.leader is None:
        return "a leader" if view.state is not None else ""
    if missing:
        return f"{few(missing)} to serve again"
    return _change(health, present)


def _change(health: Health, present: Collection[str]) -> str:
    pending, stage = health.keys.pending, health.view.stage
    if pending is None:
        return ""
    away = [node for node in pending.nodes if node not in present]
    if away and stage in (Stage.NONE, Stage.CATCHING_UP):
        return f"{few(away)} to join"
    added = sorted(health.keys.pending_nodes - health.keys.stable_nodes)
    if added and stage is Stage.CATCHING_UP and health.keys.pending_lock is None:
        return f"{few(added)} to catch up"
    return ""
