"""The evidence of a group's reports on a change of its peers: named, carried, applied.

Shared by the keys (`rebalance`) and the orders (`orders`), which must never judge differently.
"""

from __future__ import annotations

from zonequake_operator.groups.reports import RUNNING, Group, is_majority, members
from zonequake_operator.resources.model import AssignmentSet, PartitionKeys
from zonequake_protocol.admin import PeerName, ReconfigurationStatus, ReplicaStatus, Stage


def someone_has_data(keys: PartitionKeys, group: Group) -> bool:
    """Returns whether a replica has data, so that a first configuration is ruled out.

    Once the loss of all members' data is recorded, only remains on the members themselves count:
    they are erased before.
    """
    nodes = holders(group)
    if keys.bootstrap_lineage and keys.stable is not None:
        nodes &= frozenset(keys.stable.nodes)
    return bool(nodes)


def holders(group: Group) -> frozenset[str]:
    """Nodes that hold data, or may: one that waits or is broken doesn't show its configuration."""
    return frozenset(
        node
        for node, replica in group.replicas.items()
        if replica.configuration is not None or replica.role not in RUNNING
    )


def is_applied(
    wanted: AssignmentSet, leading: ReplicaStatus, group: Group, lost: tuple[str, ...] = ()
) -> bool:
    """Returns whether the group has committed a configuration of exactly these nodes' replicas
    (hole 2).

    False while the leader catches peers up: those peers are another configuration's, and must be
    replaced by ours before their nodes are cleaned.
    """
    configuration = leading.configuration
    return (
        configuration is not None
        and configuration.index <= leading.commit
        and leading.stage is not Stage.CATCHING_UP
        and is_carried(wanted, leading, group, lost)
    )


def is_carried(
    wanted: AssignmentSet, leading: ReplicaStatus, group: Group, lost: tuple[str, ...] = ()
) -> bool:
    """Returns whether the leader's configuration, committed or not, is of exactly these nodes'
    replicas.

    Every new leader appends its configuration again, so for a moment after each election it shows
    one that isn't committed. It is on its way, and must not be asked for once more. `lost`:
    switchReduce, whose nodes are in it as they were before; they leave it by the next step.
    """
    configuration = leading.configuration
    return (
        configuration is not None
        and not configuration.old_peers
        and {peer.node for peer in configuration.peers} == set(wanted.nodes)
        and all(
            peer.incarnation == group.replicas[peer.node].incarnation
            for peer in configuration.peers
            if group.is_running(peer.node) and peer.node not in lost
        )
    )


def majority_holds(peers: tuple[PeerName, ...], group: Group, alive: frozenset[str]) -> bool:
    """Returns whether a majority of these peers is in the topology and still holds its replicas
    (hole 6).

    A node that doesn't answer in this round isn't counted: granted now, the change might need it.
    """
    holding = [
        peer.node in alive
        and group.is_running(peer.node)
        and group.replicas[peer.node].incarnation == peer.incarnation
        for peer in peers
    ]
    return is_majority(sum(holding), len(peers))


def lost_majority(peers: tuple[PeerName, ...], group: Group) -> bool:
    """Returns whether a majority of these peers can never come back: their nodes answer without
    them.
    """
    left = [
        peer.node not in group.answered
        or (
            peer.node in group.replicas
            and group.replicas[peer.node].incarnation == peer.incarnation
        )
        for peer in peers
    ]
    return not is_majority(sum(left), len(peers))


def named_peers(keys: PartitionKeys, group: Group) -> tuple[PeerName, ...] | None:
    """Pending with incarnations; None while some new node's replica hasn't started.

    Or hasn't seen the present token. One that has gone since the leader began to catch it up is
    still the peer that the leader names: the lock needs "a majority of the peers", not all (hole
    15).
    """
    assert keys.pending is not None
    leading, token = group.leading, keys.configuration_token
    configured = {}
    if leading is not None:
        if leading.stage is Stage.CATCHING_UP and leading.stage_token == token:
            configured = {peer.node: peer for peer in leading.stage_peers}
        if leading.configuration is not None:
            configured |= {peer.node: peer for peer in members(leading.configuration)}
    peers = []
    for node in keys.pending.nodes:
        if lacks_token(node, keys, group):
            return None
        if group.is_running(node) and not (node in keys.switch_reduce and node in configured):
            peers.append(PeerName(node, group.replicas[node].incarnation))
        elif node in configured:
            # A member that is down keeps its place, and a lost one the one that it is to leave.
            peers.append(configured[node])
        else:
            return None
    return tuple(sorted(peers))


def lacks_token(node: str, keys: PartitionKeys, group: Group) -> bool:
    """Returns whether an older order could still erase this newcomer.

    It stayed from an earlier set, and an order to erase it may be under way. Once it has seen the
    present token that order is stale; before, the group must not come to need it.
    """
    return (
        group.is_running(node)
        and node not in group.configured_nodes
        and group.replicas[node].token < keys.configuration_token
    )


def is_cancelled(keys: PartitionKeys, leading: ReplicaStatus) -> bool:
    """Returns whether the leader answered `received` to cancelChangePeers of the present change.

    That is the document's true: nothing was there to cancel, or it was cancelled. It shows in the
    report until the next change begins, because an answer may be lost.
    """
    return (
        leading.stage is Stage.NONE
        and leading.reconfiguration_status is ReconfigurationStatus.CANCELLED
        and leading.token >= keys.configuration_token
    )


def next_token(keys: PartitionKeys, group: Group) -> int:
    """Returns a token above our own, and above any that a replica has seen: stored keys may be a
    restored copy.
    """
    seen = (replica.token for replica in group.replicas.values())
    return max(keys.configuration_token, *seen, 0) + 1


def in_order(peers: list[PeerName]) -> tuple[PeerName, ...]:
    """Returns the peers in the order of stored keys."""
    return tuple(sorted(peers))
