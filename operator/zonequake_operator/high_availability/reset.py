"""Resets of partitions that lost their majority (document `high-availability`, "Algorithm for
phase 1"; design §3, holes 6, 7, 8 and 11).

    a node leaves ──▶ timer ──partitionDistributionResetTimeout──▶ due ──majority missing──▶

        pending {A} forced, planned {A, B} fromReset          both phases in one write
        resetPeers(A), A leads alone, stable = {A}            phase 1
        changePeers(A, B), stable = {A, B}                    phase 2

The zone's status keeps the timer and what is due, so that a restarted operator goes on from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from zonequake_operator.groups.reports import Group, is_majority, members
from zonequake_operator.nodes.timers import armed_by
from zonequake_operator.resources.model import (
    AssignmentSet,
    PartitionKeys,
    ResetDue,
    ResetTimer,
    Topology,
)
from zonequake_protocol.admin import PeerName, ReplicaRole, ReplicaStatus

# ------------------------------------------------------------- The timer: intents saved in the zone


def deadline_ms(timer: ResetTimer | None, timeout_s: int) -> int | None:
    """Returns when the timer fires, unix ms; None if it isn't armed."""
    return None if timer is None else timer.armed_ms + timeout_s * 1000


def advance(
    timer: ResetTimer | None,
    due: ResetDue | None,
    *,
    timeout_s: int,
    seen_version: int,
    topology: Topology,
    revision: int,
    now_ms: int,
) -> tuple[ResetTimer | None, ResetDue | None]:
    """Returns the zone's timer and what is due, after the topology's events since `seen_version`.

    "onNodeLeft: initPartitionDistributionResetTimer(revision)", also in a topology leap; a joining
    node doesn't touch it. "New timer must reschedule old with new revision". `revision`: what the
    zone's becomes if anything changed.

    A timer that seems to be armed in the future is armed now: the wall clock was set back.
    """
    timer = armed_by(timer, now_ms)
    # A timer that ran out between two steps fires first: a later event must not postpone it.
    timer, due = _fire(timer, due, timeout_s, revision, now_ms)
    left = frozenset(
        n for n, departure in topology.departed.items() if departure.left > seen_version
    )
    if left:
        timer = ResetTimer(
            nodes=left | (timer.nodes if timer else frozenset()),
            armed_ms=now_ms,
            revision=revision,
            topology_version=topology.version,
        )
        timer, due = _fire(timer, due, timeout_s, revision, now_ms)
    return timer, due


def _fire(
    timer: ResetTimer | None, due: ResetDue | None, timeout_s: int, revision: int, now_ms: int
) -> tuple[ResetTimer | None, ResetDue | None]:
    at_ms = deadline_ms(timer, timeout_s)
    if timer is None or at_ms is None or at_ms > now_ms:
        return timer, due
    return None, ResetDue(revision=revision, topology_version=timer.topology_version)


# -------------------------------------------------------------------------- Remaining data holders


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaHolders:
    """One partition's replicas, as far as known.

    `silent`: nodes in the topology that didn't answer in this round: they may hold whatever they
    held. `inspected`: what waiting replicas showed of themselves, by node.
    """

    group: Group
    topology: Topology
    answered: frozenset[str]
    inspected: Mapping[str, ReplicaStatus]

    @property
    def silent(self) -> frozenset[str]:
        """Returns the nodes of the topology that did not answer in this round."""
        return frozenset(self.topology.nodes) - self.answered

    def seen(self, node: str) -> ReplicaStatus | None:
        """Returns the replica's state, if known: by its own report, or as it was inspected."""
        replica = self.group.replicas.get(node)
        if replica is None or node not in self.topology.nodes or replica.role is ReplicaRole.BROKEN:
            return None
        if replica.role is not ReplicaRole.WAITING:
            return replica
        found = self.inspected.get(node)
        return found if found and found.incarnation == replica.incarnation else None

    def is_hidden(self, node: str) -> bool:
        """Returns whether a replica waits here that has not been inspected yet."""
        replica = self.group.replicas.get(node)
        return (
            node in self.topology.nodes
            and replica is not None
            and replica.role is ReplicaRole.WAITING
            and self.seen(node) is None
        )

    def is_broken(self, node: str) -> bool:
        """Returns whether this node reports its replica as unusable."""
        replica = self.group.replicas.get(node)
        return replica is not None and replica.role is ReplicaRole.BROKEN

    def hold(self, keys: PartitionKeys) -> frozenset[str]:
        """Nodes in the topology that aren't known to have lost their replica's state (hole 6)."""
        named = _named(keys, self.group)
        return frozenset(n for n in self.topology.nodes if self._holds(n, named.get(n)))

    def _holds(self, node: str, incarnations: frozenset[str] | None) -> bool:
        if node not in self.answered:
            return True
        replica = self.group.replicas.get(node)
        if replica is None or replica.role is ReplicaRole.BROKEN:
            return False
        if incarnations is not None:
            return replica.incarnation in incarnations
        return replica.role is ReplicaRole.WAITING or replica.configuration is not None


def _named(keys: PartitionKeys, group: Group) -> dict[str, frozenset[str]]:
    """Returns, by node, the incarnations that the newest configuration or the lock counts."""
    configurations = [r.configuration for r in group.replicas.values() if r.configuration]
    peers: list[PeerName] = []
    if configurations:
        newest = max(configurations, key=lambda c: (c.lineage, c.token, c.index))
        peers += members(newest)
    if keys.pending_lock is not None:
        peers += keys.pending_lock.peers
    named: dict[str, set[str]] = {}
    for peer in peers:
        named.setdefault(peer.node, set()).add(peer.incarnation)
    return {node: frozenset(incarnations) for node, incarnations in named.items()}


# ------------------------------------------------------------------------------- checkMajority


def has_lost_majority(keys: PartitionKeys, holders: ReplicaHolders, since_version: int) -> bool:
    """checkMajority(partition, revision) is false, at that event's version and ever since.

    Hole 6: for stable and, while the lock isn't empty, for pending too. Hole 7: a forced pending
    stands for itself alone. Members are counted that held their state at any version from the
    event's on, so that a majority that came back in between ends this loss: the next one has a
    timer of its own.
    """
    if keys.bootstrap is None or keys.stable is None:
        return False
    hold = holders.hold(keys)
    departed = holders.topology.departed

    def counts(node: str) -> bool:
        return node in hold or (node in departed and departed[node].left > since_version)

    def is_lost(nodes: Iterable[str]) -> bool:
        names = list(nodes)
        return not is_majority(sum(map(counts, names)), len(names))

    if keys.is_forced:
        return is_lost(keys.pending_nodes)
    if is_lost(keys.stable.nodes):
        return True
    return keys.pending_lock is not None and is_lost(p.node for p in keys.pending_lock.peers)


# ------------------------------------------------------------------------------ resetPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class UndecidedReset:
    """A reset that is due and can't be decided: `unheard` must answer or leave first, or, if there
    are none, a node that holds the partition's newest state must join.
    """

    unheard: tuple[str, ...]


def last_forced_token(keys: PartitionKeys) -> int:
    """Returns the token of the last forced set that the group carried out: the chain's newest
    link's.
    """
    if not keys.chain:
        return 0
    return keys.chain[-1].token


def reset_partition(
    keys: PartitionKeys, holders: ReplicaHolders, *, revision: int, token: int
) -> PartitionKeys | UndecidedReset:
    """ "Reset must work in 2 phases: (planned=targetTopology, pending=singleAliveNode)" (hole 7).

    The candidates are the alive holders, of stable or pending, whose configuration isn't older than
    the last forced one. The one with the newest log goes on alone; ties by name. `token`: above
    every token that was seen.
    """
    assert keys.stable is not None
    nodes = keys.stable_nodes | keys.pending_nodes
    unheard = {n for n in nodes if n in holders.silent or holders.is_hidden(n)}
    if unheard:
        return UndecidedReset(unheard=tuple(sorted(unheard)))
    hold, least = holders.hold(keys), last_forced_token(keys)
    candidates = {
        node: replica
        for node in sorted(nodes & hold)
        if (replica := holders.seen(node)) is not None
        and replica.configuration is not None
        and replica.configuration.token >= least
    }
    if not candidates:
        return UndecidedReset(unheard=())
    return two_phases(keys, newest_log(candidates), candidates, revision=revision, token=token)


def is_there(survivor: PeerName, holders: ReplicaHolders) -> bool:
    """Returns whether this very replica is there and may go on. True if the node is silent, or its
    replica has not been inspected yet.
    """
    node = survivor.node
    if node in holders.silent or holders.is_hidden(node):
        return True
    replica = holders.seen(node)
    return (
        replica is not None
        and replica.incarnation == survivor.incarnation
        and replica.configuration is not None
    )


def reset_to(
    keys: PartitionKeys, holders: ReplicaHolders, survivor: PeerName, *, revision: int, token: int
) -> PartitionKeys | UndecidedReset:
    """Returns the keys of a reset by hand to the replica that a person has chosen; it `is_there`.

    It may be of an older lineage, if the survivor of the last reset died before any other node had
    a copy of its log. All that are there follow. What the chain's links since that lineage hold is
    given up, so that no partition waits for them any more.
    """
    nodes = keys.stable_nodes | keys.pending_nodes | {survivor.node}
    unheard = {n for n in nodes if n in holders.silent or holders.is_hidden(n)}
    if unheard:
        return UndecidedReset(unheard=tuple(sorted(unheard)))
    chosen = holders.seen(survivor.node)
    assert chosen is not None
    assert chosen.configuration is not None
    lineage = chosen.configuration.lineage
    nodes |= {node for link in keys.chain for node in link.nodes}
    together = [
        node
        for node in nodes
        if (replica := holders.seen(node)) is not None and replica.configuration is not None
    ]
    kept = tuple(link for link in keys.chain[1:] if link.token <= lineage)
    after = two_phases(keys, survivor.node, together, revision=revision, token=token)
    return replace(after, chain=(*keys.chain[:1], *kept))


def newest_log(candidates: Mapping[str, ReplicaStatus]) -> str:
    """ "The newest (term, index) wins, ties by name"."""
    return min(
        candidates,
        key=lambda node: (-candidates[node].last_term, -candidates[node].last_index, node),
    )


def two_phases(
    keys: PartitionKeys, chosen: str, together: Iterable[str], *, revision: int, token: int
) -> PartitionKeys:
    """Pending forced to the chosen node, then all of `together`; a reset raises both revisions."""
    planned = AssignmentSet(nodes=tuple(sorted({chosen, *together})), from_reset=True)
    return replace(
        keys,
        pending=AssignmentSet(nodes=(chosen,), force=True),
        planned=None if planned.nodes == (chosen,) else planned,
        pending_lock=None,
        configuration_token=token,
        switch_reduce=(),
        switch_append=(),
        reset_revision=revision,
        change_trigger_revision=max(revision, keys.change_trigger_revision),
    )


# ----------------------------------------------------------------------------- Carried out or not


def forced_node(keys: PartitionKeys) -> str | None:
    """Returns the node that a running reset has chosen, None if none runs."""
    if not keys.is_forced:
        return None
    (node,) = keys.pending_nodes
    return node


def forced_token(keys: PartitionKeys) -> int:
    """Returns the token below which no replica takes part: the running reset's, or the last one's
    (hole 12).
    """
    return keys.configuration_token if keys.is_forced else last_forced_token(keys)


def is_carried_out(keys: PartitionKeys, leading: ReplicaStatus | None) -> bool:
    """Returns whether the survivor reports that it leads alone, by this reset, and committed (hole
    11).

    Compares the token: an older configuration of the same single node isn't this reset's.
    """
    if keys.pending is None or leading is None or leading.configuration is None:
        return False
    configuration = leading.configuration
    return (
        configuration.token >= keys.configuration_token
        and not configuration.old_peers
        and tuple(peer.node for peer in configuration.peers) == keys.pending.nodes
        and configuration.index <= leading.commit
    )
