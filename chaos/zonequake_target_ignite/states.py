"""The states that a node tells, in the form of our own data nodes' reports.

`leader` is a partition's primary replica, which serves reads and writes. It need not be the leader
of the partition's Raft group, of which Ignite tells nothing but in its log.
"""

from __future__ import annotations

from collections.abc import Mapping

from zonequake_kube.objects import PodView
from zonequake_protocol.admin import (
    ConfigurationReport,
    NodeIdentity,
    PeerName,
    ReplicaRole,
    ReplicasReport,
    ReplicaStatus,
)
from zonequake_target_ignite.sight import NodeSight, ReplicaSight

STARTED = "STARTED"
HEALTHY = "HEALTHY"
_ROLES = {
    HEALTHY: ReplicaRole.FOLLOWER,
    "CATCHING_UP": ReplicaRole.WAITING,
    "INSTALLING_SNAPSHOT": ReplicaRole.WAITING,
    "INITIALIZING": ReplicaRole.WAITING,
    "UNAVAILABLE": ReplicaRole.WAITING,
    "BROKEN": ReplicaRole.BROKEN,
}
"""By the names of Ignite's states of a replica. `WAITING`: it takes no part, or not yet in full."""


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
) -> ReplicasReport:
    """Returns a node's report; `members` names the nodes of each partition."""
    storage = pod.process if volatile else pod.name
    replicas = [
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


def group_of(zone: str, partition: int) -> str:
    """Returns the name of a partition's group, in the form of a store's: zone, owner, partition."""
    return f"{zone}.ignite.{partition}"
