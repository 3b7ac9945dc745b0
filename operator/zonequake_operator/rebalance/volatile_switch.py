"""Replicas that came back with nothing (document `in-memory-reconfiguration`; design §3, holes 4,
5 and 13): they leave their group before they come back to it.

    C restarts empty ──▶ switchReduce {C} ──pending empty──▶ pending = calc − {C} ──┐
                                                                      rebalance done│
    C starts, catches up ◀── pending = (stable ∪ {C}) ∩ calc, switchAppend {C} ◀────┘

A volatile replica loses log, term and vote with its process; so does a persistent one whose storage
is gone. Under the incarnation that its group still counts it could vote twice in one term, which is
why it isn't started before its group has removed that one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from zonequake_operator.groups.reports import Group, is_majority, members
from zonequake_operator.resources.model import AssignmentSet, PartitionKeys, StorageKind
from zonequake_protocol.admin import PeerName


def is_switch_step(keys: PartitionKeys) -> bool:
    """Returns whether pending is a step of a switch, which no wish may replace (hole 13).

    False for an ordinary pending during which a replica was lost: [A, B, C, D] with switchReduce
    {C}.
    """
    if keys.pending is None:
        return False
    reduced = frozenset(keys.switch_reduce)
    return bool(keys.switch_append) or (bool(reduced) and not reduced & keys.pending_nodes)


def less_reduced(wanted: AssignmentSet | None, keys: PartitionKeys) -> AssignmentSet | None:
    """ "substract(calcPartAssighments(), assignments.switch.reduce)".

    If that leaves no node, stable is reduced instead: calc {C}, stable [A, B, C], C lost. None if
    no node is left there either: then no member holds anything.
    """
    reduced = frozenset(keys.switch_reduce)
    for nodes in (frozenset(wanted.nodes if wanted else ()), keys.stable_nodes):
        left = nodes - reduced
        if left:
            return AssignmentSet.of(*left)
    return None


# ------------------------------------------------------------------------------- On rebalance done


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchStep:
    """The switch keys after a stable switch; `pending`: the next step, None if none."""

    pending: AssignmentSet | None
    switch_reduce: tuple[str, ...]
    switch_append: tuple[str, ...]


def on_rebalance_done(
    keys: PartitionKeys, applied: AssignmentSet, calculated: AssignmentSet | None
) -> SwitchStep:
    """ "On rebalance done" with the applied set, which becomes stable; both keys in every branch.

    The document subtracts `addedNodes` from switchAppend; here every node of the applied set, which
    is the same as long as it holds no node of stable, and ends where it does. After a forced reset
    no replica counts a lost incarnation any more. `calculated` is None without data nodes: then all
    of them come back.
    """
    if keys.is_forced:
        return SwitchStep(pending=None, switch_reduce=(), switch_append=())
    resolved = frozenset(applied.nodes)
    reduced = frozenset(keys.switch_reduce) - resolved
    left = frozenset(keys.switch_reduce) & resolved
    append = (frozenset(keys.switch_append) | reduced) - resolved
    if calculated is not None:
        append &= frozenset(calculated.nodes)
    pending: AssignmentSet | None = None
    if append:
        added = resolved | append
        pending = AssignmentSet.of(*(added & frozenset(calculated.nodes) if calculated else added))
    elif left and resolved - left:
        pending = AssignmentSet.of(*(resolved - left))
    return SwitchStep(
        pending=pending, switch_reduce=tuple(sorted(left)), switch_append=tuple(sorted(append))
    )


# ---------------------------------------------------- On in-memory partition restart: lost replicas


def with_lost(keys: PartitionKeys, group: Group) -> PartitionKeys:
    """ "union(switch.reduce, currentNode)" for members that lost their replica.

    Only while a majority is available, that is under a confirmed leader. Outside stable and both
    halves of the leader's configuration a lost replica is not counted: it starts empty and catches
    up. Under a forced pending the group is the survivor alone.
    """
    if keys.bootstrap is None or not group.confirmed or keys.is_forced:
        return keys
    reduced = frozenset(keys.switch_reduce) | lost(keys, group)
    if len(reduced) == len(keys.switch_reduce):
        return keys
    return replace(keys, switch_reduce=tuple(sorted(reduced)))


def lost(keys: PartitionKeys, group: Group) -> frozenset[str]:
    """Nodes that answered without the replica that stable or the leader's configuration counts.

    Not a node that has left, where only the stable switch is still to be written.
    """
    configured, configured_nodes = group.configured_peers, group.configured_nodes
    counted = configured_nodes
    if keys.pending is None or keys.pending_nodes != counted:
        counted |= keys.stable_nodes

    def is_lost(node: str) -> bool:
        if node not in group.answered:
            return False
        replica = group.replicas.get(node)
        if replica is None:
            return True
        return node in configured_nodes and PeerName(node, replica.incarnation) not in configured

    return frozenset(node for node in counted if is_lost(node))


def without_moot(keys: PartitionKeys, group: Group) -> PartitionKeys:
    """Returns the keys; removes from switchReduce nodes that are counted nowhere any more, although
    the group never reached that step.

    C was lost while [A, B] → [A, B, C] was JOINT, and that went with its leader: the group is
    [A, B] again, and pending waits for C, which switchReduce keeps from starting.
    """
    counted = group.configured_nodes | keys.stable_nodes
    kept = tuple(n for n in keys.switch_reduce if n in counted or n not in keys.pending_nodes)
    return replace(keys, switch_reduce=kept)


# ------------------------------------------------------------------------- Full partition restart


def is_full_restart(keys: PartitionKeys, group: Group, storage: StorageKind) -> bool:
    """Returns whether every stable member of a volatile partition has come back empty, and no group
    can be led.

    A replica whose configuration is not yet in the keys could still lead the group. A persistent
    partition never starts over: its files may still be somewhere.
    """
    if storage is not StorageKind.VOLATILE or keys.bootstrap is None or keys.stable is None:
        return False
    if group.leader is not None:
        return False
    first = frozenset(keys.bootstrap.peers)

    def is_empty(node: str) -> bool:
        if node not in group.answered:
            return False
        replica = group.replicas.get(node)
        return replica is None or (
            group.is_running(node)
            and replica.configuration is None
            and PeerName(node, replica.incarnation) not in first
        )

    return all(is_empty(node) for node in keys.stable.nodes) and not _may_be_led(group)


def _may_be_led(group: Group) -> bool:
    """Returns whether a majority of some configuration may still hold its replicas."""

    def may_hold(peer: PeerName) -> bool:
        replica = group.replicas.get(peer.node)
        if replica is None:
            return peer.node not in group.answered
        return replica.incarnation == peer.incarnation

    return any(
        replica.configuration is not None
        and any(map(may_hold, members(replica.configuration)))
        and all(
            is_majority(sum(map(may_hold, half)), len(half))
            for half in (replica.configuration.peers, replica.configuration.old_peers)
            if half
        )
        for replica in group.replicas.values()
    )


def begun_anew(keys: PartitionKeys, token: int) -> PartitionKeys:
    """After a full restart: stable alone, to be bootstrapped under a new token; the data is lost.

    "The operator removes pending, planned and both switch keys" (design §3).
    """
    return replace(
        keys,
        pending=None,
        planned=None,
        switch_reduce=(),
        switch_append=(),
        pending_lock=None,
        bootstrap=None,
        bootstrap_lineage=token,
        configuration_token=token,
        chain=(),
        stopped_token=0,
    )
