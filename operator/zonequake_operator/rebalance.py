"""The rebalance of one partition (document `rebalance`; design §3, holes 1-4, 10, 13, 15).

    wish ──▶ pending ──start nodes, changePeers──▶ CATCHING_UP ──lock, grant──▶ JOINT ─▶ STABLE
      │         ▲                                                                          │
      └▶ planned└──────────────────── stable switch: stable = pending, pending = planned ◀─┘

`decide` says what the keys must become; `orders` says what to tell the data nodes. Orders are
derived from keys that are stored already, so a token is always raised by compare-and-swap before
an order with it leaves, and a restarted operator sends the same orders again, which is harmless.

The document's "current node is the leader" is the operator acting on the leader's own report; its
`onLeaderElected` and `onReconfigurationError` are the same code seeing another leader, or a leader
that is back in STAGE_NONE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from zonequake_store.admin_protocol import (
    Bootstrap,
    ChangePeers,
    Grant,
    Order,
    PeerName,
    ReplicaStatus,
    Role,
    Stage,
    StartReplica,
    StopReplica,
)

from .groups import RUNNING, Group, is_majority, members
from .model import AssignmentSet, ChangePeersMode, PartitionKeys, TokenPeers


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the partition should become.

    `target` is calcPartAssignments(), None if there are no data nodes. `due`: the zone's revision
    is above the partition's trigger revision.
    """

    target: AssignmentSet | None
    revision: int
    due: bool
    mode: ChangePeersMode = ChangePeersMode.QUEUE


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSettings:
    """What a start order carries of the zone and of the other nodes."""

    zone: str
    partition: int
    partitions: int
    fsync: bool
    catch_up_bytes_per_second: int
    addresses: Mapping[str, str]


def decide(keys: PartitionKeys, group: Group, wish: Wish, alive: frozenset[str]) -> PartitionKeys:
    """What the keys must become; equal keys if nothing is due. `alive`: nodes in the topology."""
    after, made_due = _on_report(keys, group, alive)
    if wish.due or made_due:
        after = _on_wish(after, group, wish, alive)
    return after


# ------------------------------------------------------------- Write new pending assignments (1)


def _on_wish(keys: PartitionKeys, group: Group, wish: Wish, alive: frozenset[str]) -> PartitionKeys:
    """The trigger step: `metastoreInvoke` of the document, with holes 1, 10 and 13."""
    target = wish.target
    if target is None:
        return keys  # hole 10: "Empty data nodes never become assignments"
    if keys.bootstrap is None:
        # "takes its first non-empty calculated set directly as stable"; and again as long as no
        # member was told that it is one.
        after = keys
        if keys.stable != target:
            after = replace(keys, stable=target, configuration_token=_next_token(keys, group))
    elif keys.pending is None:
        if keys.stable != target:
            # "if empty(pending) && stable != calcPartAssighments(): pending = calc…()"
            after = _set_pending(keys, target, group)
        else:
            after = replace(keys, planned=None)  # hole 1: an orphan would stay
    elif keys.pending.nodes == target.nodes:
        after = replace(keys, planned=None)  # "else remove(partition.assignments.planned)"
    elif is_blocked(keys, alive):
        after = _set_pending(keys, target, group)  # hole 13
    elif (
        wish.mode is ChangePeersMode.UPDATE
        and keys.pending_lock is None
        and not counts_as_locked(keys.pending)
    ):
        # Approach 1: "if empty(partition.assignments.pending.lock): pending = …"
        after = _set_pending(keys, target, group)
    elif keys.planned is not None and keys.planned.nodes == target.nodes:
        after = keys  # hole 13: "one equal to planned leaves planned and its flag"
    else:
        after = replace(keys, planned=target)  # "planned = calcPartAssignments()"
    if after == keys:
        return keys  # the zone's handled revision stands for it (design §3, Revision)
    return replace(after, change_trigger_revision=max(wish.revision, keys.change_trigger_revision))


def counts_as_locked(pending: AssignmentSet) -> bool:
    """Is this pending one that no wish may replace (hole 13)? The switch keys come later."""
    return pending.force or pending.from_reset


def is_blocked(keys: PartitionKeys, alive: frozenset[str]) -> bool:
    """Can this pending not be reached now (hole 13)?

    Not forced, lock empty, and a node of it outside stable isn't alive, or its alive nodes are no
    majority.
    """
    pending, stable = keys.pending, keys.stable
    if pending is None or pending.force or keys.pending_lock is not None:
        return False
    joining = set(pending.nodes) - set(stable.nodes if stable else ())
    return not (
        joining <= alive and is_majority(len(alive & set(pending.nodes)), len(pending.nodes))
    )


def _set_pending(keys: PartitionKeys, pending: AssignmentSet, group: Group) -> PartitionKeys:
    # "A wish that becomes pending removes planned" (hole 13).
    return replace(
        keys,
        pending=pending,
        planned=None,
        pending_lock=None,
        configuration_token=_next_token(keys, group),
    )


def _next_token(keys: PartitionKeys, group: Group) -> int:
    """Above our own, and above any that a replica has seen: stored keys may be a restored copy."""
    seen = (replica.token for replica in group.replicas.values())
    return max(keys.configuration_token, *seen, 0) + 1


# ------------------------------------------------------------ What the leader's report means


def _on_report(
    keys: PartitionKeys, group: Group, alive: frozenset[str]
) -> tuple[PartitionKeys, bool]:
    """Keys after the group's reports, and whether the partition is due again."""
    if any(replica.token > keys.configuration_token for replica in group.replicas.values()):
        # Only when the keys were lost or restored from a copy; our orders would all be stale.
        keys = replace(keys, configuration_token=_next_token(keys, group))
    if keys.bootstrap is None:
        return _on_first_reports(keys, group), False
    leading = group.leading
    if leading is None or leading.configuration is None or keys.stable is None:
        return keys, False
    if keys.pending is None:
        return (_on_nothing_wanted(keys, group) if group.confirmed else keys), False
    if _is_applied(keys.pending, leading, group):
        return _stable_switch(keys, group), True
    if leading.stage is Stage.NONE:
        return _on_stage_none(keys, leading, group)
    if leading.stage is Stage.CATCHING_UP:
        return _on_catching_up(keys, leading, group, alive)
    return keys, False


def _on_first_reports(keys: PartitionKeys, group: Group) -> PartitionKeys:
    leading = group.leading
    if leading is not None and leading.configuration is not None:
        # The Partition was lost and made again, but its group lives: its configuration counts.
        configuration = leading.configuration
        if not group.confirmed or configuration.old_peers:
            return keys
        return PartitionKeys(
            stable=AssignmentSet.of(*(peer.node for peer in configuration.peers)),
            configuration_token=_next_token(keys, group),
            bootstrap=TokenPeers(
                token=configuration.token, peers=tuple(sorted(configuration.peers))
            ),
            change_trigger_revision=keys.change_trigger_revision,
        )
    if keys.stable is None or _someone_has_data(group):
        return keys
    if not all(group.is_running(node) for node in keys.stable.nodes):
        return keys
    peers = tuple(PeerName(n, group.replicas[n].incarnation) for n in keys.stable.nodes)
    return replace(keys, bootstrap=TokenPeers(token=keys.configuration_token, peers=peers))


def _someone_has_data(group: Group) -> bool:
    """Or may have: a replica that waits or is broken doesn't show its configuration."""
    return any(
        replica.configuration is not None or replica.role not in RUNNING
        for replica in group.replicas.values()
    )


def _on_nothing_wanted(keys: PartitionKeys, group: Group) -> PartitionKeys:
    """`stable` under a new token, if the group stands or is going elsewhere: one more change.

    It has drifted: a member came back without its storage, as another incarnation, or the keys
    come from a copy. Or its leader runs a change that nobody wants: an order that was under way
    came after the stable switch. A leader waits for its grant for ever, and meets later changes
    with `busy`, so that change is replaced by one that is seen through.
    """
    leading, stable = group.leading, keys.stable
    assert leading is not None
    assert stable is not None
    if leading.stage is Stage.NONE and not _is_carried(stable, leading, group):
        return _set_pending(keys, stable, group)
    if leading.stage is Stage.CATCHING_UP:
        wanted = replace(keys, pending=stable)
        asked = (leading.stage_token, _sorted(leading.stage_peers))
        if asked == (keys.configuration_token, _peers(wanted, group)):
            return wanted  # it only lacks its grant
        return _set_pending(keys, stable, group)
    return keys


def _is_applied(wanted: AssignmentSet, leading: ReplicaStatus, group: Group) -> bool:
    """Did the group commit a configuration of exactly these nodes, as they now are (hole 2)?

    While the leader catches peers up the answer is no: those peers are another configuration's,
    and must be replaced by ours before their nodes are cleaned.
    """
    configuration = leading.configuration
    return (
        configuration is not None
        and configuration.index <= leading.commit
        and leading.stage is not Stage.CATCHING_UP
        and _is_carried(wanted, leading, group)
    )


def _is_carried(wanted: AssignmentSet, leading: ReplicaStatus, group: Group) -> bool:
    """Is the leader's configuration of exactly these nodes, as they now are, perhaps uncommitted?

    Every new leader appends its configuration again, so for a moment after each election it shows
    one that isn't committed. It is on its way, and must not be asked for once more.
    """
    configuration = leading.configuration
    return (
        configuration is not None
        and not configuration.old_peers
        and {peer.node for peer in configuration.peers} == set(wanted.nodes)
        and all(
            peer.incarnation == group.replicas[peer.node].incarnation
            for peer in configuration.peers
            if group.is_running(peer.node)
        )
    )


def _stable_switch(keys: PartitionKeys, group: Group) -> PartitionKeys:
    """onNewPeersConfigurationApplied: "stable = appliedPeers", pending = planned or empty."""
    assert keys.pending is not None
    stable = AssignmentSet(nodes=keys.pending.nodes)
    if keys.planned is None:
        return replace(keys, stable=stable, pending=None, pending_lock=None)
    return replace(_set_pending(keys, keys.planned, group), stable=stable)


def _on_stage_none(
    keys: PartitionKeys, leading: ReplicaStatus, group: Group
) -> tuple[PartitionKeys, bool]:
    """onLeaderElected, onReconfigurationError: the change must be started (again)."""
    assert leading.configuration is not None
    assert keys.pending is not None
    if _is_carried(keys.pending, leading, group):
        return keys, False  # an earlier leader's last step, which this one is committing
    if keys.pending_lock is not None:
        return _release(keys, group)
    if leading.configuration.token >= keys.configuration_token:
        return replace(keys, configuration_token=_next_token(keys, group)), False
    return keys, False


def _release(keys: PartitionKeys, group: Group) -> tuple[PartitionKeys, bool]:
    """The leader doesn't run what was locked, so no leader does or will.

    Hole 15: "else STAGE_NONE at the current term empties the lock and makes the partition due".
    The new token shuts out a grant that is still under way: this leader may have gone back to
    NONE, and would take it once it has caught up the same peers again.
    """
    if not group.confirmed:
        return keys, False
    return replace(keys, pending_lock=None, configuration_token=_next_token(keys, group)), True


def _on_catching_up(
    keys: PartitionKeys, leading: ReplicaStatus, group: Group, alive: frozenset[str]
) -> tuple[PartitionKeys, bool]:
    if leading.stage_token < keys.configuration_token:
        # An older change, which gives way to ours. It has come after the lock only by an order
        # that was under way: then nobody runs what was locked.
        return _release(keys, group) if keys.pending_lock is not None else (keys, False)
    peers = _peers(keys, group)
    if peers is None:
        return keys, False
    if leading.stage_token > keys.configuration_token or _sorted(leading.stage_peers) != peers:
        # A peer lost its storage meanwhile: name it anew, under a new token.
        token = _next_token(keys, group)
        return replace(keys, pending_lock=None, configuration_token=token), False
    lock = TokenPeers(token=keys.configuration_token, peers=peers)
    if leading.caught_up and keys.pending_lock != lock and _majority_holds(peers, group, alive):
        # tryCatchUpFinish: "if peers == partition.assignments.pending: pending.lock = true".
        return replace(keys, pending_lock=lock), False
    return keys, False


def _majority_holds(peers: tuple[PeerName, ...], group: Group, alive: frozenset[str]) -> bool:
    """Is a majority of these peers in the topology, and does it still hold its replicas (hole 6)?

    A node that doesn't answer in this round isn't counted: granted now, the change might need it.
    """
    holding = [
        peer.node in alive
        and group.is_running(peer.node)
        and group.replicas[peer.node].incarnation == peer.incarnation
        for peer in peers
    ]
    return is_majority(sum(holding), len(peers))


def _peers(keys: PartitionKeys, group: Group) -> tuple[PeerName, ...] | None:
    """Pending with incarnations; None while some new node's replica hasn't started.

    Or hasn't seen the present token.
    """
    assert keys.pending is not None
    leading = group.leading
    configured = {}
    if leading is not None and leading.configuration is not None:
        configured = {peer.node: peer for peer in members(leading.configuration)}
    peers = []
    for node in keys.pending.nodes:
        if _lacks_token(node, keys, group):
            return None
        if group.is_running(node):
            peers.append(PeerName(node, group.replicas[node].incarnation))
        elif node in configured:
            peers.append(configured[node])  # a member that is down keeps its place
        else:
            return None
    return tuple(sorted(peers))


def _lacks_token(node: str, keys: PartitionKeys, group: Group) -> bool:
    """Could this newcomer still be erased by an older order?

    It stayed from an earlier set, and an order to erase it may be under way. Once it has seen the
    present token that order is stale; before, the group must not come to need it.
    """
    return (
        group.is_running(node)
        and node not in group.configured_nodes
        and group.replicas[node].token < keys.configuration_token
    )


def _sorted(peers: list[PeerName]) -> tuple[PeerName, ...]:
    return tuple(sorted(peers))


# --------------------------------------------------- Start, changePeers (2) and cleanup (3): orders


def orders(
    keys: PartitionKeys,
    group: Group,
    settings: ReplicaSettings,
    *,
    alive: frozenset[str],
    reachable: frozenset[str],
    paused: bool = False,
) -> list[tuple[str, Order]]:
    """What to tell which node, from stored keys. A paused zone only restarts its own replicas."""
    told: list[tuple[str, Order]] = []
    told += _starts(keys, group, settings, reachable)
    if paused:
        return told
    told += _bootstraps(keys, group)
    told += _changes(keys, group, settings.addresses, alive)
    told += _stops(keys, group)
    return told


def hosts(keys: PartitionKeys) -> frozenset[str]:
    """Nodes that start a replica (hole 4): pending, and stable unless pending is forced."""
    nodes = frozenset(keys.pending.nodes if keys.pending else ())
    if keys.stable is not None and not (keys.pending is not None and keys.pending.force):
        nodes |= frozenset(keys.stable.nodes)
    return nodes


def _starts(
    keys: PartitionKeys, group: Group, settings: ReplicaSettings, reachable: frozenset[str]
) -> list[tuple[str, Order]]:
    own = hosts(keys)
    # Beside our own: nodes of a configuration that still acts, so that its majority can come back.
    waiting = frozenset(n for n, r in group.replicas.items() if r.role is Role.WAITING)
    acting = group.configured_nodes
    if group.leader is None and not (keys.pending is not None and keys.pending.force):
        acting = group.remembered_nodes  # whoever is to lead may need them
    if keys.bootstrap is None:
        acting = waiting  # what they hold shows only once they run
    nodes = {n for n in own & reachable if n not in group.replicas} | (waiting & (own | acting))
    if keys.pending is not None and group.leader is not None:
        nodes |= {n for n in keys.pending.nodes if _lacks_token(n, keys, group)}
    return [
        (
            node,
            StartReplica(
                group=group.name,
                zone=settings.zone,
                partition=settings.partition,
                partitions=settings.partitions,
                token=_start_token(keys, group, node),
                fsync=settings.fsync,
                catch_up_bytes_per_second=settings.catch_up_bytes_per_second,
                addresses=dict(settings.addresses),
            ),
        )
        for node in sorted(nodes)
    ]


def _start_token(keys: PartitionKeys, group: Group, node: str) -> int:
    """The present token; but a first member that knows no later one keeps its bootstrap's.

    It may lack its bootstrap, and would refuse it as stale: decided with token 1, crashed, started
    again with the token 2 of a wish that came meanwhile.
    """
    replica = group.replicas.get(node)
    if replica is None or keys.bootstrap is None or replica.token > keys.bootstrap.token:
        return keys.configuration_token
    if keys.pending is not None and group.leader is not None and _lacks_token(node, keys, group):
        return keys.configuration_token  # the group lives, and without it
    first = PeerName(node, replica.incarnation) in keys.bootstrap.peers
    return keys.bootstrap.token if first else keys.configuration_token


def _bootstraps(keys: PartitionKeys, group: Group) -> list[tuple[str, Order]]:
    """The first configuration, for those it was decided for; never after a wipe."""
    if keys.bootstrap is None or keys.stable is None:
        return []
    order = Bootstrap(
        group=group.name, token=keys.bootstrap.token, peers=list(keys.bootstrap.peers)
    )
    return [
        (peer.node, order)
        for peer in keys.bootstrap.peers
        if peer.node in keys.stable.nodes
        and group.is_running(peer.node)
        and group.replicas[peer.node].incarnation == peer.incarnation
        and group.replicas[peer.node].configuration is None
    ]


def _changes(
    keys: PartitionKeys, group: Group, addresses: Mapping[str, str], alive: frozenset[str]
) -> list[tuple[str, Order]]:
    """RaftGroupService#changePeersAsync(leaderTerm, peers), and the answer to "caught up"."""
    leading, token = group.leading, keys.configuration_token
    if keys.pending is None or group.leader is None or leading is None:
        return []
    if leading.configuration is None or _is_applied(keys.pending, leading, group):
        return []
    peers = _peers(keys, group)
    if peers is None:
        return []
    if leading.stage is Stage.CATCHING_UP and leading.stage_token == token:
        asked = TokenPeers(token=token, peers=_sorted(leading.stage_peers))
        granted = leading.caught_up and keys.pending_lock == asked
        if granted and _majority_holds(peers, group, alive):
            grant = Grant(group=group.name, term=leading.term, token=token, peers=list(peers))
            return [(group.leader, grant)]
        return []
    starts = (
        leading.stage is Stage.NONE
        and leading.configuration.token < token
        and not _is_carried(keys.pending, leading, group)
    )
    updates = leading.stage is Stage.CATCHING_UP and leading.stage_token < token
    if keys.pending_lock is not None or not (starts or updates):
        return []
    change = ChangePeers(
        group=group.name,
        term=leading.term,
        token=token,
        peers=list(peers),
        addresses={peer.node: addresses[peer.node] for peer in peers if peer.node in addresses},
    )
    return [(group.leader, change)]


def _stops(keys: PartitionKeys, group: Group) -> list[tuple[str, Order]]:
    """ "Stop unneeded raft nodes", by hole 15: only under a confirmed leader, which needs none."""
    if keys.bootstrap is None:
        if keys.stable is None or _someone_has_data(group):
            return []
    elif not group.confirmed:
        return []
    needed = hosts(keys)
    if keys.pending is None or not keys.pending.force:
        needed |= group.configured_nodes
    return [
        (
            node,
            StopReplica(
                group=group.name, token=keys.configuration_token, incarnation=replica.incarnation
            ),
        )
        for node, replica in sorted(group.replicas.items())
        if node not in needed
    ]
