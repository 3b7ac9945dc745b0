"""A simulated node's admin API: its report, and orders by the rules of the real one."""

from __future__ import annotations

from collections.abc import Mapping

from zonequake_protocol.admin import (
    InspectReplica,
    NodeIdentity,
    Order,
    OrderReply,
    OrderStatus,
    ReplicasReport,
    StartReplica,
    StopReplica,
)
from zonequake_simulation.member import SimulatedNode
from zonequake_simulation.operated.lease_keeper import SimulatedLeaseKeeper
from zonequake_simulation.replicas import GroupPlace
from zonequake_store.replica.orders import (
    failed,
    looked_at,
    may_not_start,
    may_not_stop,
    obey,
    start_again,
)
from zonequake_store.replica.replica import LOG_ERRORS, Replica
from zonequake_store.replica.status import replica_status, resting_status


def report(
    node: SimulatedNode,
    *,
    pod_uid: str,
    attributes: Mapping[str, str],
    keeper: SimulatedLeaseKeeper,
) -> ReplicasReport:
    """Returns a node's identity and all of its replicas."""
    home = node.home
    resting = [resting_status(group, record, None) for group, record in home.waiting.items()]
    broken = [resting_status(group, *found) for group, found in home.broken.items()]
    trouble = keeper.lease.trouble(node.clock_s())
    return ReplicasReport(
        node=NodeIdentity(
            name=node.name,
            process_incarnation=f"{node.name}-{node.process}",
            storage_incarnation=node.disk.storage.incarnation,
            pod_uid=pod_uid,
            attributes=dict(attributes),
            peer_address=node.name,
            client_address=node.name,
            lease_session=keeper.lease.session,
            lease_problem=keeper.lease.problem,
            lease_trouble=trouble,
            lease_unrenewed_since_ms=keeper.unrenewed_since_ms if trouble else 0,
        ),
        replicas=[*map(replica_status, node.replicas.values()), *resting, *broken],
    )


def carry_out(node: SimulatedNode, order: Order, keeper: SimulatedLeaseKeeper) -> OrderReply:
    """Carries out one order."""
    broken = node.home.broken.get(order.group)
    if broken is not None and not isinstance(order, StopReplica):
        return failed(f"the replica is broken ({broken[1]}); stop and erase it")
    if isinstance(order, StartReplica):
        return _start(node, order, keeper)
    if isinstance(order, StopReplica):
        return _stop(node, order)
    replica = node.replicas.get(order.group)
    if isinstance(order, InspectReplica):
        return _inspect(node, order, replica)
    if replica is None:
        return OrderReply(status=OrderStatus.NOT_HERE)
    try:
        reply = obey(replica, order)
    except LOG_ERRORS as error:
        node.break_down(replica, str(error))
        return failed(str(error))
    node.act(order.group, lambda _: None)
    return reply


def _inspect(node: SimulatedNode, order: InspectReplica, replica: Replica | None) -> OrderReply:
    if replica is not None:
        return OrderReply(status=OrderStatus.RECEIVED, replica=replica_status(replica))
    try:
        found = node.home.look(order.group)
        if found is None:
            return OrderReply(status=OrderStatus.NOT_HERE)
        shown, life = looked_at(found), node.home.known(order.group)
        if life is not None:
            life.rules.users.told(node.name, shown)
        return OrderReply(status=OrderStatus.RECEIVED, replica=shown)
    except LOG_ERRORS as error:
        return failed(f"the replica cannot be read ({error})")


def _start(node: SimulatedNode, order: StartReplica, keeper: SimulatedLeaseKeeper) -> OrderReply:
    replica = node.replicas.get(order.group)
    record = replica.record if replica else node.home.waiting.get(order.group)
    refusal = may_not_start(order, replica, record)
    if refusal is not None:
        return refusal
    if replica is not None:
        reply = start_again(replica, order)
        node.act(order.group, lambda _: None)
        return reply
    place = GroupPlace(name=order.group, partition=order.partition, partitions=order.partitions)
    replica = node.start_replica(
        place,
        token=order.token,
        lineage=order.enforced_token,
        permission=keeper.permission(order),
    )
    if replica is None:
        return failed("the replica is broken; stop and erase it")
    return OrderReply(status=OrderStatus.RECEIVED, incarnation=replica.me.incarnation)


def _stop(node: SimulatedNode, order: StopReplica) -> OrderReply:
    home = node.home
    replica = node.replicas.get(order.group)
    broken = home.broken.get(order.group)
    record = replica.record if replica else broken[0] if broken else home.waiting.get(order.group)
    if record is None:
        return OrderReply(status=OrderStatus.RECEIVED)  # stopped and erased earlier
    refusal = may_not_stop(order, replica, record)
    if refusal is not None:
        return refusal
    assert order.erase, "the operator stops nothing that it means to keep"
    if not node.erase(order.group):
        return failed("the disk has failed")
    return OrderReply(status=OrderStatus.RECEIVED)
