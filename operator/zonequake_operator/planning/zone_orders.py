"""The orders to the data nodes of one zone, from what is stored: the last step of its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zonequake_operator.groups.reports import Group
from zonequake_operator.high_availability import reset, reset_orders
from zonequake_operator.high_availability.decisions import KeysDecision
from zonequake_operator.nodes.topology import sessions_of
from zonequake_operator.planning.partition_events import Cleaning
from zonequake_operator.rebalance import orders
from zonequake_operator.resources.leases import LeaseSession
from zonequake_operator.resources.model import ConsistencyMode, Partition, ZoneSnapshot, ZoneSpec
from zonequake_protocol.admin import Order, StopReplica


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOrder:
    """Tell a data node something, once it has been called for during `patience_s`."""

    node: str
    order: Order
    patience_s: float = 0.0


def zone_orders(
    snapshot: ZoneSnapshot,
    spec: ZoneSpec,
    groups: Mapping[int, Group],
    decisions: Mapping[int, KeysDecision],
) -> list[SendOrder]:
    """Orders for every partition, and how long each is called for before it is sent."""
    alive, reachable = frozenset(snapshot.topology.nodes), frozenset(snapshot.reports)
    addresses = {n.name: n.peer_address for n in snapshot.topology.nodes.values()}
    sessions = sessions_of(snapshot.reports, snapshot.topology)
    sends: list[SendOrder] = []
    for number, partition in snapshot.partitions.items():
        decision, group = decisions.get(number), groups[number]
        told = orders.orders(
            partition.keys,
            group,
            _settings(snapshot, spec, partition, addresses, sessions),
            alive=alive,
            reachable=reachable,
            paused=spec.paused,
            withheld=decision is not None and decision.withheld,
        )
        if decision is not None:
            told += reset_orders.inspections(decision.inspect, group)
        sends += [
            SendOrder(
                node=node,
                order=order,
                patience_s=orders.patience_s(node, order, partition.keys, group),
            )
            for node, order in told
        ]
    return sends


def cleanings(
    sends: list[SendOrder], snapshot: ZoneSnapshot, groups: Mapping[int, Group]
) -> tuple[Cleaning, ...]:
    """Replicas from before the last reset that these orders erase."""
    numbers = {group.name: number for number, group in groups.items()}
    found = []
    for send in sends:
        if isinstance(send.order, StopReplica):
            number = numbers[send.order.group]
            replica = groups[number].replicas[send.node]
            if replica.enforced_lineage < reset.last_forced_token(snapshot.partitions[number].keys):
                found.append(
                    Cleaning(partition=number, node=send.node, incarnation=replica.incarnation)
                )
    return tuple(found)


def _settings(
    snapshot: ZoneSnapshot,
    spec: ZoneSpec,
    partition: Partition,
    addresses: Mapping[str, str],
    sessions: Mapping[str, LeaseSession],
) -> orders.ReplicaSettings:
    return orders.ReplicaSettings(
        zone=snapshot.zone.name,
        partition=partition.number,
        partitions=spec.partitions,
        fsync=spec.fsync,
        catch_up_bytes_per_second=spec.catch_up_bytes_per_second,
        addresses=addresses,
        storage=spec.storage,
        mode=spec.change_peers,
        needs_lease=spec.consistency_mode is ConsistencyMode.HIGH_AVAILABILITY,
        sessions=sessions,
    )
