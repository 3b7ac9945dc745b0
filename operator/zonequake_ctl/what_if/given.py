"""Converts the keys that a file gives into a partition whose group has reached them, and back.

The file has terms as plain numbers; the resources have whole terms, lineage x 10**9 + number. A
given chain stands for as many resets as it has links after the first, with the tokens 2, 3, … What
a replica reports belongs to the lineage of the newest link of its node whose beginning isn't after
it: a link that was replaced by a reset's second phase began with its first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from zonequake_ctl.what_if.group import SupposedGroup
from zonequake_ctl.what_if.reading.question import GivenKeys, GivenReplica, GivenSet
from zonequake_ctl.what_if.replica import LINEAGE, LogEnd, SupposedReplica
from zonequake_operator.rebalance.orders import hosts
from zonequake_operator.resources.model import (
    AssignmentSet,
    AssignmentsLink,
    PartitionKeys,
    TokenPeers,
)
from zonequake_protocol.admin import ConfigurationReport, PeerName, Stage


def build(
    given: GivenKeys, group: SupposedGroup, alive: frozenset[str], revision: int
) -> PartitionKeys:
    """Returns the partition's keys; `group` gets the replicas that it must have had.

    `revision` is the change trigger revision as the resources count it.
    """
    chain = tuple(
        AssignmentsLink(
            nodes=link.nodes,
            term=_lineage(i) * LINEAGE + link.term,
            index=link.index,
            token=_lineage(i),
        )
        for i, link in enumerate(given.chain)
    )
    token = max(len(chain), 1)
    _build_group(given, group, alive, chain, token)
    peers = _peers(group, given.stable.nodes) if given.stable else ()
    bootstrap = TokenPeers(token=token, peers=peers) if peers else None
    lock = None
    if given.pending is not None:
        token += 1
        wanted = _peers(group, given.pending.nodes)
        if given.pending_lock:
            lock = TokenPeers(token=token, peers=wanted)
        if not given.pending.force:
            _begin_change(group, token, wanted, granted=given.pending_lock)
    return PartitionKeys(
        stable=_set(given.stable),
        pending=_set(given.pending),
        planned=_set(given.planned),
        configuration_token=token,
        bootstrap=bootstrap,
        pending_lock=lock,
        change_trigger_revision=revision,
        switch_reduce=given.switch_reduce,
        switch_append=given.switch_append,
        chain=chain,
        stopped_token=token if given.stopped else 0,
    )


def _build_group(
    given: GivenKeys,
    group: SupposedGroup,
    alive: frozenset[str],
    chain: tuple[AssignmentsLink, ...],
    token: int,
) -> None:
    """Every member of stable has a replica with its configuration; `restore` knows older links."""
    position = (chain[-1].term, chain[-1].index) if chain else (group.term, 0)
    if given.stable is not None:
        _install(group, given.stable.nodes, token, position, _lineage(len(chain) - 1))
        group.settled = group.configuration
    keys = PartitionKeys(
        stable=_set(given.stable),
        pending=_set(given.pending),
        switch_reduce=given.switch_reduce,
    )
    wanted = hosts(keys) - frozenset(given.switch_reduce)
    for node in given.pending.nodes if given.pending else ():
        if node not in group.replicas:
            group.new_replica(node, running=False)
    for node, replica in group.replicas.items():
        replica.running = node in alive and node in wanted and not given.stopped
        replica.had_leader = replica.running
    group.elect()


def _begin_change(
    group: SupposedGroup, token: int, wanted: tuple[PeerName, ...], *, granted: bool
) -> None:
    """Runs the change to pending that the leader was asked for, if it could begin it.

    One that was granted had all its peers then, even if some have left since.
    """
    members = group.configuration.peers if group.configuration else []
    could_begin = group.leader is not None and all(
        peer in members or group.replicas[peer.node].running for peer in wanted
    )
    if not members or not (granted or could_begin):
        return
    for peer in wanted:
        group.replicas[peer.node].token = token
    group.hear(token)
    group.stage, group.stage_token, group.stage_peers = Stage.CATCHING_UP, token, wanted
    group.copy_to_new_peers()
    if granted:
        group.go_joint()


def restore(
    group: SupposedGroup, chain: tuple[AssignmentsLink, ...], present: Collection[str] = ()
) -> None:
    """Give each node of each link, if it has none, the replica that it had under its last link.

    A group that restarts reports what the file says, also where the operator erased a replica. Of a
    group that is given, a node that isn't `present` couldn't be cleaned, and may come back.
    """
    nodes = {node for link in chain for node in link.nodes} - group.replicas.keys() - set(present)
    for node in sorted(nodes):
        group.new_replica(node, running=False)
    for link in chain:
        configuration = ConfigurationReport(
            peers=[_was(group, node) for node in link.nodes],
            token=max(link.token, 1),
            index=link.index,
            lineage=link.token,
        )
        for node in nodes.intersection(link.nodes):
            replica = group.replicas[node]
            replica.configuration = configuration
            replica.configuration_at = (link.term, link.index)


def _was(group: SupposedGroup, node: str) -> PeerName:
    """Returns a member of a link; one that was cleaned since is there under none of its
    incarnations.
    """
    replica = group.replicas.get(node)
    return PeerName(node, replica.incarnation if replica else f"{node}/0")


def _lineage(link: int) -> int:
    """Returns the token of the reset that the link began with; its configuration's, if there was
    one.
    """
    return link + 1 if link > 0 else 0


def _install(
    group: SupposedGroup,
    nodes: tuple[str, ...],
    token: int,
    at: tuple[int, int],
    lineage: int,
) -> None:
    for node in nodes:
        if node not in group.replicas:
            group.new_replica(node, running=False)
    configuration = ConfigurationReport(
        peers=list(_peers(group, nodes)), token=token, index=at[1], lineage=lineage
    )
    for node in nodes:
        replica: SupposedReplica = group.replicas[node]
        replica.token, replica.configuration, replica.configuration_at = token, configuration, at
    group.configuration, group.at, group.term = configuration, at, max(at[0], group.term)


def _peers(group: SupposedGroup, nodes: tuple[str, ...]) -> tuple[PeerName, ...]:
    return tuple(PeerName(node, group.replicas[node].incarnation) for node in sorted(nodes))


def _set(given: GivenSet | None) -> AssignmentSet | None:
    if given is None:
        return None
    return AssignmentSet(nodes=given.nodes, force=given.force, from_reset=given.from_reset)


def log_ends(
    given: Mapping[str, GivenReplica], chain: tuple[AssignmentsLink, ...]
) -> dict[str, LogEnd]:
    """Returns the end of each node's log, in whole terms."""
    return {
        node: LogEnd(
            last=_whole(node, replica.term, replica.index, chain),
            user=_whole(node, replica.user_term, replica.last_user_cmd_idx, chain),
        )
        for node, replica in given.items()
    }


def _whole(node: str, term: int, index: int, chain: tuple[AssignmentsLink, ...]) -> tuple[int, int]:
    lineage = 0
    for link in chain:
        since_term, since_index = link.since
        if node in link.nodes and (since_term % LINEAGE, since_index) <= (term, index):
            lineage = link.term // LINEAGE
    return lineage * LINEAGE + term, index
