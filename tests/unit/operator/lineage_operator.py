"""The modelled partition's operator, the real `plan`: what it sees, writes and orders."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.made_up_nodes import node_identity, topology_node
from tests.unit.operator.lineage_model import GROUP, UID, World, abstains, obey, peers_in
from zonequake_operator.groups.reports import is_majority
from zonequake_operator.high_availability import reset
from zonequake_operator.planning.plan import WritePartition, WriteZone, ZonePlan, plan
from zonequake_operator.resources.model import (
    ConsistencyMode,
    Departure,
    Partition,
    PartitionKeys,
    Timers,
    Topology,
    TopologyNode,
    Zone,
    ZoneSnapshot,
    ZoneSpec,
)
from zonequake_protocol.admin import (
    ConfigurationReport,
    InspectReplica,
    NodeIdentity,
    ReplicaRole,
    ReplicasReport,
    ReplicaStatus,
    StopReplica,
)

TIMEOUT_S = 5
FIRED_MS = 10_000
SPEC = ZoneSpec(
    partitions=1,
    replicas=3,
    consistency_mode=ConsistencyMode.HIGH_AVAILABILITY,
    reset_timeout_s=TIMEOUT_S,
    timers=Timers(),
)


def decided(world: World, *, fired: bool = False) -> tuple[World, ZonePlan]:
    """The operator's writes, stored until nothing is left to write; and its last plan."""
    for _ in range(12):
        found = plan(snapshot(world, FIRED_MS if fired else 0))
        before = world
        for action in found.writes:
            if isinstance(action, WriteZone):
                world = replace(world, status=action.status)
            elif isinstance(action, WritePartition):
                _check_write(world.keys, action.keys)
                forced = reset.forced_node(action.keys)
                new = action.keys.configuration_token != world.keys.configuration_token
                if forced is not None and new:
                    _check_survivor(world, forced)
                    world = replace(world, resets=world.resets + 1)
                world = replace(world, keys=action.keys)
        if (world.keys, world.status) == (before.keys, before.status):
            return world, found
    raise AssertionError("the planner never stops writing")


def _check_write(before: PartitionKeys, after: PartitionKeys) -> None:
    """Forbidden states."""
    assert after.configuration_token >= before.configuration_token
    assert after.change_trigger_revision >= before.change_trigger_revision
    assert after.reset_revision >= before.reset_revision
    assert after.stable is not None
    assert after.chain, "a chain is never empty"
    assert after.chain[-1].nodes == after.stable.nodes, "the newest link is stable"
    if after.pending is None:
        assert after.planned is None, "it would never be promoted"
        assert after.pending_lock is None
    elif after.pending.force:
        assert len(after.pending.nodes) == 1
        assert not after.pending.from_reset
        assert after.pending_lock is None
        if after.planned is not None and after.planned.from_reset:
            assert set(after.pending.nodes) < set(after.planned.nodes)


def _check_survivor(world: World, survivor: str) -> None:
    """Nothing acknowledged is given up that a present node still has, and may report.

    In a group that stopped as a whole no node reports before its newest set can be judged: then
    nothing is given up.
    """
    replicas, keys = world.of(), world.keys
    stable = set(keys.stable.nodes) if keys.stable else set()
    nodes = stable | set(keys.pending.nodes if keys.pending else ())
    unwinds = not any(r.had_leader for n, r in replicas.items() if n in nodes)
    gone = not is_majority(len(stable & world.up), len(stable))
    assert unwinds or gone or {reset.forced_node(keys)} - world.up - {None}, "no node is missing"
    newest = set(keys.chain[-1].nodes)
    back = is_majority(len(newest & world.up), len(newest))
    assert back or not unwinds, f"the whole group stopped, and {survivor} goes on first"
    least = keys.chain[-1].token
    there = [
        r.writes
        for n, r in world.replicas
        if n in nodes & world.up and r.configuration and r.configuration[1].token >= least
    ]
    known = world.acknowledged
    if not unwinds:
        known &= frozenset().union(*there)
    lost = known - replicas[survivor].writes
    assert not lost, f"{survivor} is to go on, but lacks {sorted(lost)}"


def snapshot(world: World, now_ms: int) -> ZoneSnapshot:
    """What the operator sees."""
    version, nodes, departed = world.topology
    topology = Topology(
        version=version,
        nodes={n: _node(n, since) for n, since in nodes},
        departed={n: Departure(since=since, left=left) for n, since, left in departed},
    )
    replicas = world.of()
    reports = {
        n: ReplicasReport(node=_identity(n), replicas=[_status(world, n)] if n in replicas else [])
        for n in world.up
    }
    waiting = {
        n: {GROUP: _status(world, n, inspected=True)}
        for n in world.inspected & world.up
        if n in replicas and not replicas[n].running
    }
    return ZoneSnapshot(
        now_ms=now_ms,
        zone=Zone(
            name="z",
            namespace="ns",
            uid=UID,
            generation=1,
            resource_version="1",
            spec=SPEC,
            status=world.status,
        ),
        partitions={0: Partition(number=0, resource_version="1", keys=world.keys)},
        topology=topology,
        reports=reports,
        inspected=waiting,
    )


def _status(world: World, node: str, *, inspected: bool = False) -> ReplicaStatus:
    replicas = world.of()
    replica = replicas[node]
    shown = replica.running or inspected
    found = replica.configuration if shown else None
    users = [(e.term, i + 1) for i, e in enumerate(replica.log) if e.write] if shown else []
    leader = next(
        (
            n
            for n, r in sorted(replicas.items())
            if r.leads and r.term == replica.term and node in {p.node for p in peers_in(r)}
        ),
        None,
    )
    role = (
        ReplicaRole.LEADER
        if replica.leads
        else ReplicaRole.FOLLOWER
        if replica.running
        else ReplicaRole.WAITING
    )
    return ReplicaStatus(
        group=GROUP,
        zone="z",
        partition=0,
        incarnation=replica.incarnation,
        role=role,
        term=replica.term if shown else 0,
        leader=leader if replica.running else None,
        configuration=None
        if found is None
        else ConfigurationReport(
            peers=list(found[1].peers),
            token=found[1].token,
            index=found[0],
            lineage=found[1].lineage,
        ),
        token=replica.token,
        enforced_lineage=replica.enforced if replica.running else 0,
        abstains=replica.running and abstains(replica),
        had_leader=replica.had_leader,
        commit=replica.commit,
        applied=replica.commit,
        last_term=replica.position[0] if shown else 0,
        last_index=replica.position[1] if shown else 0,
        last_user_term=users[-1][0] if users else 0,
        last_user_index=users[-1][1] if users else 0,
        last_configuration_term=found[1].term if found else 0,
        last_configuration_index=found[0] if found else 0,
    )


def tell(world: World, found: ZonePlan) -> World:
    """Every order arrives; late copies of those that can't be taken back stay on their way."""
    for action in found.orders:
        if isinstance(action.order, InspectReplica):
            world = replace(world, inspected=world.inspected | {action.node})
            continue
        if isinstance(action.order, StopReplica):
            _check_erasure(world, action.node)
        world = obey(world, action.node, action.order)
    return world


def _check_erasure(world: World, node: str) -> None:
    """No node is erased that holds an acknowledged write that no other present node has."""
    others = [r.writes for n, r in world.replicas if n != node and n in world.up and r.takes_part]
    lost = (world.of()[node].writes & world.acknowledged) - frozenset().union(*others)
    assert not lost, f"{node} is erased, and alone has {sorted(lost)}"


def _node(name: str, since: int) -> TopologyNode:
    return topology_node(name, since, process_incarnation=f"{name}{since}")


def _identity(name: str) -> NodeIdentity:
    return node_identity(name, process_incarnation=name)
