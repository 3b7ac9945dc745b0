"""One group of the nodes A, B, C … in the middle of a change, and what is wished of it."""

from __future__ import annotations

from msgspec.structs import replace

from zonequake_operator.groups.reports import Group, observe
from zonequake_operator.rebalance.key_changes import WantedKeys
from zonequake_operator.rebalance.orders import ReplicaSettings
from zonequake_operator.resources.model import (
    AssignmentSet,
    ChangePeersMode,
    PartitionKeys,
    StorageKind,
    TokenPeers,
)
from zonequake_protocol.admin import ConfigurationReport, PeerName, ReplicaRole, ReplicaStatus

EVERYONE = frozenset("ABCDE")
GROUP = "z.00000000.0"
SETTINGS = ReplicaSettings(
    zone="z",
    partition=0,
    partitions=1,
    fsync=True,
    catch_up_bytes_per_second=0,
    addresses={},
    storage=StorageKind.VOLATILE,
)
Q, U, C = ChangePeersMode.QUEUE, ChangePeersMode.UPDATE, ChangePeersMode.CANCEL


def of(nodes: str | None, **flags: bool) -> AssignmentSet | None:
    return None if not nodes else AssignmentSet(nodes=tuple(nodes), **flags)


def peer(node: str, life: int = 1) -> PeerName:
    return PeerName(node, f"{node}{life}")


def peers(nodes: str) -> list[PeerName]:
    return [peer(node) for node in nodes]


def keys(
    stable: str,
    pending: AssignmentSet | str | None = None,
    planned: AssignmentSet | str | None = None,
    *,
    reduce: str = "",
    append: str = "",
    lock: bool = False,
) -> PartitionKeys:
    pending = of(pending) if isinstance(pending, str) else pending
    planned = of(planned) if isinstance(planned, str) else planned
    return PartitionKeys(
        stable=of(stable),
        pending=pending,
        planned=planned,
        configuration_token=5,
        bootstrap=TokenPeers(token=1, peers=tuple(peers("ABC"))),
        pending_lock=TokenPeers(token=5, peers=tuple(peers(stable))) if lock else None,
        change_trigger_revision=1,
        switch_reduce=tuple(reduce),
        switch_append=tuple(append),
    )


def replica(node: str, life: int = 1, **more: object) -> ReplicaStatus:
    plain = ReplicaStatus(
        group=GROUP,
        zone="z",
        partition=0,
        incarnation=f"{node}{life}",
        role=ReplicaRole.FOLLOWER,
        term=3,
        leader="A",
        token=5,
    )
    return replace(plain, **more)


def group(
    configuration: str,
    *,
    old: str = "",
    token: int = 4,
    absent: str = "",
    reborn: str = "",
    also: str = "",
    answered: frozenset[str] = EVERYONE,
    **leader: object,
) -> Group:
    """A group that A leads; `absent` nodes have nothing, `reborn` ones another replica."""
    report = ConfigurationReport(
        peers=peers(configuration), old_peers=peers(old), token=token, index=9
    )
    nodes = [n for n in sorted({*configuration, *old, *also}) if n not in absent]
    replicas = {
        n: replica(n, configuration=report if n in configuration + old else None) for n in nodes
    }
    for node in reborn:
        replicas[node] = replica(node, 2, term=0, leader=None)
    leading = replica("A", role=ReplicaRole.LEADER, configuration=report, commit=9)
    replicas["A"] = replace(leading, **leader)
    return observe(GROUP, replicas, answered)


def wish(target: str | None, *, due: bool = False, mode: ChangePeersMode = Q) -> WantedKeys:
    return WantedKeys(
        calculated=of(target), revision=7, due=due, mode=mode, storage=StorageKind.VOLATILE
    )


def shown(found: PartitionKeys) -> tuple[str, ...]:
    """stable, pending, planned, switchReduce, switchAppend as words."""
    sets = (found.stable, found.pending, found.planned)
    return (
        *("".join(one.nodes) if one else "" for one in sets),
        "".join(found.switch_reduce),
        "".join(found.switch_append),
    )
