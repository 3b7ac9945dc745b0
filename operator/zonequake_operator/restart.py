"""The restart of a whole group (document `high-availability`, "Start of the node"; design §3,
hole 9).

    a member has had a leader since its process started    ordinary recovery
    one link in the chain                                  ordinary recovery
    else nobody starts, all are inspected, and the         two-phase reset to the target link
    chain is unwound

Ordinary recovery waits for a majority, or for a reset that is due (hole 7: "the reset stays due for
the next join"). Whoever shuts down a whole cluster for longer than the reset time-out and wants all
nodes awaited pauses its zones first.
"""

from __future__ import annotations

from zonequake_store.admin_protocol import Role

from . import chain
from .model import PartitionKeys
from .reset import Holders, forced_node, two_phases


def must_unwind(keys: PartitionKeys, holders: Holders) -> bool:
    """Was the whole group stopped, with more than one link that may hold the newest user data?"""
    return len(keys.chain) > 1 and was_stopped(keys, holders) and not is_under_way(keys, holders)


def was_stopped(keys: PartitionKeys, holders: Holders) -> bool:
    """Is no member "alive": running, with a leader of its group since its process started?

    A member that is silent may be.
    """
    nodes = keys.stable_nodes | keys.pending_nodes
    if nodes & holders.silent:
        return False
    replicas = holders.group.replicas
    return not any(
        node in holders.topology.nodes and node in replicas and replicas[node].is_alive
        for node in nodes
    )


def is_under_way(keys: PartitionKeys, holders: Holders) -> bool:
    """Has the node of a forced pending got its permission to start in its present process?

    Nobody is started before the chain is unwound, so that was decided after the restart.
    """
    node = forced_node(keys)
    if node is None:
        return False
    replica = holders.group.replicas.get(node)
    return (
        replica is not None
        and node in holders.topology.nodes
        and replica.role not in (Role.WAITING, Role.BROKEN)
        and replica.enforced_lineage >= keys.configuration_token
    )


def unwind(
    keys: PartitionKeys, holders: Holders, *, revision: int, token: int
) -> PartitionKeys | chain.Unjudged:
    """The keys that form the group anew, on the link that the chain's user entries name.

    Equal keys if that is decided already.
    """
    reported = {
        node: holders.seen(node)
        for link in keys.chain
        for node in link.nodes
        if node in holders.topology.nodes
        and node in holders.answered
        and not holders.is_hidden(node)
        and not holders.is_broken(node)
    }
    found = chain.unwind(keys.chain, reported)
    if isinstance(found, chain.Unjudged):
        return found
    together = [n for n in keys.chain[found.link].nodes if reported.get(n) is not None]
    unwound = two_phases(keys, found.source, together, revision=revision, token=token)
    if (keys.pending, keys.planned) == (unwound.pending, unwound.planned):
        return keys
    return unwound
