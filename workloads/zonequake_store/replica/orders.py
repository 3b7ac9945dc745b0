"""The effect of an order on a replica, and the orders that are refused (docs/interfaces.md).

The real `Orders` and the simulation carry orders out through these functions alone, so that what
the simulation proves of the operator is what nodes do. Disk, network and clock stay with them.
"""

from __future__ import annotations

import msgspec

from zonequake_protocol.admin import (
    Bootstrap,
    CancelChangePeers,
    ChangePeers,
    Grant,
    OrderReply,
    OrderStatus,
    ReplicaRole,
    ReplicaStatus,
    ResetPeers,
    StartReplica,
    StopReplica,
    TransferLeadership,
)
from zonequake_store.raft.errors import RaftError
from zonequake_store.raft.messages import Configuration, Peer
from zonequake_store.replica.replica import Replica
from zonequake_store.replica.status import peers_of, replica_status
from zonequake_store.storage.log_writes import GroupRecord

ReplicaOrder = Bootstrap | ChangePeers | CancelChangePeers | ResetPeers | Grant | TransferLeadership
"""An order to a replica that runs."""


def obey(replica: Replica, order: ReplicaOrder) -> OrderReply:
    """Carry an order out; a turn must follow. Raises LOG_ERRORS."""
    configuration = replica.core_now().status().configuration
    if configuration is not None:
        replica.raise_token(configuration.token)
    if order.token < replica.token:
        return stale(order.token, replica.token)
    try:
        reply = _at_core(replica, order)
    except RaftError as error:
        return failed(str(error))
    if reply.status is OrderStatus.RECEIVED:
        replica.raise_token(order.token)
    return reply


def _at_core(replica: Replica, order: ReplicaOrder) -> OrderReply:
    raft = replica.core_now()
    match order:
        case Bootstrap():
            raft.bootstrap(
                Configuration(peers=peers_of(order.peers), token=order.token, lineage=order.lineage)
            )
            return OrderReply(status=OrderStatus.RECEIVED)
        case ChangePeers():
            answer = raft.change_peers(
                term=order.term, token=order.token, peers=peers_of(order.peers)
            )
            return OrderReply(status=OrderStatus(answer.value))
        case CancelChangePeers():
            cancelled = raft.cancel_change_peers(term=order.term, token=order.token)
            return OrderReply(status=OrderStatus(cancelled.value))
        case ResetPeers():
            reset = raft.reset_peers(
                term=order.term, token=order.token, peers=peers_of(order.peers)
            )
            return OrderReply(status=OrderStatus(reset.value))
        case Grant():
            granted = raft.grant(term=order.term, token=order.token, peers=peers_of(order.peers))
            return OrderReply(status=OrderStatus(granted.value))
        case TransferLeadership():
            return _transfer(replica, order)


def _transfer(replica: Replica, order: TransferLeadership) -> OrderReply:
    if not replica.leads:
        if order.to is not None and replica.leader and replica.leader.node == order.to:
            return OrderReply(status=OrderStatus.RECEIVED)
        return OrderReply(status=OrderStatus.NOT_LEADER)
    target: Peer | None = None
    if order.to is not None:
        configuration = replica.core_now().status().configuration
        members = configuration.members if configuration else frozenset()
        target = next((peer for peer in members if peer.node == order.to), None)
        if target is None:
            return failed(f"{order.to} is no member of {replica.group}")
        if target == replica.me:
            return OrderReply(status=OrderStatus.RECEIVED)
    if not replica.core_now().transfer_leadership(target):
        return failed("there is no follower to hand leadership to")
    return OrderReply(status=OrderStatus.RECEIVED)


def may_not_start(
    order: StartReplica, replica: Replica | None, record: GroupRecord | None
) -> OrderReply | None:
    """Returns why this replica is not started: it runs as `replica`, or is stored as `record`."""
    token = replica.token if replica else record.token if record else 0
    if order.token < token:
        return stale(order.token, token)
    if not 0 <= order.partition < order.partitions:
        return failed(
            f"partition is {order.partition}; expected 0 to {order.partitions - 1}, because "
            f"the zone has {order.partitions} partitions"
        )
    return None


def start_again(replica: Replica, order: StartReplica) -> OrderReply:
    """Applies a start order to a replica that runs already; the caller must run a turn after it."""
    replica.raise_token(order.token)
    replica.core_now().supply.set_rate(order.catch_up_bytes_per_second)
    replica.core_now().enforce(order.enforced_token)
    if replica.permission is not None:
        replica.permission.permit(order.lease_session, order.lease_holder)
    return OrderReply(status=OrderStatus.RECEIVED, incarnation=replica.me.incarnation)


def may_not_stop(
    order: StopReplica, replica: Replica | None, record: GroupRecord
) -> OrderReply | None:
    """Returns why this replica is not stopped: it runs as `replica`, or is only stored."""
    token = replica.token if replica else record.token
    if order.token < token:
        return stale(order.token, token)
    if order.incarnation != record.incarnation:
        return OrderReply(
            status=OrderStatus.STALE,
            error=f"the order is for incarnation {order.incarnation}, the replica is "
            f"{record.incarnation}",
        )
    return None


def looked_at(replica: Replica) -> ReplicaStatus:
    """Fake start: what a replica shows that is made to be looked at. Raises LOG_ERRORS.

    Its core is never ticked and steps no message; what it has committed is applied in memory.
    """
    while replica.core_now().has_ready():
        ready = replica.core_now().ready()
        replica.apply(ready.committed)
        replica.core_now().stored(ready)
    return msgspec.structs.replace(replica_status(replica), role=ReplicaRole.WAITING)


def failed(error: str) -> OrderReply:
    """Returns the reply to an order that could not be carried out."""
    return OrderReply(status=OrderStatus.FAILED, error=error)


def stale(found: int, seen: int) -> OrderReply:
    """Returns the reply to an order that came too late."""
    return OrderReply(
        status=OrderStatus.STALE,
        error=f"the order's token is {found}, the replica has seen {seen}",
    )
