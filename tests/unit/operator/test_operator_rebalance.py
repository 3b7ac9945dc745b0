"""The rebalance: its rules by table, and convergence under faults over many interleavings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.operator import group_model as model
from tests.unit.operator.rebalance_world import EVERYONE, SETTINGS, World, of
from zonequake_operator.groups.reports import Group, observe
from zonequake_operator.rebalance.key_changes import WantedKeys, decide, is_blocked
from zonequake_operator.rebalance.orders import NEWCOMER_KEPT_S, orders, patience_s
from zonequake_operator.resources.model import (
    ChangePeersMode,
    ConsistencyMode,
    PartitionKeys,
    TokenPeers,
)
from zonequake_protocol.admin import (
    ChangePeers,
    ConfigurationReport,
    Grant,
    Order,
    PeerName,
    ReplicaRole,
    ReplicaStatus,
    Stage,
    StartReplica,
    StopReplica,
)

SEEDS = 8
SCRIPTS_PER_SEED = 100
NOBODY = Group(name=model.GROUP, replicas={})
BOOTSTRAP = TokenPeers(token=1, peers=(PeerName("A", "1"),))
LOCK = TokenPeers(token=2, peers=(PeerName("A", "1"),))


def keys(
    stable: str | None,
    pending: str | None = None,
    planned: str | None = None,
    lock: TokenPeers | None = None,
) -> PartitionKeys:
    return PartitionKeys(
        stable=of(stable),
        pending=of(pending),
        planned=of(planned),
        configuration_token=2,
        bootstrap=BOOTSTRAP,
        pending_lock=lock,
        change_trigger_revision=1,
    )


Q, U, C = ChangePeersMode.QUEUE, ChangePeersMode.UPDATE, ChangePeersMode.CANCEL


@pytest.mark.parametrize(
    ("name", "mode", "before", "target", "after"),
    [
        ("a wish becomes pending", Q, keys("ABC"), "ABD", ("ABC", "ABD", None)),
        ("a wish equal to stable moves nothing", Q, keys("ABC"), "ABC", ("ABC", None, None)),
        ("an orphaned planned is removed", Q, keys("ABC", None, "D"), "ABC", ("ABC", None, None)),
        ("a second wish waits", Q, keys("ABC", "ABD"), "ABE", ("ABC", "ABD", "ABE")),
        ("the newest wish waits", Q, keys("ABC", "ABD", "ABE"), "CDE", ("ABC", "ABD", "CDE")),
        ("the way back waits too", Q, keys("ABC", "ABD"), "ABC", ("ABC", "ABD", "ABC")),
        ("pending again: no planned", Q, keys("ABC", "ABD", "ABE"), "ABD", ("ABC", "ABD", None)),
        ("no data nodes: all stays", Q, keys("ABC", "ABD", "E"), None, ("ABC", "ABD", "E")),
        ("update replaces pending", U, keys("ABC", "ABD", "E"), "ABE", ("ABC", "ABE", None)),
        (
            "update waits behind the lock",
            U,
            keys("ABC", "ABD", lock=LOCK),
            "E",
            ("ABC", "ABD", "E"),
        ),
        ("a dead newcomer blocks nobody", Q, keys("ABC", "ABX", "C"), "ABD", ("ABC", "ABD", None)),
        ("not so once it is locked", Q, keys("ABC", "ABX", lock=LOCK), "D", ("ABC", "ABX", "D")),
    ],
)
def test_the_trigger_step(
    name: str,
    mode: ChangePeersMode,
    before: PartitionKeys,
    target: str | None,
    after: tuple[str | None, str | None, str | None],
) -> None:
    wish = WantedKeys(calculated=of(target), revision=7, due=True, mode=mode)
    result = decide(before, NOBODY, wish, EVERYONE)
    assert (result.stable, result.pending, result.planned) == tuple(map(of, after)), name
    changed = (before.stable, before.pending, before.planned) != tuple(map(of, after))
    assert result.change_trigger_revision == (7 if changed else 1)
    moved = before.pending != result.pending
    assert result.configuration_token == (3 if moved else 2)


def test_an_old_event_is_skipped() -> None:
    before = keys("ABC")
    assert (
        decide(before, NOBODY, WantedKeys(calculated=of("D"), revision=7, due=False), EVERYONE)
        == before
    )


def test_a_majority_of_dead_nodes_blocks_a_pending() -> None:
    assert is_blocked(keys("ABC", "ABD"), frozenset("CD"))
    assert not is_blocked(keys("ABC", "ABD"), frozenset("AD"))


def test_no_replica_is_erased_without_a_leader() -> None:
    group = model.StoreGroup()
    for node in "ABCD":
        group.replicas[node] = model.Replica(incarnation=node, token=1)
    told = orders(keys("ABC"), group.report(), SETTINGS, alive=EVERYONE, reachable=EVERYONE)
    assert told == []


def test_a_broken_replica_is_erased_under_a_confirmed_leader_alone() -> None:
    world = World()
    world.wish("ABC")
    world.run(30)
    seen = world.group.report(frozenset())
    follower = next(node for node in "ABC" if node != seen.leader)
    hurt = msgspec.structs.replace(seen.replicas[follower], role=ReplicaRole.BROKEN)
    broken = observe(seen.name, {**seen.replicas, follower: hurt})
    assert broken.confirmed

    def told(group: Group) -> list[tuple[str, Order]]:
        return orders(world.keys, group, SETTINGS, alive=EVERYONE, reachable=EVERYONE)

    token = world.keys.configuration_token
    stop = StopReplica(group=seen.name, token=token, incarnation=hurt.incarnation)
    assert told(broken) == [(follower, stop)]
    alone = told(observe(seen.name, {follower: hurt}))
    assert not any(isinstance(order, StopReplica) for _, order in alone), "the only copy left"


def test_a_newcomer_that_was_dropped_is_erased_last() -> None:
    """D was catching up when E was wanted instead: if D is wanted again, it goes on."""
    members = [PeerName(name, "1") for name in "ABC"]
    configuration = ConfigurationReport(peers=members, token=1, index=1)
    former = ConfigurationReport(peers=[*members, PeerName("F", "1")], token=0, index=0)
    older = ConfigurationReport(peers=members, token=1, index=1, lineage=-1)
    replicas = {
        name: ReplicaStatus(
            group="g",
            zone="z",
            partition=0,
            incarnation="1",
            role=ReplicaRole.LEADER if name == "A" else ReplicaRole.FOLLOWER,
            term=1,
            leader="A",
            configuration=known,
            token=2,
            commit=1,
        )
        for name, known in [
            *((name, configuration) for name in "ABCD"),
            ("E", None),
            ("F", former),
            ("G", older),
        ]
    }
    group = observe("g", replicas)

    def told(pending: str | None) -> dict[str, float]:
        known = keys("ABC", pending)
        found = orders(known, group, SETTINGS, alive=EVERYONE, reachable=EVERYONE)
        return {
            node: patience_s(node, order, known, group)
            for node, order in found
            if isinstance(order, StopReplica)
        }

    assert told("ABE") == {"D": inf, "F": 0, "G": 0}
    assert told(None) == {"D": NEWCOMER_KEPT_S, "E": NEWCOMER_KEPT_S, "F": 0, "G": 0}


def test_a_lost_partition_resource_is_rebuilt_from_its_group() -> None:
    world = World()
    world.wish("ABC")
    world.run(30)
    lived = world.keys
    world.keys = PartitionKeys()
    world.wish("ABC")
    world.run(30)
    assert world.keys.stable == lived.stable
    assert world.keys.bootstrap == lived.bootstrap
    assert world.keys.configuration_token > lived.configuration_token


@pytest.mark.parametrize("consistency", list(ConsistencyMode))
def test_a_rebuilt_partition_still_shuts_out_what_its_last_reset_gave_up(
    consistency: ConsistencyMode,
) -> None:
    """B and C, the old majority, would else start, and could lead the old lineage."""
    token = 5
    alone = ConfigurationReport(peers=[PeerName("A", "1")], token=token, index=9, lineage=token)
    survivor = ReplicaStatus(
        group="g",
        zone="z",
        partition=0,
        incarnation="1",
        role=ReplicaRole.LEADER,
        term=7,
        leader="A",
        configuration=alone,
        token=token,
        enforced_lineage=token,
        commit=9,
    )
    waiting = msgspec.structs.replace(
        survivor,
        role=ReplicaRole.WAITING,
        configuration=None,
        leader=None,
        token=1,
        enforced_lineage=0,
    )
    group = observe("g", {"A": survivor, "B": waiting, "C": waiting})
    wish = WantedKeys(calculated=of("ABC"), revision=7, due=True, consistency_mode=consistency)
    rebuilt = decide(PartitionKeys(), group, wish, EVERYONE)
    assert (rebuilt.stable, rebuilt.pending) == (of("A"), of("ABC"))
    told = orders(rebuilt, group, SETTINGS, alive=EVERYONE, reachable=frozenset("ABC"))
    starts = {node: order for node, order in told if isinstance(order, StartReplica)}
    assert {node: order.enforced_token for node, order in starts.items()} == {"B": 5, "C": 5}


nodes = st.sampled_from("ABCDE")
wishes = st.sets(nodes, min_size=1, max_size=4).map(lambda s: "".join(sorted(s)))
ticks = st.integers(0, 4)
events = st.one_of(
    st.tuples(st.just("wish"), wishes),
    st.tuples(st.just("crash"), nodes),
    st.tuples(st.just("wipe"), nodes),
    st.tuples(st.just("depose"), st.booleans()),
    st.tuples(st.just("lose"), st.none()),
    st.tuples(st.just("delay"), ticks),
    st.tuples(st.just("deliver"), st.none()),
    st.tuples(st.just("operator dies"), st.none()),
    st.tuples(st.just("twin reads"), st.none()),
    st.tuples(st.just("twin acts"), st.none()),
    st.tuples(st.just("late"), ticks),
    st.tuples(st.just("write fails"), st.none()),
    st.tuples(st.just("silent"), nodes),
    st.tuples(st.just("dead"), nodes),
    st.tuples(st.just("step"), st.integers(1, 6)),
    st.tuples(st.just("tick"), st.integers(1, 3)),
)


def play(world: World, script: Sequence[tuple[str, object]]) -> None:
    for what, detail in script:
        match what:
            case "wish":
                world.wish(str(detail))
            case "crash":
                world.group.crash(str(detail))
            case "wipe":
                # Who was told its first configuration, or was about to be, isn't told again after
                # a wipe: what that loses, only a reset brings back.
                if world.keys.bootstrap is None or world.group.configuration is not None:
                    lock = world.keys.pending_lock
                    world.group.wipe(str(detail), granted=lock.peers if lock else ())
            case "depose":
                world.group.depose(losing_uncommitted=bool(detail))
            case "lose":
                world.step(lose=True)
            case "delay":
                world.step(delay=True, late_ticks=int(str(detail)))
            case "deliver":
                world.deliver()
            case "twin reads":
                world.twin_reads()
            case "twin acts":
                world.twin_acts()
            case "operator dies":
                world.step(dies=True)
            case "late":
                world.step(late_ticks=int(str(detail)))
            case "write fails":
                world.step(write_fails=True)
            case "silent":
                world.step(silent=frozenset(str(detail)))
            case "dead":
                world.step(alive=EVERYONE - {str(detail)}, silent=frozenset(str(detail)))
            case "step":
                for _ in range(int(str(detail))):
                    world.step()
                    world.group.tick()
            case _:
                for _ in range(int(str(detail))):
                    world.group.tick()


def assert_it_settles(world: World) -> None:
    world.deliver()
    world.run(200)
    assert world.keys.stable == world.target
    assert world.keys.pending is None
    assert world.keys.planned is None
    assert world.keys.pending_lock is None
    assert (world.keys.switch_reduce, world.keys.switch_append) == ((), ())
    assert world.keys.stable is not None
    assert set(world.group.replicas) == set(world.keys.stable.nodes)
    assert world.group.leader is not None
    assert world.group.stage is Stage.NONE, "no leader waits for a grant that never comes"
    assert world.tokens == sorted(world.tokens), "the token never falls"
    assert not world.step(), "a settled partition causes no write and no order"


@settings(max_examples=300, deadline=None)
@given(first=wishes, script=st.lists(events, max_size=40), mode=st.sampled_from([Q, U, C]))
def test_every_interleaving_ends_at_the_last_wish(
    first: str, script: list[tuple[str, object]], mode: ChangePeersMode
) -> None:
    world = World(mode)
    world.wish(first)
    play(world, script)
    assert_it_settles(world)


def ordinary_faults(random: Random) -> list[tuple[str, object]]:
    """Long runs in which much succeeds, so that faults meet every stage of a change."""
    script: list[tuple[str, object]] = []
    for _ in range(random.randint(5, 60)):
        roll = random.random()
        node = random.choice("ABCDE")
        if roll < 0.1:
            wish = random.sample("ABCDE", random.randint(1, 4))
            script.append(("wish", "".join(sorted(wish))))
        elif roll < 0.65:
            script.append((random.choice(["late", "late", "delay"]), random.randint(0, 2)))
        elif roll < 0.8:
            script.append(("tick", 1))
        elif roll < 0.9:
            script.append((random.choice(["twin reads", "twin acts", "deliver"]), None))
        elif roll < 0.93:
            script.append(("depose", random.random() < 0.3))
        else:
            script.append((random.choice(["crash", "wipe", "operator dies", "silent"]), node))
    return script


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_change_that_meets_faults_at_any_stage_settles(seed: int) -> None:
    random = Random(seed)
    for _ in range(SCRIPTS_PER_SEED):
        world = World(random.choice([Q, U, C]))
        world.wish("ABC")
        play(world, script := ordinary_faults(random))
        try:
            assert_it_settles(world)
        except AssertionError as error:
            error.add_note(f"after {script}")
            raise


def test_a_leader_that_departs_leaves_no_node_waiting_for_a_grant() -> None:
    world = World()
    world.wish("ABC")
    world.run(30)
    while world.group.leader != "C":
        world.group.depose()
        world.group.tick()
    world.run(30)
    world.wish("ABD")
    while world.group.leader == "C":
        world.step()
        world.group.tick()
    token = world.keys.configuration_token
    while world.group.leader is None:
        world.group.tick()
    configuration = world.group.configuration
    assert configuration is not None
    assert configuration.index > world.group.commit, "the new leader shows its final configuration"
    assert {peer.node for peer in configuration.peers} == set("ABD")
    # As on the cluster: it commits between its report and what the operator makes of it, and the
    # operator's next look at it is again a little older than the order it has just sent.
    world.step(late_ticks=1, delay=True)
    world.step(late_ticks=1)
    world.deliver()
    world.run(30)
    assert world.keys.stable == of("ABD")
    assert world.keys.configuration_token == token, (
        "a change that is all but done isn't started over"
    )
    assert world.group.stage is Stage.NONE


def test_an_election_moves_nothing() -> None:
    world = World()
    world.wish("ABC")
    world.run(30)
    settled = world.keys
    world.group.depose()
    world.group.tick()
    configuration = world.group.configuration
    assert configuration is not None
    assert configuration.index > world.group.commit
    assert not world.step()
    assert world.keys == settled


def test_a_replica_that_an_older_order_may_erase_is_no_peer_yet() -> None:
    world = World()
    world.wish("ABC")
    world.run(30)
    world.wish("AB")
    while world.keys.stable != of("AB"):
        world.step(delay=True)
        stops = [told for told in world.late if isinstance(told[1], StopReplica)]
        world.late = [told for told in world.late if told not in stops]
        world.deliver()
        world.group.tick()
    assert [node for node, _ in stops] == ["C"]
    world.wish("AC")
    while world.group.stage is not Stage.CATCHING_UP:
        world.step()
        world.group.tick()
    incarnation = world.group.replicas["C"].incarnation
    world.late = stops
    world.deliver()
    assert world.group.replicas["C"].incarnation == incarnation
    assert_it_settles(world)


def test_a_group_is_formed_of_replicas_that_no_older_order_may_erase() -> None:
    unformed, wished = (
        replace(keys("AB"), bootstrap=None),
        WantedKeys(calculated=of("AB"), revision=1, due=False),
    )

    def running(token: int) -> Group:
        return observe(
            model.GROUP,
            {
                node: ReplicaStatus(
                    group=model.GROUP,
                    zone="z",
                    partition=0,
                    incarnation=node,
                    role=ReplicaRole.FOLLOWER,
                    term=0,
                    token=token,
                )
                for node in "AB"
            },
        )

    nodes = frozenset("AB")
    assert decide(unformed, running(1), wished, nodes) == unformed
    told = orders(unformed, running(1), SETTINGS, alive=nodes, reachable=nodes)
    assert [(node, type(order), order.token) for node, order in told] == [
        ("A", StartReplica, 2),
        ("B", StartReplica, 2),
    ]
    assert decide(unformed, running(2), wished, nodes).bootstrap is not None


@pytest.mark.parametrize("wanted", ["ABC", "ABD"])
def test_a_change_that_is_no_longer_wanted_is_brought_to_an_end(wanted: str) -> None:
    world = World()
    world.wish("ABC")
    world.run(30)
    peers = [PeerName(n, r.incarnation) for n, r in sorted(world.group.replicas.items())]
    token, term = world.keys.configuration_token + 1, world.group.term
    late = ChangePeers(group=model.GROUP, term=term, token=token, peers=peers)
    group = world.group
    assert group.leader is not None
    group.obey(group.leader, late)
    assert group.stage is Stage.CATCHING_UP
    world.wish(wanted)
    world.run(60)
    assert world.group.stage is Stage.NONE
    assert world.keys.stable == of(wanted)
    assert world.keys.pending is None


def test_a_grant_goes_out_only_after_the_lock_is_stored() -> None:
    world = World()
    world.wish("ABC")
    world.run(30)
    world.wish("ABD")
    for _ in range(30):
        seen = world.group.report()
        told = orders(world.keys, seen, SETTINGS, alive=EVERYONE, reachable=EVERYONE)
        for _, order in told:
            if isinstance(order, Grant):
                assert world.keys.pending_lock == TokenPeers(
                    token=order.token, peers=tuple(order.peers)
                )
        world.step()
        world.group.tick()
    assert world.keys.stable == of("ABD")


def test_a_newcomer_that_has_gone_after_it_was_caught_up_does_not_hold_the_lock_back() -> None:
    world = World()
    world.wish("ABC")
    world.run(30)
    world.wish("ABD")
    while not world.group.caught_up:
        world.step()
        world.group.tick()
    seen = world.group.report()
    left = replace(seen, replicas={n: r for n, r in seen.replicas.items() if n != "D"})
    alive, wish = frozenset("ABC"), WantedKeys(calculated=of("ABD"), revision=1, due=False)
    locked = decide(world.keys, left, wish, alive)
    assert locked.pending_lock is not None, "A and B are a majority of ABD"
    told = orders(locked, left, SETTINGS, alive=alive, reachable=alive)
    assert [type(order) for _, order in told] == [Grant]


def test_no_lock_while_a_majority_of_the_peers_is_dead() -> None:
    world = World()
    world.wish("ABC")
    world.run(30)
    world.wish("ADE")
    while not world.group.caught_up:
        world.step()
        world.group.tick()
    for _ in range(5):
        world.step(alive=frozenset("ABC"))
    assert world.keys.pending_lock is None
    world.step(alive=frozenset("ABCD"))
    assert world.keys.pending_lock is not None, "A and D are a majority of ADE"


@pytest.mark.parametrize("mode", list(ChangePeersMode))
@pytest.mark.parametrize("written", ["ABX", "AX", "XYZ"])
def test_a_stable_set_that_was_written_by_hand_ends_where_the_zone_wants_it(
    mode: ChangePeersMode, written: str
) -> None:
    """X is no node: it was waited for until something else happened to the zone."""
    world = World(mode)
    world.wish("ABC")
    world.run(30)
    world.keys = replace(world.keys, stable=of(written))
    world.run(60)
    assert (world.keys.stable, world.keys.pending) == (of("ABC"), None)
