"""A model of one HighAvailability partition's nodes: logs, lineages, processes that end and begin.

Elections, replication and changes of peers are one step each; what a step may do is what
`zonequake_store.raft` allows. Everything is a value, so that a search can go through all orders.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from zonequake_operator.groups.reports import is_majority
from zonequake_operator.resources.model import (
    AssignmentSet,
    AssignmentsLink,
    DataNodes,
    PartitionKeys,
    TokenPeers,
    ZoneStatus,
    group_name,
)
from zonequake_protocol.admin import (
    ChangePeers,
    Order,
    PeerName,
    ResetPeers,
    StartReplica,
    StopReplica,
)

UID = "12345678"
GROUP = group_name("z", UID, 0)
LINEAGE = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A user's write by its name, or a configuration."""

    term: int
    write: str = ""
    peers: tuple[PeerName, ...] = ()
    token: int = 0
    lineage: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    incarnation: str
    running: bool
    token: int
    term: int = 1
    enforced: int = 0
    had_leader: bool = False
    leads: bool = False
    commit: int = 0
    log: tuple[Entry, ...] = ()

    @property
    def configuration(self) -> tuple[int, Entry] | None:
        found = [(i + 1, entry) for i, entry in enumerate(self.log) if entry.peers]
        return found[-1] if found else None

    @property
    def position(self) -> tuple[int, int]:
        return (self.log[-1].term if self.log else 0, len(self.log))

    @property
    def takes_part(self) -> bool:
        found = self.configuration
        return self.running and found is not None and found[1].lineage >= self.enforced

    @property
    def writes(self) -> frozenset[str]:
        return frozenset(entry.write for entry in self.log if entry.write)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """`late`: orders on their way. `acknowledged`: writes that no reset has given up."""

    replicas: tuple[tuple[str, Replica], ...]
    up: frozenset[str]
    topology: tuple[int, tuple[tuple[str, int], ...], tuple[tuple[str, int, int], ...]]
    status: ZoneStatus
    keys: PartitionKeys
    late: frozenset[tuple[str, bytes]] = frozenset()
    acknowledged: frozenset[str] = frozenset()
    given_up: frozenset[str] = frozenset()
    born: int = 1
    resets: int = 0
    inspected: frozenset[str] = field(default_factory=frozenset)

    def of(self) -> dict[str, Replica]:
        return dict(self.replicas)

    def having(self, replicas: dict[str, Replica], **more: object) -> World:
        return replace(self, replicas=tuple(sorted(replicas.items())), **more)  # type: ignore[arg-type]


def settled(nodes: str) -> World:
    """A group that has come up on these nodes, led by the first."""
    peers = tuple(PeerName(n, "1") for n in nodes)
    first = Entry(term=1, peers=peers, token=1)
    replicas = {
        n: Replica(
            incarnation="1",
            running=True,
            token=1,
            had_leader=True,
            leads=n == nodes[0],
            commit=1,
            log=(first,),
        )
        for n in nodes
    }
    return World(
        replicas=tuple(sorted(replicas.items())),
        up=frozenset(nodes),
        topology=(1, tuple((n, 1) for n in nodes), ()),
        status=ZoneStatus(
            observed_generation=1,
            revision=1,
            handled_revision=1,
            data_nodes=DataNodes(nodes=frozenset(nodes), topology_version=1),
        ),
        keys=PartitionKeys(
            stable=AssignmentSet.of(*nodes),
            configuration_token=1,
            bootstrap=TokenPeers(token=1, peers=peers),
            chain=(AssignmentsLink(nodes=tuple(nodes), term=0, index=0),),
        ),
    )


# ----------------------------------------------------------------------------------------- nodes


def kill(world: World, node: str) -> World:
    """The process ends, and that is proven."""
    version, nodes, departed = world.topology
    since = dict(nodes)[node]
    replicas = world.of()
    if node in replicas:
        replicas[node] = replace(replicas[node], running=False, leads=False, had_leader=False)
    return world.having(
        replicas,
        up=world.up - {node},
        inspected=world.inspected - {node},
        topology=(
            version + 1,
            tuple((n, s) for n, s in nodes if n != node),
            tuple(sorted([d for d in departed if d[0] != node] + [(node, since, version + 1)])),
        ),
    )


def start(world: World, node: str) -> World:
    """A process begins, and has identified itself."""
    version, nodes, departed = world.topology
    return replace(
        world,
        up=world.up | {node},
        topology=(version + 1, tuple(sorted([*nodes, (node, version + 1)])), departed),
    )


# ----------------------------------------------------------------------------------------- groups


def elections(world: World) -> Iterator[World]:
    """Each replica that can win, wins, and brings its log to every member that runs."""
    replicas = world.of()
    for node, replica in replicas.items():
        found = replica.configuration
        if not replica.takes_part or replica.leads or found is None:
            continue
        peers = found[1].peers
        if PeerName(node, replica.incarnation) not in peers:
            continue
        voters = [
            p.node
            for p in peers
            if (r := replicas.get(p.node)) is not None
            and r.incarnation == p.incarnation
            and r.running
            and not abstains(r)
            and r.enforced <= found[1].lineage
            and r.position <= replica.position
        ]
        if not is_majority(len(voters), len(peers)):
            continue
        if any(replicas[v].leads and replicas[v].term >= replica.term for v in voters):
            continue  # the leader is heard
        term = max(replicas[v].term for v in voters) + 1
        yield replicate(_led(world, node, term), node)


def resignations(world: World) -> Iterator[World]:
    """Each leader that hears no majority notices it (check-quorum)."""
    replicas = world.of()
    for node, replica in replicas.items():
        if not replica.leads:
            continue
        peers = peers_in(replica)
        hears = sum(
            p.node in replicas
            and replicas[p.node].running
            and replicas[p.node].incarnation == p.incarnation
            and replicas[p.node].term <= replica.term
            for p in peers
        )
        if not is_majority(hears, len(peers)):
            yield world.having({**replicas, node: replace(replica, leads=False)})


def abstains(replica: Replica) -> bool:
    found = replica.configuration
    return found is not None and found[1].lineage < replica.enforced


def _led(world: World, node: str, term: int) -> World:
    replicas = world.of()
    for name, other in replicas.items():
        if name == node:
            replicas[name] = replace(other, leads=True, term=term, had_leader=True)
        elif (
            other.leads and other.term < term and name in {p.node for p in peers_in(replicas[node])}
        ):
            replicas[name] = replace(other, leads=False)
    return world.having(replicas)


def peers_in(replica: Replica) -> tuple[PeerName, ...]:
    found = replica.configuration
    return found[1].peers if found else ()


def replicate(world: World, leader: str, only: frozenset[str] | None = None) -> World:
    """The leader's log is at every member that runs (of `only`); what a majority has is committed,
    and its writes are acknowledged."""
    replicas = world.of()
    leading = replicas[leader]
    found = leading.configuration
    assert found is not None
    have = 0
    for peer in found[1].peers:
        other = replicas.get(peer.node)
        if other is None or other.incarnation != peer.incarnation or not other.running:
            continue
        if other.enforced > found[1].lineage or other.term > leading.term:
            continue  # it was told of a later reset
        if only is not None and peer.node not in only and peer.node != leader:
            continue
        have += 1
        if peer.node != leader:
            replicas[peer.node] = replace(
                other,
                log=leading.log,
                term=leading.term,
                had_leader=True,
                leads=False,
                enforced=max(other.enforced, found[1].lineage),
                token=max(other.token, found[1].token),
            )
    if not is_majority(have, len(found[1].peers)):
        return world.having(replicas)
    replicas[leader] = replace(leading, commit=len(leading.log))
    return world.having(replicas, acknowledged=world.acknowledged | leading.writes)


def write(world: World, leader: str, name: str, to: frozenset[str]) -> World:
    """A user's write, which reaches these members at first."""
    replicas = world.of()
    leading = replicas[leader]
    replicas[leader] = replace(leading, log=(*leading.log, Entry(term=leading.term, write=name)))
    return replicate(world.having(replicas), leader, to)


# ----------------------------------------------------------------------------------------- orders


def obey(world: World, node: str, order: Order) -> World:
    """One order at one node."""
    if node not in world.up:
        return world
    replicas = world.of()
    replica = replicas.get(node)
    if isinstance(order, StartReplica):
        if replica is None:
            fresh = Replica(
                incarnation=f"{world.born + 1}",
                running=True,
                token=order.token,
                enforced=order.enforced_token,
            )
            return world.having({**replicas, node: fresh}, born=world.born + 1)
        if order.token < replica.token:
            return world
        told = max(replica.enforced, order.enforced_token)
        replicas[node] = replace(
            replica,
            running=True,
            token=order.token,
            enforced=told,
            leads=replica.leads and told <= replica.enforced,
            term=max(replica.term, told * LINEAGE),
        )
        return world.having(replicas)
    if replica is None or not (replica.running or isinstance(order, StopReplica)):
        return world
    if order.token < replica.token:
        return world
    if isinstance(order, StopReplica):
        if order.incarnation == replica.incarnation:
            del replicas[node]
            return world.having(replicas)
    elif isinstance(order, ResetPeers):
        return _reset(world, node, order)
    elif isinstance(order, ChangePeers) and replica.leads and order.term == replica.term:
        return _change(world, node, order)
    return world


def _reset(world: World, node: str, order: ResetPeers) -> World:
    replicas = world.of()
    replica = replicas[node]
    found = replica.configuration
    if found is None or found[1].lineage >= order.token or order.token < replica.enforced:
        return world
    if replica.leads or any(
        r.leads and node in {p.node for p in peers_in(r)} and r.enforced <= r.log[-1].lineage
        for n, r in replicas.items()
        if n != node and n in world.up
    ):
        return world  # busy: it hears a leader
    forced = Entry(
        term=order.token * LINEAGE + replica.term % LINEAGE + 1,
        peers=tuple(order.peers),
        token=order.token,
        lineage=order.token,
    )
    replicas[node] = replace(
        replica,
        log=(*replica.log, forced),
        term=forced.term,
        enforced=order.token,
        token=order.token,
        leads=True,
        had_leader=True,
        commit=len(replica.log) + 1,
    )
    kept = replica.writes
    return world.having(
        replicas,
        given_up=(world.given_up | (world.acknowledged - kept)) - kept,
        acknowledged=world.acknowledged & kept,
    )


def _change(world: World, leader: str, order: ChangePeers) -> World:
    """Catch-up, JOINT and STABLE at once, if majorities of both sets run."""
    replicas = world.of()
    leading = replicas[leader]
    found = leading.configuration
    assert found is not None
    if order.token <= found[1].token or leading.commit < found[0]:
        return world
    lineage = found[1].lineage

    def runs(peer: PeerName) -> bool:
        other = replicas.get(peer.node)
        return (
            other is not None
            and other.running
            and other.incarnation == peer.incarnation
            and other.enforced <= lineage
            and peer.node in world.up
        )

    for half in (order.peers, list(found[1].peers)):
        if not is_majority(sum(map(runs, half)), len(half)):
            return world
    if not all(map(runs, order.peers)):
        return world  # a newcomer never catches up
    entry = Entry(term=leading.term, peers=tuple(order.peers), token=order.token, lineage=lineage)
    replicas[leader] = replace(
        leading, log=(*leading.log, entry), token=max(leading.token, order.token)
    )
    after = replicate(world.having(replicas), leader)
    if leader not in {peer.node for peer in order.peers}:
        left = after.of()
        left[leader] = replace(left[leader], leads=False)
        return after.having(left)
    return after
