"""Applies the reports of a what-if file to a supposed group.

Each is believed. If the group shows no leader, the reporting node counts as the leader while this
report is handled (`SupposedGroup.look_again`); the leader of a leaderElected counts until one of
its peers goes.
"""

from __future__ import annotations

from msgspec.structs import replace

from zonequake_ctl.what_if.group import DeposedLeader, SupposedGroup, names
from zonequake_ctl.what_if.replica import LINEAGE
from zonequake_operator.resources.model import PartitionKeys
from zonequake_protocol.admin import ReconfigurationStatus, Stage


def report_leader(
    group: SupposedGroup, node: str, term: int | None, peers: tuple[str, ...], keys: PartitionKeys
) -> bool:
    """onLeaderElected: this node leads, with these peers. Of an older term it only says so, also if
    it leads the newer one, too: the operator decides. False: it has no replica to say it with."""
    number = group.number if term is None else term
    if number < group.number:
        return _depose(group, node, number, peers)
    _adopt(group, peers, number, None, keys)
    group.lead(node)
    group.end_stage()
    return True


def report_applied(
    group: SupposedGroup,
    peers: tuple[str, ...],
    term: int | None,
    index: int | None,
    keys: PartitionKeys,
) -> None:
    """onNewPeersConfigurationApplied: the group has committed this configuration."""
    _adopt(group, peers, group.number if term is None else term, index, keys)
    group.end_stage()
    if group.leader is None:
        group.believe_for_now(peers)


def report_caught_up(group: SupposedGroup, peers: tuple[str, ...], keys: PartitionKeys) -> None:
    """tryCatchUpFinish: the change to these peers runs, and they are caught up.

    Any node may report it: also while a failed change waits for its retry, or if we assumed that it
    couldn't begin. Whether they are pending's peers is for the operator.
    """
    pending = keys.pending
    if pending is None or pending.force or keys.pending_lock is not None:
        return
    if group.settled is None:
        return
    hear_leader(group)
    if group.leader is None:
        return
    runs = group.stage is Stage.CATCHING_UP and group.stage_token == keys.configuration_token
    if not (runs and peers == names(group.stage_peers)):
        group.stage, group.stage_token = Stage.CATCHING_UP, keys.configuration_token
        group.stage_peers = tuple(sorted(map(group.claimed_peer, peers)))
    group.caught_up, group.failed = True, None


def _depose(group: SupposedGroup, node: str, number: int, peers: tuple[str, ...]) -> bool:
    replica, current = group.replicas.get(node), group.settled
    if replica is None or current is None:
        return False
    named = sorted(map(group.claimed_peer, peers))
    group.deposed = DeposedLeader(
        node=node,
        term=current.lineage * LINEAGE + number,
        configuration=replace(current, peers=named) if named else current,
    )
    return True


def report_stage(
    group: SupposedGroup, stage: Stage, failure: ReconfigurationStatus | None = None
) -> None:
    """Records how far the leader says that its change is, or that it has none any more."""
    if stage is Stage.NONE:
        group.end_change(failure)
    else:
        group.stage, group.failed = stage, failure


def hear_leader(group: SupposedGroup) -> None:
    """Records that a member reports as the leader, also if it can't be seen to lead."""
    if group.settled is not None:
        group.believe_for_now(names(group.settled.peers))


def _adopt(
    group: SupposedGroup,
    nodes: tuple[str, ...],
    number: int,
    index: int | None,
    keys: PartitionKeys,
) -> None:
    """Records that the group's configuration is of these nodes; if it is new, under the token of
    pending.
    """
    current = group.settled
    peers = [group.peer(node) for node in nodes]
    if current is not None and nodes == names(current.peers) and index is None:
        group.term = current.lineage * LINEAGE + max(number, group.number)
        group.configuration = current
        return
    token = current.token if current is not None else 0
    lineage = current.lineage if current is not None else 0
    if keys.pending is not None and nodes == keys.pending.nodes:
        token = keys.configuration_token
        lineage = token if keys.pending.force else lineage
    group.install(peers, token=token, lineage=lineage, number=number, index=index)
