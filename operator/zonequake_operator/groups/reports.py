"""One partition's Raft group as its replicas report it in one round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from zonequake_protocol.admin import (
    ConfigurationReport,
    PeerName,
    ReplicaRole,
    ReplicasReport,
    ReplicaStatus,
)

RUNNING = frozenset({ReplicaRole.FOLLOWER, ReplicaRole.CANDIDATE, ReplicaRole.LEADER})
"""Roles of a replica that got its start order and takes part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The replicas of a group that answered, by node, and its current leader.

    `leader` is the node that leads at the highest term among the members of its own configuration.
    `confirmed`: a majority of each half of that configuration follows it at that term, so that no
    later leader can exist that we don't see. What can't be taken back needs a confirmed leader.
    `answered`: nodes that reported in this round, also those without a replica of this group.
    """

    name: str
    replicas: Mapping[str, ReplicaStatus]
    leader: str | None = None
    confirmed: bool = False
    answered: frozenset[str] = frozenset()

    @property
    def leading(self) -> ReplicaStatus | None:
        """The leader's own report."""
        return None if self.leader is None else self.replicas[self.leader]

    def is_running(self, node: str) -> bool:
        """Returns whether this node's replica takes part."""
        replica = self.replicas.get(node)
        return replica is not None and replica.role in RUNNING

    @property
    def configured_nodes(self) -> frozenset[str]:
        """Nodes of both halves of the leader's configuration; empty without a leader."""
        return _nodes(self.leading.configuration if self.leading else None)

    @property
    def configured_peers(self) -> frozenset[PeerName]:
        """Peers of both halves of the leader's configuration; empty without a leader."""
        configuration = self.leading.configuration if self.leading else None
        return frozenset(members(configuration)) if configuration else frozenset()

    @property
    def remembered_nodes(self) -> frozenset[str]:
        """Nodes of every configuration that some replica shows."""
        return frozenset[str]().union(*(_nodes(r.configuration) for r in self.replicas.values()))


def _nodes(configuration: ConfigurationReport | None) -> frozenset[str]:
    return frozenset(peer.node for peer in members(configuration)) if configuration else frozenset()


def by_group(reports: Iterable[ReplicasReport]) -> dict[str, dict[str, ReplicaStatus]]:
    """All replicas by group, then by node."""
    groups: dict[str, dict[str, ReplicaStatus]] = {}
    for report in reports:
        for replica in report.replicas:
            groups.setdefault(replica.group, {})[report.node.name] = replica
    return groups


def observe(
    name: str, replicas: Mapping[str, ReplicaStatus], answered: frozenset[str] = frozenset()
) -> Group:
    """Find the group's leader. `answered`: nodes that reported, with or without a replica of it."""
    answered |= replicas.keys()
    leaderless = Group(name=name, replicas=replicas, answered=answered)
    leaders = [node for node, replica in replicas.items() if replica.role is ReplicaRole.LEADER]
    if not leaders:
        return leaderless
    leader = max(leaders, key=lambda node: (replicas[node].term, node))
    leading = replicas[leader]
    configuration = leading.configuration
    if configuration is None:
        return leaderless
    seen = [replicas[p.node] for p in members(configuration) if _holds(replicas, p)]
    if any(replica.term > leading.term for replica in seen):
        return leaderless  # deposed, and doesn't know it yet

    def follows(peer: PeerName) -> bool:
        replica = replicas.get(peer.node)
        return (
            replica is not None
            and replica.incarnation == peer.incarnation
            and replica.term == leading.term
            and (peer.node == leader or replica.leader == leader)
        )

    confirmed = all(
        is_majority(sum(map(follows, half)), len(half))
        for half in (configuration.peers, configuration.old_peers)
        if half
    )
    return replace(leaderless, leader=leader, confirmed=confirmed)


def members(configuration: ConfigurationReport) -> list[PeerName]:
    """Both halves, each peer once."""
    return sorted({*configuration.peers, *configuration.old_peers})


def is_majority(count: int, size: int) -> bool:
    """At least half of `size`, rounded down, plus one (design, hole 6)."""
    return count >= size // 2 + 1


def _holds(replicas: Mapping[str, ReplicaStatus], peer: PeerName) -> bool:
    replica = replicas.get(peer.node)
    return replica is not None and replica.incarnation == peer.incarnation
