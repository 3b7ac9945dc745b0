"""The nodes from which a person may let a partition go on, and the data given up with each
(`zonequake reset`; design §3, hole 7: "by hand a reset may always choose among all holders").

    [A..E] ─▶ [A], and A died before another had its log    B to E hold older data
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zonequake_operator.first_few import few
from zonequake_operator.groups.reports import members
from zonequake_operator.high_availability.reset import (
    ReplicaHolders,
    forced_node,
    last_forced_token,
)
from zonequake_operator.resources.model import PartitionKeys
from zonequake_protocol.admin import PeerName, ReplicaStatus
from zonequake_protocol.terms import lineage_of, number_of

LogPosition = tuple[int, int]
"""(whole term, index)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SurvivorChoice:
    """A replica that is there and could go on.

    `user`: its newest user entry; `last`: the end of its log. `given_up`: the data that others
    have, or had, and this one lacks; one sentence each.
    """

    peer: PeerName
    lineage: int
    user: LogPosition
    last: LogPosition
    given_up: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """For people."""
        user = position_text(self.user) if self.user[1] else "no user entry"
        return [
            f"{self.peer.node} holds {user}, a log up to {position_text(self.last)}, lineage "
            f"{self.lineage}",
            *(f"  gives up {what}" for what in self.given_up or ("nothing that is known",)),
        ]


def position_text(place: LogPosition) -> str:
    """Returns an entry's position as text: `term 3, index 12 (lineage 5)`."""
    term, index = place
    lineage = lineage_of(term)
    return f"term {number_of(term)}, index {index}" + (f" (lineage {lineage})" if lineage else "")


def choices(keys: PartitionKeys, holders: ReplicaHolders) -> tuple[SurvivorChoice, ...]:
    """All replicas that are there and show what they hold, the best first: by the newest user
    entry, then by the end of the log; ties by name."""
    there = {
        node: replica
        for node in sorted(holders.group.replicas)
        if (replica := holders.seen(node)) is not None and replica.configuration is not None
    }
    order = sorted(there, key=lambda node: (_rank(there[node]), node))
    return tuple(_choice(node, there, keys) for node in order)


def hold_the_newest(keys: PartitionKeys, holders: ReplicaHolders) -> tuple[str, ...]:
    """Members that are there and not known to lack the newest lineage: the operator chooses among
    them by itself."""
    least = last_forced_token(keys)

    def may(node: str) -> bool:
        replica = holders.seen(node)
        if replica is None or replica.configuration is None:
            return True  # it waits, or couldn't be asked
        return replica.configuration.token >= least

    nodes = keys.stable_nodes | keys.pending_nodes
    return tuple(node for node in sorted(nodes & holders.hold(keys)) if may(node))


def waiting(holders: ReplicaHolders) -> tuple[str, ...]:
    """Returns the nodes whose replicas wait for their start order; inspecting them shows their
    data.
    """
    return tuple(node for node in sorted(holders.group.replicas) if holders.is_hidden(node))


def _rank(replica: ReplicaStatus) -> tuple[int, int, int, int]:
    return (
        -replica.last_user_term,
        -replica.last_user_index,
        -replica.last_term,
        -replica.last_index,
    )


def _choice(node: str, there: dict[str, ReplicaStatus], keys: PartitionKeys) -> SurvivorChoice:
    replica = there[node]
    assert replica.configuration is not None
    lineage, user = replica.configuration.lineage, _user(replica)
    given_up = [
        f"all that was written since the reset to {few(link.nodes)}: lineage {link.token}, after "
        f"{position_text(link.since)}"
        for link in keys.chain
        if link.token > lineage and node not in link.nodes
    ]
    forced = forced_node(keys)
    if forced is not None and forced != node and lineage < keys.configuration_token:
        given_up.append(f"what {forced} may have taken since it was chosen to go on alone")
    newer = [(other, _user(there[other])) for other in there if _user(there[other]) > user]
    if newer:
        best = max(place for _, place in newer)
        who = [other for other, place in newer if place == best]
        given_up.append(f"user entries up to {position_text(best)}, held by {few(who)}")
    if not replica.abstains and not given_up and not _is_whole(node, there):
        given_up.append("what only nodes that are away have")
    return SurvivorChoice(
        peer=PeerName(node, replica.incarnation),
        lineage=lineage,
        user=user,
        last=(replica.last_term, replica.last_index),
        given_up=tuple(given_up),
    )


def _is_whole(node: str, there: dict[str, ReplicaStatus]) -> bool:
    """Returns whether every member of its configuration is there; if not, what others have is
    unknown.
    """
    configuration = there[node].configuration
    assert configuration is not None
    return all(peer.node in there for peer in members(configuration))


def _user(replica: ReplicaStatus) -> LogPosition:
    return replica.last_user_term, replica.last_user_index


def choice_on(found: Sequence[SurvivorChoice], node: str) -> SurvivorChoice | None:
    """Returns the choice on this node, None if it has none."""
    return next((choice for choice in found if choice.peer.node == node), None)
