"""The status that a node of a supposed group reports of its replica, in the admin protocol's
terms.
"""

from __future__ import annotations

from msgspec.structs import replace

from zonequake_ctl.what_if.group import DeposedLeader, SupposedGroup
from zonequake_ctl.what_if.replica import LogEnd
from zonequake_protocol.admin import ReplicaRole, ReplicaStatus


def status_of(group: SupposedGroup, node: str, *, inspected: bool = False) -> ReplicaStatus:
    """Returns this node's report of its replica; a waiting replica shows more if it is
    inspected.
    """
    replica = group.replicas[node]
    if group.deposed is not None and group.deposed.node == node:
        return _claim(group, node, group.deposed)
    leads, follows = node == group.leader, group.leader is not None and group.knows(node)
    # Members know their term even while there is no leader.
    heard = follows or (group.deposed is not None and group.knows(node))
    end = group.ends.get(node, LogEnd())
    current = group.configuration if leads or follows else replica.configuration
    commit = max(end.last[1], group.at[1], current.index if current else 0)
    running = replica.running or node in group.vouched
    role = ReplicaRole.LEADER if leads else ReplicaRole.FOLLOWER if running else ReplicaRole.WAITING
    status = ReplicaStatus(
        group=group.name,
        zone=group.zone,
        partition=group.partition,
        incarnation=replica.incarnation,
        role=role,
        term=group.term if leads or heard else max(end.last[0], replica.configuration_at[0]),
        leader=group.leader if leads or follows else None,
        configuration=current if running or inspected else None,
        token=replica.token,
        lineage=replica.configuration.lineage if replica.configuration else 0,
        enforced_lineage=replica.enforced_lineage,
        abstains=replica.configuration is not None
        and replica.configuration.lineage < replica.enforced_lineage,
        had_leader=replica.had_leader,
        commit=commit,
        applied=commit,
        last_term=end.last[0],
        last_index=end.last[1],
        last_user_term=end.user[0],
        last_user_index=end.user[1],
        last_configuration_term=replica.configuration_at[0],
        last_configuration_index=replica.configuration_at[1],
    )
    return _with_stage(group, status) if leads else status


def _claim(group: SupposedGroup, node: str, deposed: DeposedLeader) -> ReplicaStatus:
    """Returns what a node reports that was deposed, and doesn't know it: the operator must refuse
    it.
    """
    replica, configuration = group.replicas[node], deposed.configuration
    return ReplicaStatus(
        group=group.name,
        zone=group.zone,
        partition=group.partition,
        incarnation=replica.incarnation,
        role=ReplicaRole.LEADER,
        term=deposed.term,
        leader=node,
        configuration=configuration,
        token=replica.token,
        lineage=configuration.lineage,
        enforced_lineage=replica.enforced_lineage,
        had_leader=True,
        commit=configuration.index,
        applied=configuration.index,
    )


def _with_stage(group: SupposedGroup, status: ReplicaStatus) -> ReplicaStatus:
    return replace(
        status,
        stage=group.stage,
        stage_token=group.stage_token,
        stage_peers=list(group.stage_peers),
        caught_up=group.caught_up,
        reconfiguration_error=group.failed,
        reconfiguration_status=group.failed,
    )
