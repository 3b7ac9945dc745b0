"""The orders of a reset to data nodes (design §3, holes 4, 11 and 12; docs/model.md, the rules with
*).

    pending forced ──▶ every running replica is told: nothing older than this token takes part
                   ──▶ then the survivor: resetPeers, repeated until it reports that it leads alone

In that order: a node of the old majority that isn't told could still acknowledge beside it.
"""

from __future__ import annotations

from zonequake_operator.groups.reports import Group
from zonequake_operator.high_availability.reset import forced_node, forced_token, is_carried_out
from zonequake_operator.resources.model import PartitionKeys
from zonequake_protocol.admin import InspectReplica, Order, PeerName, ReplicaRole, ResetPeers


def to_tell(keys: PartitionKeys, group: Group) -> frozenset[str]:
    """Returns the nodes whose replicas run without knowing of the newest reset.

    Excludes the survivor of a running reset: it would forget a leader that it may still hear, which
    makes it refuse. Includes it if it leads alone by an older reset: then it is that leader itself.
    """
    return frozenset(
        node
        for node in _untold(keys, group)
        if node != forced_node(keys) or _leads_alone(node, group)
    )


def _untold(keys: PartitionKeys, group: Group) -> frozenset[str]:
    token = forced_token(keys)
    return frozenset(
        node
        for node, replica in group.replicas.items()
        if group.is_running(node) and replica.enforced_lineage < token
    )


def _leads_alone(node: str, group: Group) -> bool:
    replica = group.replicas[node]
    configuration = replica.configuration
    return (
        replica.role is ReplicaRole.LEADER
        and configuration is not None
        and {peer.node for peer in (*configuration.peers, *configuration.old_peers)} == {node}
    )


def resets(
    keys: PartitionKeys, group: Group, *, alive: frozenset[str], answered: frozenset[str]
) -> list[tuple[str, Order]]:
    """Returns resetPeers for the survivor, once no other replica can acknowledge anything.

    A member that is in the topology but silent may still run: it must answer, or leave by proof.
    """
    node = forced_node(keys)
    if node is None or not group.is_running(node) or is_carried_out(keys, group.leading):
        return []
    could_run = keys.stable_nodes | keys.planned_nodes | group.remembered_nodes
    could_run |= {name for link in keys.chain for name in link.nodes}
    if (could_run & alive) - answered - {node} or _untold(keys, group) - {node}:
        return []
    replica = group.replicas[node]
    order = ResetPeers(
        group=group.name,
        term=replica.term,
        token=keys.configuration_token,
        peers=[PeerName(node, replica.incarnation)],
    )
    return [(node, order)]


def inspections(nodes: frozenset[str], group: Group) -> list[tuple[str, Order]]:
    """ "One request for each node": what its waiting replica holds."""
    return [(node, InspectReplica(group=group.name)) for node in sorted(nodes)]
