"""The rebalance: its rules by table, and convergence under faults over many interleavings."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zonequake_operator import rebalance
from zonequake_operator.groups import Group
from zonequake_operator.model import AssignmentSet, ChangePeersMode, PartitionKeys, TokenPeers
from zonequake_operator.rebalance import ReplicaSettings, Wish, decide, is_blocked, orders
from zonequake_store.admin_protocol import PeerName

_SPEC = importlib.util.spec_from_file_location(
    "operator_group_model", Path(__file__).with_name("group_model.py")
)
assert _SPEC is not None
assert _SPEC.loader is not None
model = importlib.util.module_from_spec(_SPEC)
sys.modules["operator_group_model"] = model
_SPEC.loader.exec_module(model)

EVERYONE = frozenset("ABCDE")
NOBODY = Group(name=model.GROUP, replicas={})
BOOTSTRAP = TokenPeers(token=1, peers=(PeerName("A", "1"),))
LOCK = TokenPeers(token=2, peers=(PeerName("A", "1"),))


def of(nodes: str | None) -> AssignmentSet | None:
    return AssignmentSet.of(*nodes) if nodes else None


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


Q, U = ChangePeersMode.QUEUE, ChangePeersMode.UPDATE


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
    wish = Wish(target=of(target), revision=7, due=True, mode=mode)
    result = decide(before, NOBODY, wish, EVERYONE)
    assert (result.stable, result.pending, result.planned) == tuple(map(of, after)), name
    changed = (before.stable, before.pending, before.planned) != tuple(map(of, after))
    assert result.change_trigger_revision == (7 if changed else 1)
    moved = before.pending != result.pending
    assert result.configuration_token == (3 if moved else 2)


def test_an_old_event_is_skipped() -> None:
    before = keys("ABC")
    assert decide(before, NOBODY, Wish(target=of("D"), revision=7, due=False), EVERYONE) == before


def test_a_majority_of_dead_nodes_blocks_a_pending() -> None:
    assert is_blocked(keys("ABC", "ABD"), frozenset("CD"))
    assert not is_blocked(keys("ABC", "ABD"), frozenset("AD"))


def test_nobody_is_erased_without_a_leader() -> None:
    group = model.StoreGroup()
    for node in "ABCD":
        group.replicas[node] = model.Replica(incarnation=node, token=1)
    told = orders(keys("ABC"), group.report(), SETTINGS, alive=EVERYONE, reachable=EVERYONE)
    assert told == []


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


SETTINGS = ReplicaSettings(
    zone="z", partition=0, partitions=1, fsync=True, catch_up_bytes_per_second=0, addresses={}
)


class World:
    """The operator's loop around one group, with orders that may be lost."""

    def __init__(self, mode: ChangePeersMode = Q) -> None:
        self.group = model.StoreGroup()
        self.keys = PartitionKeys()
        self.mode = mode
        self.revision = 0
        self.target: AssignmentSet | None = None
        self.tokens: list[int] = [0]

    def wish(self, nodes: str) -> None:
        self.target, self.revision = of(nodes), self.revision + 1

    def step(
        self,
        *,
        alive: frozenset[str] = EVERYONE,
        silent: frozenset[str] = frozenset(),
        lose: bool = False,
        write_fails: bool = False,
        handled: int | None = None,
    ) -> bool:
        """One plan; says whether it did anything."""
        seen = self.group.report(silent)
        due = max(self.keys.change_trigger_revision, handled or 0) < self.revision
        wish = Wish(target=self.target, revision=self.revision, due=due, mode=self.mode)
        after = decide(self.keys, seen, wish, alive)
        if after != self.keys:
            if not write_fails:
                self.keys = after
                self.tokens.append(after.configuration_token)
            return True
        told = orders(
            self.keys, seen, SETTINGS, alive=alive, reachable=alive - silent, paused=False
        )
        if not lose:
            for node, order in told:
                self.group.obey(node, order)
        return bool(told)

    def run(self, steps: int) -> None:
        idle = 0
        for _ in range(steps):
            idle = 0 if self.step() else idle + 1
            self.group.tick()
            if idle > 5:
                return


nodes = st.sampled_from("ABCDE")
wishes = st.sets(nodes, min_size=1, max_size=4).map(lambda s: "".join(sorted(s)))
events = st.one_of(
    st.tuples(st.just("wish"), wishes),
    st.tuples(st.just("crash"), nodes),
    st.tuples(st.just("wipe"), nodes),
    st.tuples(st.just("depose"), st.none()),
    st.tuples(st.just("lose"), st.none()),
    st.tuples(st.just("write fails"), st.none()),
    st.tuples(st.just("silent"), nodes),
    st.tuples(st.just("dead"), nodes),
    st.tuples(st.just("step"), st.integers(1, 6)),
    st.tuples(st.just("tick"), st.integers(1, 3)),
)


@settings(max_examples=300, deadline=None)
@given(first=wishes, script=st.lists(events, max_size=40), mode=st.sampled_from([Q, U]))
def test_every_interleaving_ends_at_the_last_wish(
    first: str, script: list[tuple[str, object]], mode: ChangePeersMode
) -> None:
    world = World(mode)
    world.wish(first)
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
                    world.group.wipe(str(detail))
            case "depose":
                world.group.depose()
            case "lose":
                world.step(lose=True)
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
    world.run(200)

    assert world.keys.stable == world.target
    assert world.keys.pending is None
    assert world.keys.planned is None
    assert world.keys.pending_lock is None
    assert set(world.group.replicas) == set(world.keys.stable.nodes)
    assert world.group.leader is not None
    assert world.tokens == sorted(world.tokens), "the token never falls"
    assert not world.step(), "a settled partition causes no write and no order"


def test_a_grant_goes_out_only_after_the_lock_is_stored() -> None:
    world = World()
    world.wish("ABC")
    world.run(30)
    world.wish("ABD")
    for _ in range(30):
        seen = world.group.report()
        told = orders(world.keys, seen, SETTINGS, alive=EVERYONE, reachable=EVERYONE)
        for _, order in told:
            if isinstance(order, rebalance.Grant):
                assert world.keys.pending_lock == TokenPeers(
                    token=order.token, peers=tuple(order.peers)
                )
        world.step()
        world.group.tick()
    assert world.keys.stable == of("ABD")


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
