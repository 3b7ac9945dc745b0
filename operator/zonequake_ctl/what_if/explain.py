"""The rule behind each change: document and step, and the hole of the design where one decides.

Rules are named from what a write did and why the step happened, so that the operator's rules need
no names of their own: one write of keys is one step of one document.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zonequake_ctl.what_if.actions import Action, ActionKind
from zonequake_ctl.what_if.timeline import TimelineStep
from zonequake_ctl.what_if.world import KeysWrite
from zonequake_operator.resources.model import AssignmentSet, PartitionKeys

_DATA_NODES = {
    "scaleUp": "distribution-zones, DATA_NODES_AUTO_ADJUST rules: scale_up_auto_adjust fired",
    "scaleDown": "distribution-zones, DATA_NODES_AUTO_ADJUST rules: scale_down_auto_adjust fired",
    "autoAdjust": "distribution-zones, DATA_NODES_AUTO_ADJUST rules: both directions in one frame",
    "create": "distribution-zones, Distribution zones configuration internals: a zone is created "
    "on the current topology",
    "alter": "distribution-zones, Override rules",
    "join": "distribution-zones, DATA_NODES_AUTO_ADJUST rules: a time-out of 0 fires at once",
    "leave": "distribution-zones, DATA_NODES_AUTO_ADJUST rules: a time-out of 0 fires at once",
    "drop": "distribution-zones, Distribution zones configuration syntax: DROP ZONE",
}
_ARMED = {
    "scaleUp": "distribution-zones, DATA_NODES_AUTO_ADJUST rules: onNodeAdded (re)schedules "
    "scale_up_auto_adjust",
    "scaleDown": "distribution-zones, DATA_NODES_AUTO_ADJUST rules: onNodeLeft (re)schedules "
    "scale_down_auto_adjust",
    "autoAdjust": "distribution-zones, DATA_NODES_AUTO_ADJUST rules: one timer for both directions",
    "reset": "high-availability, Algorithm for phase 1: initPartitionDistributionResetTimer",
}
_REPORTS = ("applied", "leaderElected", "stage", "reconfigurationError")
_TRIGGER = "rebalance, Write new pending assignments (1)"
_DONE = "rebalance, When RaftGroupService#changePeersAsync done: onNewPeersConfigurationApplied"
_ADJUSTABLE = "rebalance, Adjustable changePeers"
_SWITCH_DONE = "in-memory-reconfiguration, On rebalance done"
_PHASE_1 = "high-availability, Algorithm for phase 1"
_RESET = f"{_PHASE_1}: resetPartition"
_CHAIN = "high-availability, Chain of assignments"
_STOPPED = "high-availability, Example scenario, step 5; Key outcomes, 2; holes 7 and 9"
_ORDERS = {
    ActionKind.START_REPLICA: "rebalance, Start new raft nodes and initiate change peers (2); "
    "hole 4",
    ActionKind.CHANGE_PEERS: "rebalance, Start new raft nodes and initiate change peers (2): "
    "changePeersAsync(leaderTerm, peers)",
    ActionKind.CANCEL_CHANGE_PEERS: f"{_ADJUSTABLE}, Approach 2: cancelChangePeers on the leader",
    ActionKind.RESET_PEERS: "high-availability, Algorithm for phase 1: resetPartition, its first "
    "phase; hole 11",
    ActionKind.STOP_REPLICA: "rebalance, Cleanup redundant raft nodes (3); hole 15",
    ActionKind.ERASE_REPLICA: "rebalance, Cleanup redundant raft nodes (3); hole 15",
}


def because(step: TimelineStep) -> list[dict[str, Any]]:
    """Returns one entry for each change of a step: what changed, and the rule behind it."""
    found = [*_of_zone(step)]
    for write in step.writes:
        found += [
            {"partition": write.partition, "key": key, "rule": rule}
            for key, rule in rules_of(write, step.cause)
        ]
    for action in step.actions:
        found.append(_of_action(action, step.cause))
    return found


def _of_zone(step: TimelineStep) -> Iterator[dict[str, Any]]:
    before, after = step.before, step.state
    if before is None or before.data_nodes != after.data_nodes:
        causes = [_DATA_NODES[cause] for cause in step.cause.split(", ") if cause in _DATA_NODES]
        yield {"key": "dataNodes", "rule": "; ".join(dict.fromkeys(causes)) or step.cause}
    for name, timer in after.timers.items():
        old = before.timers[name] if before is not None else None
        if timer == old:
            continue
        if timer is not None:
            yield {"key": f"timers.{name}", "rule": _ARMED[name]}
        elif name in step.cause.split(", "):
            rule = _DATA_NODES.get(name, f"{_PHASE_1}: onPartitionDistributionResetTimeout")
            yield {"key": f"timers.{name}", "rule": rule}
        else:
            yield {"key": f"timers.{name}", "rule": _cleared(step.cause)}


def _cleared(cause: str) -> str:
    if cause == "alter":
        return "distribution-zones, Override rules: the altered zone doesn't have it any more"
    if cause == "drop":
        return _DATA_NODES["drop"]
    return "distribution-zones, DATA_NODES_AUTO_ADJUST rules: none of its nodes is concerned still"


def _of_action(action: Action, cause: str) -> dict[str, Any]:
    rule = _DATA_NODES["drop"] if cause == "drop" else _ORDERS[action.do]
    if cause in ("reconfigurationError", "leaderElected") and action.do is ActionKind.CHANGE_PEERS:
        helper = "onReconfigurationError" if cause == "reconfigurationError" else "onLeaderElected"
        rule = f"rebalance, Failover helpers: {helper}"
    return {
        "partition": action.partition,
        "action": action.do.value,
        "node": action.node,
        "rule": rule,
    }


def rules_of(write: KeysWrite, cause: str) -> Iterator[tuple[str, str]]:
    """Yields the changed keys of one write, each with its rule."""
    before, after = write.before, write.after
    switched = _is_switch(before, after, cause)
    if before.stable != after.stable:
        yield "stable", _stable_rule(before, after, switched=switched)
    if before.pending != after.pending:
        yield "pending", _pending_rule(before, after, cause, switched=switched)
    if before.planned != after.planned:
        yield "planned", _planned_rule(before, after, cause, switched=switched)
    if (before.pending_lock is None) != (after.pending_lock is None):
        yield "pendingLock", _lock_rule(after, cause, switched=switched)
    if before.switch_reduce != after.switch_reduce:
        yield "switchReduce", _reduce_rule(before, after, switched=switched)
    if before.switch_append != after.switch_append:
        rule = f"{_SWITCH_DONE}: calculatedAssignmentsSwitchAppend; hole 5"
        yield "switchAppend", rule if switched else "hole 13: only nodes of the wish stay"
    if before.change_trigger_revision != after.change_trigger_revision:
        yield "changeTriggerRevision", f"{_TRIGGER}: change.trigger.revision = event.revision"
    if before.chain != after.chain:
        yield "chain", _chain_rule(before, after)
    if before.is_stopped != after.is_stopped:
        yield "stopped", _STOPPED if after.is_stopped else f"{_STOPPED}: it leads again"


def _is_switch(before: PartitionKeys, after: PartitionKeys, cause: str) -> bool:
    """Returns whether this write was a stable switch.

    A pending of the same nodes as stable ends without a change of stable, when its leader reports;
    otherwise a wish has replaced it.
    """
    if before.pending is None or after.stable is None:
        return False
    if before.pending.nodes != after.stable.nodes:
        return False
    ended = after.pending is None or (cause in _REPORTS and before.pending != after.pending)
    return before.stable != after.stable or ended


def _stable_rule(before: PartitionKeys, after: PartitionKeys, *, switched: bool) -> str:
    if switched:
        return f"{_DONE}: stable = appliedPeers; hole 2"
    if before.stable is None or after.bootstrap is None:
        return "design §3, First assignments: the first non-empty calculated set becomes stable"
    return _SWITCH_DONE


def _pending_rule(
    before: PartitionKeys, after: PartitionKeys, cause: str, *, switched: bool
) -> str:
    pending = after.pending
    if pending is None:
        return (
            f"{_DONE}: if empty(planned), pending = empty"
            if switched
            else ("in-memory-reconfiguration, general flow on node restart: fullPartitionRestart")
        )
    if pending.force:
        if cause == "groupRestart":
            return "high-availability, Chain unwind: the source goes on alone; hole 9"
        if cause == "resetByHand":
            return "high-availability, Example scenario, step 5: manual partition recovery; hole 7"
        return f"{_RESET}: pending = singleAliveNode; holes 6 and 7"
    if switched and _nodes(before.planned) == pending.nodes and not _is_step(after):
        return f"{_DONE}: pending = planned"
    if _is_step(after):
        return _switch_step_rule(after, switched=switched)
    if before.pending is None or switched:
        return f"{_TRIGGER}: if empty(pending) && stable != calcPartAssignments()"
    if cause == "cancelled":
        return f"{_ADJUSTABLE}, Approach 2: if it returns true, move planned to pending"
    if before.pending_lock is None and pending.nodes != before.pending.nodes:
        return f"{_ADJUSTABLE}, Approach 1: if empty(pending.lock), pending = calcPartAssignments()"
    return "hole 13"


def _is_step(keys: PartitionKeys) -> bool:
    pending = set(_nodes(keys.pending))
    return bool(keys.switch_append) or bool(
        keys.switch_reduce and not pending & set(keys.switch_reduce)
    )


def _switch_step_rule(after: PartitionKeys, *, switched: bool) -> str:
    if not switched:
        return (
            "in-memory-reconfiguration, On assignments.switch.reduce change: "
            "substract(calcPartAssignments(), switch.reduce)"
        )
    kind = "calculatedPendingAddition" if after.switch_append else "calculatedPendingReduction"
    return f"{_SWITCH_DONE}: {kind}"


def _planned_rule(
    before: PartitionKeys, after: PartitionKeys, cause: str, *, switched: bool
) -> str:
    planned = after.planned
    if planned is None:
        if switched:
            return f"{_DONE}: remove(planned)"
        if cause == "cancelled":
            return f"{_ADJUSTABLE}, Approach 2: move planned to pending"
        if after.pending is None:
            return f"{_TRIGGER}: stable = calcPartAssignments(), remove(planned); hole 1"
        return f"{_TRIGGER}: remove(planned); hole 13"
    if planned.from_reset:
        if cause == "groupRestart":
            return "high-availability, Chain unwind: the chosen link's alive nodes; hole 9"
        return f"{_RESET}: planned = targetTopology, only alive nodes; hole 7"
    return f"{_TRIGGER}: planned = calcPartAssignments()"


def _lock_rule(after: PartitionKeys, cause: str, *, switched: bool) -> str:
    if after.pending_lock is not None:
        return f"{_ADJUSTABLE}, Approach 1: tryCatchUpFinish(peers); hole 15"
    if switched:
        return f"{_ADJUSTABLE}, Approach 1: the lock is emptied after rebalance is done"
    return f"{_ADJUSTABLE}, Approach 1: the lock is emptied after rebalance fails; hole 15"


def _reduce_rule(before: PartitionKeys, after: PartitionKeys, *, switched: bool) -> str:
    if set(after.switch_reduce) > set(before.switch_reduce):
        return (
            "in-memory-reconfiguration, On in-memory partition restart: "
            "union(switch.reduce, currentNode)"
        )
    if switched:
        return f"{_SWITCH_DONE}: calculatedAssignmentsSwitchReduce; hole 5"
    return "in-memory-reconfiguration, general flow on node restart: fullPartitionRestart"


def _chain_rule(before: PartitionKeys, after: PartitionKeys) -> str:
    if len(after.chain) > len(before.chain) and before.chain:
        return f"{_CHAIN}: pending.force, addLast(newStable)"
    if before.pending is not None and before.pending.from_reset:
        return f"{_CHAIN}: pending.fromReset, replaceLast(newStable)"
    return f"{_CHAIN}: AssignmentsChain.of(term, index, newStable)"


def _nodes(value: AssignmentSet | None) -> tuple[str, ...]:
    return value.nodes if value is not None else ()
