"""A zone whose groups do what they are told, planned until nothing is left to write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.unit.made_up_nodes import node_identity, topology_node
from zonequake_operator.planning.applied import stored
from zonequake_operator.planning.plan import ZonePlan, plan
from zonequake_operator.resources.condition_types import ConditionType, Reason
from zonequake_operator.resources.model import (
    TokenPeers,
    Topology,
    Zone,
    ZoneSnapshot,
    ZoneSpec,
    ZoneStatus,
    group_name,
)
from zonequake_protocol.admin import (
    ConfigurationReport,
    PeerName,
    ReplicaRole,
    ReplicasReport,
    ReplicaStatus,
)

UID = "12345678-0000"
NEW = ZoneStatus()
FOUR = ZoneSpec(partitions=4)


def topology(*names: str, version: int = 1) -> Topology:
    return Topology(
        version=version,
        nodes={
            n: topology_node(n, version, attributes={"tags": "SSD"}, peer_address=f"{n}:7001")
            for n in names
        },
    )


def zone(spec: ZoneSpec | str, status: ZoneStatus = NEW, generation: int = 1) -> Zone:
    return Zone(
        name="z",
        namespace="ns",
        uid=UID,
        generation=generation,
        resource_version="1",
        spec=spec,
        status=status,
    )


def settle(snapshot: ZoneSnapshot) -> tuple[ZoneSnapshot, ZonePlan]:
    """Plan and write until there is nothing left to write."""
    for _ in range(20):
        decided = plan(snapshot)
        if not decided.writes:
            return snapshot, decided
        snapshot = stored(snapshot, decided)
    raise AssertionError("the planner never stops writing")


def reports(snapshot: ZoneSnapshot, applied: Mapping[str, int] = {}) -> dict[str, ReplicasReport]:
    """Every stable replica runs, and the first of each set leads."""
    found: dict[str, list[ReplicaStatus]] = {n: [] for n in snapshot.topology.nodes}
    for number, partition in snapshot.partitions.items():
        stable = partition.keys.stable
        assert stable is not None
        peers = [PeerName(n, "i") for n in stable.nodes]
        for n in stable.nodes:
            found[n].append(
                ReplicaStatus(
                    group=group_name("z", UID, number),
                    zone="z",
                    partition=number,
                    incarnation="i",
                    role=ReplicaRole.LEADER if n == stable.nodes[0] else ReplicaRole.FOLLOWER,
                    term=3,
                    leader=stable.nodes[0],
                    configuration=ConfigurationReport(peers=peers, token=1, index=0),
                    token=1,
                    commit=5000,
                    applied=applied.get(n, 5000),
                )
            )
    return {n: ReplicasReport(node=node_identity(n), replicas=r) for n, r in found.items()}


def healthy(spec: ZoneSpec = FOUR, nodes: str = "ABCD") -> ZoneSnapshot:
    """A zone that has settled."""
    empty = ZoneSnapshot(
        now_ms=1000, zone=zone(spec), partitions={}, topology=topology(*nodes), reports={}
    )
    fresh, _ = settle(empty)
    partitions = {
        n: replace(
            p,
            keys=replace(
                p.keys,
                bootstrap=TokenPeers(
                    token=1,
                    peers=tuple(PeerName(x, "i") for x in p.keys.stable.nodes),  # type: ignore[union-attr]
                ),
            ),
        )
        for n, p in fresh.partitions.items()
    }
    fresh = replace(fresh, partitions=partitions)
    return settle(replace(fresh, reports=reports(fresh)))[0]


def conditions(snapshot: ZoneSnapshot) -> dict[ConditionType, tuple[bool, Reason]]:
    return {c.type: (c.status, c.reason) for c in snapshot.zone.conditions}
