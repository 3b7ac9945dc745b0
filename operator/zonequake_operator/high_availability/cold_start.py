"""The restart of a whole group (document `high-availability`, "Start of the node", use case step 5
and key outcome 2; design §3, holes 7 and 9).

    no member is alive any more         the group is *stopped*: written with its keys
    one link in the chain               ordinary recovery: a majority, by Raft's own rules
    more, or a reset without its node no node starts, all are inspected, and the chain is unwound:
                                        two-phase reset to the chosen link
    it leads again                      it isn't stopped any more

A member is "alive" that has had a leader since its process started. While a group is stopped no
timer resets it: the first node to come back may lag. A reset by hand ends the wait.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from zonequake_operator.groups.reports import is_majority
from zonequake_operator.high_availability import chain
from zonequake_operator.high_availability.reset import ReplicaHolders, forced_node, two_phases
from zonequake_operator.resources.model import PartitionKeys

# ------------------------------------------------------------------- Stopped: written in the keys


def has_just_stopped(keys: PartitionKeys, holders: ReplicaHolders) -> bool:
    """Returns whether the group stops with this observation. False if all members run: the group is
    about to lead, and a new group never did.
    """
    if keys.is_stopped or keys.stable is None or not was_stopped(keys, holders):
        return False
    begins = not keys.is_forced and len(keys.chain) < 2
    return not (begins and all(map(holders.group.is_running, keys.stable.nodes)))


def as_stopped(keys: PartitionKeys) -> PartitionKeys:
    """Returns the keys of a stopped group. A reset that was begun before is known by its token."""
    return replace(keys, stopped_token=keys.configuration_token)


def by_hand(keys: PartitionKeys, after: PartitionKeys) -> PartitionKeys:
    """Returns the keys `after` a reset by hand, as stopped, so that only the loss of its survivor
    can undo it. The chosen node may have been started since, so that no member of the new keys is
    alive.
    """
    if keys.is_stopped or after == keys:
        return after
    return replace(after, stopped_token=keys.configuration_token)


def not_stopped(keys: PartitionKeys) -> PartitionKeys:
    """Returns the keys of a group that isn't stopped any more, since a majority follows its leader.
    It stays stopped until a running reset has ended: then its survivor leads, and the keys say
    so.
    """
    return keys if keys.is_forced else replace(keys, stopped_token=0)


def was_stopped(keys: PartitionKeys, holders: ReplicaHolders) -> bool:
    """Returns whether no member is "alive": running, with a leader of its group since its process
    started.

    A member that is silent may be. Members are those of stable, and of pending while it is locked
    (hole 6) or a reset: a peer that is only being caught up may lack nearly all data.
    """
    nodes = keys.stable_nodes
    if keys.pending_lock is not None or keys.is_resetting:
        nodes |= keys.pending_nodes
    if nodes & holders.silent:
        return False
    replicas = holders.group.replicas
    return not any(
        node in holders.topology.nodes and node in replicas and replicas[node].is_alive
        for node in nodes
    )


# ---------------------------------------------------------------------------- Ordinary recovery


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedNodes:
    """A stopped group needs `more` of `nodes`, which are away or lack its data, for a majority of
    `of`."""

    of: tuple[str, ...]
    nodes: tuple[str, ...]
    more: int


def awaited(keys: PartitionKeys, holders: ReplicaHolders) -> AwaitedNodes | None:
    """Returns the nodes that a stopped group still needs to lead: for stable and, while locked, for
    pending (hole 6).

    None: a majority is there, and elects.
    """
    assert keys.stable is not None
    hold = holders.hold(keys)
    locked = keys.pending_lock
    for names in (keys.stable.nodes, tuple(p.node for p in locked.peers) if locked else ()):
        lacking = tuple(node for node in names if node not in hold)
        if names and not is_majority(len(names) - len(lacking), len(names)):
            return AwaitedNodes(
                of=names, nodes=lacking, more=len(names) // 2 + 1 - len(names) + len(lacking)
            )
    return None


def all_are_back(keys: PartitionKeys, holders: ReplicaHolders) -> bool:
    """Returns whether every member is there and readable: there is no further node to wait for."""
    return all(
        node in holders.topology.nodes and not holders.is_broken(node)
        for node in keys.stable_nodes | keys.pending_nodes
    )


# --------------------------------------------------------------------------------- Chain unwind


def must_unwind(keys: PartitionKeys, holders: ReplicaHolders) -> bool:
    """Returns whether the whole group is stopped, and more than one set may hold the newest user
    data.
    """
    return (
        keys.is_stopped
        and (len(keys.chain) > 1 or (keys.is_forced and bool(keys.chain)))
        and was_stopped(keys, holders)
        and not is_under_way(keys, holders)
    )


def awaits_its_chain(keys: PartitionKeys, holders: ReplicaHolders) -> bool:
    """Returns whether the group is stopped, and more nodes must report before its chain can be
    unwound.
    """
    return must_unwind(keys, holders) and isinstance(
        unwind(keys, holders, revision=0, token=0), chain.UnjudgedLink
    )


def is_under_way(keys: PartitionKeys, holders: ReplicaHolders) -> bool:
    """Returns whether a reset is under way whose survivor is there with its data.

    It must have been decided since the group stopped. If the chain has one link, an earlier reset
    counts too: no other set can hold newer data than was known then.
    """
    node = forced_node(keys)
    return (
        node is not None
        and (keys.configuration_token > keys.stopped_token or len(keys.chain) < 2)
        and node in holders.hold(keys)
    )


def unwind(
    keys: PartitionKeys, holders: ReplicaHolders, *, revision: int, token: int
) -> PartitionKeys | chain.UnjudgedLink:
    """Returns the keys that form the group again, on the link that the chain's user entries name.

    A replica without a configuration, which died before it stored its bootstrap, holds nothing: it
    could be no survivor.
    """
    reported = {
        node: replica
        if (replica := holders.seen(node)) and replica.configuration is not None
        else None
        for link in keys.chain
        for node in link.nodes
        if node in holders.topology.nodes
        and node in holders.answered
        and not holders.is_hidden(node)
        and not holders.is_broken(node)
    }
    found = chain.unwind(keys.chain, reported)
    if isinstance(found, chain.UnjudgedLink):
        return found
    together = [n for n in keys.chain[found.link].nodes if reported.get(n) is not None]
    return two_phases(keys, found.source, together, revision=revision, token=token)
