"""The status of a node's replicas for the operator, clients and the journal: plain conversions."""

from __future__ import annotations

from collections.abc import Callable

from zonequake_protocol.admin import (
    CatchUpProgress,
    ConfigurationReport,
    PeerName,
    ReplicaRole,
    ReplicaStatus,
)
from zonequake_protocol.client import PartitionRoute
from zonequake_protocol.terms import lineage_of, number_of
from zonequake_store.raft.api import PeerProgress, RaftRole, StageChanged
from zonequake_store.raft.messages import Configuration, Peer
from zonequake_store.replica.replica import Replica
from zonequake_store.state.commands import holds_user_command
from zonequake_store.storage.log_writes import GroupRecord

_ROLES = {
    RaftRole.FOLLOWER: ReplicaRole.FOLLOWER,
    RaftRole.PRE_CANDIDATE: ReplicaRole.CANDIDATE,
    RaftRole.CANDIDATE: ReplicaRole.CANDIDATE,
    RaftRole.LEADER: ReplicaRole.LEADER,
}


def peer_names(peers: tuple[Peer, ...]) -> list[PeerName]:
    """Peers as the admin protocol names them."""
    return [PeerName(peer.node, peer.incarnation) for peer in peers]


def peers_of(names: list[PeerName]) -> tuple[Peer, ...]:
    """Peers as the core names them, sorted."""
    return tuple(sorted(Peer(name.node, name.incarnation) for name in names))


def newest_user_entry(replica: Replica) -> tuple[int, int]:
    """(term, index) of the newest entry in its log that is a client's, committed or not."""
    state = replica.partition.state
    found = replica.core_now().last_command(holds_user_command)
    return found or (state.last_user_term, state.last_user_index)


def replica_status(replica: Replica) -> ReplicaStatus:
    """Returns the status of a running replica."""
    status = replica.core_now().status()
    configuration, error = status.configuration, status.reconfiguration_error
    if configuration is not None:
        replica.raise_token(configuration.token)
    state = replica.partition.state
    user_term, user_index = newest_user_entry(replica)
    return ReplicaStatus(
        group=replica.group,
        zone=replica.record.zone,
        partition=replica.record.partition,
        incarnation=replica.me.incarnation,
        role=_ROLES[status.role],
        term=status.term,
        leader=status.leader.node if status.leader else None,
        configuration=_configuration(configuration, status.configuration_index),
        token=replica.token,
        lineage=state.lineage,
        enforced_lineage=status.lineage,
        abstains=status.abstains,
        had_leader=status.had_leader,
        needs_lease=replica.permission is not None,
        permitted_session=replica.permission.session if replica.permission else 0,
        catch_up_bytes_per_second=replica.core_now().supply.bytes_per_second,
        stage=status.stage,
        stage_token=status.stage_token,
        stage_peers=peer_names(status.stage_peers),
        caught_up=status.caught_up,
        progress=[_progress(progress) for progress in status.progress],
        reconfiguration_error=error.reason if error else None,
        reconfiguration_status=error.status if error else None,
        commit=status.commit,
        applied=state.index,
        lwm=state.lwm,
        hwm=state.hwm,
        ranges=list(state.ranges),
        prepared=len(replica.partition.transactions.prepared),
        first_index=status.first_index,
        last_index=status.last_index,
        last_term=status.last_term,
        last_user_term=user_term,
        last_user_index=user_index,
        last_configuration_term=state.last_configuration_term,
        last_configuration_index=state.last_configuration_index,
    )


def resting_status(
    group: str, record: GroupRecord, broken: str | None, *, lost: bool = False
) -> ReplicaStatus:
    """Returns the status of a replica on disk that waits for its start order, or is broken."""
    return ReplicaStatus(
        group=group,
        zone=record.zone,
        partition=record.partition,
        incarnation=record.incarnation,
        role=ReplicaRole.WAITING if broken is None else ReplicaRole.BROKEN,
        term=0,
        token=record.token,
        broken_reason=broken,
        lost=lost,
    )


def route_of(replica: Replica, client_address: Callable[[str], str | None]) -> PartitionRoute:
    """Returns the address of a replica's group for clients, as the replica knows it.
    `client_address`: of a node.
    """
    status = replica.core_now().status()
    leader = status.leader.node if status.leader else None
    members = status.configuration.members if status.configuration else frozenset()
    return PartitionRoute(
        replica.record.partition,
        replica.group,
        sorted(peer.node for peer in members),
        leader,
        client_address(leader) if leader else None,
        status.term,
    )


def stage_event(event: StageChanged, term: int) -> dict[str, object]:
    """Renders the data of a `rebalance.stage` event (docs/interfaces.md, "Events").

    `progress` is the slowest catching-up peer's, 0 to 1; None if there is none.
    """
    return {
        "stage": "CAUGHT_UP" if event.caught_up else event.stage.value,
        "token": event.token,
        "peers": [peer.node for peer in event.peers],
        "adding": [peer.node for peer in event.adding],
        "lineage": lineage_of(term),
        "term": number_of(term),
        "reason": event.reason,
        "status": event.status.value if event.status else None,
        "progress": min((each.fraction for each in event.progress), default=None),
    }


def _configuration(configuration: Configuration | None, index: int) -> ConfigurationReport | None:
    if configuration is None:
        return None
    return ConfigurationReport(
        peers=peer_names(configuration.peers),
        old_peers=peer_names(configuration.old_peers),
        token=configuration.token,
        index=index,
        lineage=configuration.lineage,
    )


def _progress(progress: PeerProgress) -> CatchUpProgress:
    return CatchUpProgress(
        peer=PeerName(progress.peer.node, progress.peer.incarnation),
        fraction=progress.fraction,
        bytes_sent=progress.bytes_sent,
        bytes_done=progress.bytes_done,
        bytes_total=progress.bytes_total,
        match_index=progress.match_index,
        by="snapshot" if progress.by_snapshot else "log",
    )
