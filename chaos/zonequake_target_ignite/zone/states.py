"""The states that a node tells, in the form of our own data nodes' reports.

`leader` is a partition's primary replica, which serves reads and writes. It need not be the leader
of the partition's Raft group, of which Ignite tells nothing but in its log.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from zonequake_kube.objects import PodView
from zonequake_protocol.admin import (
    CatchUpProgress,
    ConfigurationReport,
    NodeIdentity,
    PeerName,
    ReplicaRole,
    ReplicasReport,
    ReplicaStatus,
    Stage,
)
from zonequake_target_ignite.node_sight import CATCHING_UP, HEALTHY, NodeSight, ReplicaSight

STARTED = "STARTED"
BEHIND = frozenset({CATCHING_UP, "INSTALLING_SNAPSHOT", "INITIALIZING"})
"""States of a replica that lacks data which others have."""

_ROLES = {
    HEALTHY: ReplicaRole.FOLLOWER,
    CATCHING_UP: ReplicaRole.FOLLOWER,
    "INSTALLING_SNAPSHOT": ReplicaRole.WAITING,
    "INITIALIZING": ReplicaRole.WAITING,
    "UNAVAILABLE": ReplicaRole.WAITING,
    "BROKEN": ReplicaRole.BROKEN,
}
"""By the names of Ignite's states of a replica. `WAITING`: it takes no part yet. One that is
CATCHING_UP votes and acknowledges, and only lacks a hundred entries or more of its log.
"""


def role_of(replica: ReplicaSight) -> ReplicaRole:
    """Returns the role of a replica; one in a state that isn't known takes no part."""
    role = _ROLES.get(replica.state, ReplicaRole.WAITING)
    if role is ReplicaRole.FOLLOWER and replica.primary:
        return ReplicaRole.LEADER
    return role


def report_of(
    pod: PodView,
    sight: NodeSight,
    *,
    zone: str,
    members: Mapping[int, tuple[str, ...]],
    volatile: bool,
    behind: Mapping[int, Mapping[str, int]] | None = None,
) -> ReplicasReport:
    """Returns a node's report; `members` names the nodes of each partition, `behind` those that
    lack data, each with the rows that it estimates to have. A partition's primary reports them.
    """
    storage = pod.process if volatile else pod.name
    all_behind = behind or {}
    replicas = [
        _catching_up(
            ReplicaStatus(
                group=group_of(zone, replica.partition),
                zone=zone,
                partition=replica.partition,
                incarnation=storage,
                role=role_of(replica),
                term=replica.term,
                configuration=ConfigurationReport(
                    peers=[
                        PeerName(node=name, incarnation="")
                        for name in members.get(replica.partition, ())
                    ],
                    token=0,
                    index=0,
                ),
                had_leader=bool(sight.primaries[replica.partition]),
                applied=replica.rows,
                broken_reason=replica.state if role_of(replica) is ReplicaRole.BROKEN else None,
            ),
            all_behind.get(replica.partition, {}),
        )
        for replica in sight.replicas
        if replica.partition < len(sight.primaries)
    ]
    return ReplicasReport(
        node=NodeIdentity(
            name=pod.name,
            process_incarnation=pod.process,
            storage_incarnation=storage,
            pod_uid=pod.uid,
            attributes={},
            peer_address="",
            client_address="",
        ),
        replicas=replicas,
    )


def _catching_up(replica: ReplicaStatus, behind: Mapping[str, int]) -> ReplicaStatus:
    """Returns a primary with the progress of those behind it, by their shares of its rows."""
    if replica.role is not ReplicaRole.LEADER or not behind:
        return replica
    return msgspec.structs.replace(
        replica,
        stage=Stage.CATCHING_UP,
        progress=[
            CatchUpProgress(
                peer=PeerName(node=node, incarnation=""),
                fraction=min(1.0, max(0, rows) / max(1, replica.applied)),
                bytes_sent=0,
                match_index=0,
                by="snapshot",
            )
            for node, rows in sorted(behind.items())
        ],
    )


def group_of(zone: str, partition: int) -> str:
    """Returns the name of a partition's group, in the form of a store's: zone, owner, partition."""
    return f"{zone}.ignite.{partition}"
