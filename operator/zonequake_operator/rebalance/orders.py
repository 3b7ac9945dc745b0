"""The orders to data nodes about one partition: start, bootstrap, change, grant, stop.

Orders are derived from keys that are stored already, so a token is always raised by
compare-and-swap before an order with it leaves, and a restarted operator sends the same orders
again, which is harmless. Document `rebalance`, "Start, changePeers" (2) and cleanup (3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from zonequake_operator.groups.evidence import (
    holders,
    in_order,
    is_applied,
    is_carried,
    lacks_token,
    majority_holds,
    named_peers,
    someone_has_data,
)
from zonequake_operator.groups.reports import Group, members
from zonequake_operator.high_availability import reset, reset_orders
from zonequake_operator.rebalance import volatile_switch
from zonequake_operator.rebalance.key_changes import gives_way
from zonequake_operator.resources.leases import LeaseSession
from zonequake_operator.resources.model import (
    ChangePeersMode,
    PartitionKeys,
    StorageKind,
    TokenPeers,
)
from zonequake_protocol.admin import (
    Bootstrap,
    CancelChangePeers,
    ChangePeers,
    Grant,
    Order,
    PeerName,
    ReplicaRole,
    Stage,
    StartReplica,
    StopReplica,
)

NO_SESSION = LeaseSession(holder="", number=0)
NEWCOMER_KEPT_S = 10.0
"""How long a newcomer is kept after a change: a wish that is changed and changed back within
seconds must not cost a second copy.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSettings:
    """The settings of the zone and of the other nodes in a start order.

    `needs_lease`: replicas acknowledge only in a session of their node's Lease; `sessions`: those
    that nodes reported, by name, before the keys were read.
    """

    zone: str
    partition: int
    partitions: int
    fsync: bool
    catch_up_bytes_per_second: int
    addresses: Mapping[str, str]
    storage: StorageKind = StorageKind.PERSISTENT
    mode: ChangePeersMode = ChangePeersMode.QUEUE
    needs_lease: bool = False
    sessions: Mapping[str, LeaseSession] = field(default_factory=dict)


def orders(
    keys: PartitionKeys,
    group: Group,
    settings: ReplicaSettings,
    *,
    alive: frozenset[str],
    reachable: frozenset[str],
    paused: bool = False,
    withheld: bool = False,
) -> list[tuple[str, Order]]:
    """Returns (node, order) pairs from stored keys. A paused zone only restarts its own replicas.

    `withheld`: no node starts before the chain is unwound.
    """
    if withheld:
        return []
    told: list[tuple[str, Order]] = []
    told += _starts(keys, group, settings, reachable)
    if paused:
        return told
    told += reset_orders.resets(keys, group, alive=alive, answered=reachable)
    told += _bootstraps(keys, group)
    told += _changes(keys, group, settings, alive)
    told += _stops(keys, group)
    return told


def hosts(keys: PartitionKeys) -> frozenset[str]:
    """Nodes that start a replica (hole 4): "iff it is in pending, or in stable while pending isn't
    forced, and not in switchReduce"."""
    return needed(keys) - frozenset(keys.switch_reduce)


def needed(keys: PartitionKeys) -> frozenset[str]:
    """Nodes that keep theirs (hole 15): "stable ∪ pending", "a forced pending: pending"."""
    return keys.pending_nodes if keys.is_forced else keys.stable_nodes | keys.pending_nodes


def _starts(
    keys: PartitionKeys, group: Group, settings: ReplicaSettings, reachable: frozenset[str]
) -> list[tuple[str, Order]]:
    own = hosts(keys)
    # Beside our own: nodes of a configuration that still acts, so that its majority can come back.
    waiting = frozenset(n for n, r in group.replicas.items() if r.role is ReplicaRole.WAITING)
    acting = group.configured_nodes
    if keys.is_forced:
        acting = frozenset()  # "Under a forced pending, old members stay down"
    elif group.leader is None:
        acting = group.remembered_nodes  # the next leader may need them
    if keys.bootstrap is None:
        acting = waiting  # what they hold shows only once they run
    nodes = {n for n in own & reachable if n not in group.replicas}
    if nodes and keys.bootstrap is not None:
        nodes -= volatile_switch.lost(keys, group)
    nodes |= waiting & (own | acting) - frozenset(keys.switch_reduce)
    if group.leader is not None:
        nodes |= {n for n in keys.pending_nodes if lacks_token(n, keys, group)}
    if keys.bootstrap is None:
        nodes |= {n for n in own if _stayed_empty(n, keys, group)}
    nodes |= reset_orders.to_tell(keys, group)
    nodes |= {n for n in group.replicas if _lacks_permission(n, group, settings)}
    tokens = {n: _start_token(keys, group, n) for n in nodes}
    for node in (own | acting) - nodes:
        if _has_another_rate(node, keys, group, settings):
            tokens[node] = group.replicas[node].token  # a new rate is no new wish
    return [
        (
            node,
            StartReplica(
                group=group.name,
                zone=settings.zone,
                partition=settings.partition,
                partitions=settings.partitions,
                token=token,
                volatile=settings.storage is StorageKind.VOLATILE,
                fsync=settings.fsync,
                enforced_token=reset.forced_token(keys),
                catch_up_bytes_per_second=settings.catch_up_bytes_per_second,
                addresses=dict(settings.addresses),
                needs_lease=settings.needs_lease,
                lease_session=settings.sessions.get(node, NO_SESSION).number,
                lease_holder=settings.sessions.get(node, NO_SESSION).holder,
            ),
        )
        for node, token in sorted(tokens.items())
    ]


def _has_another_rate(
    node: str, keys: PartitionKeys, group: Group, settings: ReplicaSettings
) -> bool:
    """Returns whether it runs, and was told another catch-up rate than the zone's. A leader has to
    learn a changed one while it leads, and its followers before they do.

    Not during a reset: a start order would make the survivor forget the leader that it may hear.
    """
    if keys.is_forced or not group.is_running(node):
        return False
    rate = group.replicas[node].catch_up_bytes_per_second
    return rate is not None and rate != settings.catch_up_bytes_per_second


def _stayed_empty(node: str, keys: PartitionKeys, group: Group) -> bool:
    """Returns whether it runs, from an earlier set that was never formed, and an order to erase it
    may be under way: it is stale once the replica has seen the present token.
    """
    return (
        group.is_running(node)
        and group.replicas[node].configuration is None
        and group.replicas[node].token < keys.configuration_token
    )


def _lacks_permission(node: str, group: Group, settings: ReplicaSettings) -> bool:
    """Returns whether it runs, but wasn't permitted in the session that its node's Lease is in."""
    session = settings.sessions.get(node, NO_SESSION).number
    return (
        settings.needs_lease
        and session > 0
        and group.is_running(node)
        and group.replicas[node].permitted_session != session
    )


def _start_token(keys: PartitionKeys, group: Group, node: str) -> int:
    """Returns the present token; but a first member that knows no later one keeps its bootstrap's.

    It may lack its bootstrap, and would refuse it as stale: decided with token 1, crashed, started
    again with the token 2 of a wish that came meanwhile.
    """
    replica = group.replicas.get(node)
    if replica is None or keys.bootstrap is None or replica.token > keys.bootstrap.token:
        return keys.configuration_token
    if keys.pending is not None and group.leader is not None and lacks_token(node, keys, group):
        return keys.configuration_token  # the group lives, and without it
    first = PeerName(node, replica.incarnation) in keys.bootstrap.peers
    return keys.bootstrap.token if first else keys.configuration_token


def _bootstraps(keys: PartitionKeys, group: Group) -> list[tuple[str, Order]]:
    """Orders the first configuration, for those it was decided for; never after a wipe."""
    if keys.bootstrap is None or keys.stable is None:
        return []
    order = Bootstrap(
        group=group.name,
        token=keys.bootstrap.token,
        peers=list(keys.bootstrap.peers),
        lineage=keys.bootstrap_lineage,
    )
    return [
        (peer.node, order)
        for peer in keys.bootstrap.peers
        if peer.node in keys.stable.nodes
        and group.is_running(peer.node)
        and group.replicas[peer.node].incarnation == peer.incarnation
        and group.replicas[peer.node].configuration is None
    ]


def _changes(
    keys: PartitionKeys, group: Group, settings: ReplicaSettings, alive: frozenset[str]
) -> list[tuple[str, Order]]:
    """RaftGroupService#changePeersAsync(leaderTerm, peers), cancelChangePeers(), and the answer to
    "caught up"."""
    leading, token, addresses = group.leading, keys.configuration_token, settings.addresses
    if keys.pending is None or group.leader is None or leading is None:
        return []
    if keys.is_forced:
        return []  # a reset needs no majority
    lost = keys.switch_reduce
    if leading.configuration is None or is_applied(keys.pending, leading, group, lost):
        return []
    if gives_way(keys, settings.mode) and leading.stage in (Stage.NONE, Stage.CATCHING_UP):
        # A late copy of its order may begin the change once more; then the next pending, which has
        # a higher token, replaces it.
        return [(group.leader, CancelChangePeers(group=group.name, term=leading.term, token=token))]
    peers = named_peers(keys, group)
    if peers is None:
        return []
    if leading.stage is Stage.CATCHING_UP and leading.stage_token == token:
        asked = TokenPeers(token=token, peers=in_order(leading.stage_peers))
        granted = leading.caught_up and keys.pending_lock == asked
        if granted and majority_holds(asked.peers, group, alive):
            grant = Grant(group=group.name, term=leading.term, token=token, peers=list(asked.peers))
            return [(group.leader, grant)]
        return []
    starts = (
        leading.stage is Stage.NONE
        and leading.configuration.token < token
        and not is_carried(keys.pending, leading, group, lost)
    )
    updates = leading.stage is Stage.CATCHING_UP and leading.stage_token < token
    if keys.pending_lock is not None or not (starts or updates):
        return []
    change = ChangePeers(
        group=group.name,
        term=leading.term,
        token=token,
        peers=list(peers),
        addresses={peer.node: addresses[peer.node] for peer in peers if peer.node in addresses},
    )
    return [(group.leader, change)]


def _stops(keys: PartitionKeys, group: Group) -> list[tuple[str, Order]]:
    """ "Stop unneeded raft nodes", by hole 15: only under a confirmed leader, which needs none.

    Broken ones too: their group lives without them, and they come back as other incarnations.
    """
    if keys.bootstrap is None:
        if keys.bootstrap_lineage:
            return _erasures(keys, group, holders(group))
        if keys.stable is None or someone_has_data(keys, group):
            return []
    elif not group.confirmed:
        return []
    kept = needed(keys)
    if not keys.is_forced:
        kept |= group.configured_nodes
    elif not reset.is_carried_out(keys, group.leading):
        return []  # no replica is erased before that group has a leader (hole 9)
    else:
        kept |= keys.planned_nodes
    return _erasures(
        keys,
        group,
        (
            node
            for node, replica in group.replicas.items()
            if node not in kept or (group.confirmed and replica.role is ReplicaRole.BROKEN)
        ),
    )


def _erasures(keys: PartitionKeys, group: Group, nodes: Iterable[str]) -> list[tuple[str, Order]]:
    return [
        (
            node,
            StopReplica(
                group=group.name,
                token=keys.configuration_token,
                incarnation=group.replicas[node].incarnation,
            ),
        )
        for node in sorted(nodes)
    ]


# -------------------------------------------------------------------------- Patience with newcomers


def patience_s(node: str, order: Order, keys: PartitionKeys, group: Group) -> float:
    """Returns how long an order must have been called for before it is sent.

    "Stop unneeded raft nodes" doesn't say when. A newcomer that was dropped and is wanted again
    continues from the data it has, which moves the least data; so it isn't erased while a change
    runs, and for a while after it.
    """
    if not isinstance(order, StopReplica) or not _was_catching_up(node, group):
        return 0.0
    return inf if keys.pending is not None else NEWCOMER_KEPT_S


def _was_catching_up(node: str, group: Group) -> bool:
    """Returns whether no configuration in its own log names it. A log from before a reset is
    another one.
    """
    replica, leading = group.replicas[node], group.leading
    if leading is None or leading.configuration is None or not group.is_running(node):
        return False
    if replica.abstains or replica.configuration is None:
        return not replica.abstains
    return replica.configuration.lineage == leading.configuration.lineage and PeerName(
        node, replica.incarnation
    ) not in members(replica.configuration)
