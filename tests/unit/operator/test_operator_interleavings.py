"""All orders of events of a small group: every state ends at the wish, none is forbidden."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import pytest

from tests.unit.operator import group_model as model
from tests.unit.operator import interleavings as search
from zonequake_operator.rebalance import key_changes, volatile_switch
from zonequake_operator.rebalance.key_changes import WantedKeys, decide
from zonequake_operator.rebalance.orders import ReplicaSettings, orders
from zonequake_operator.resources.model import (
    AssignmentSet,
    ChangePeersMode,
    PartitionKeys,
    StorageKind,
)

Budget, State = search.Budget, search.State

NODES = frozenset("ABCDE")
Q, U, C = ChangePeersMode.QUEUE, ChangePeersMode.UPDATE, ChangePeersMode.CANCEL
LIMIT = 400_000


def settings_of(mode: ChangePeersMode, storage: StorageKind) -> ReplicaSettings:
    return ReplicaSettings(
        zone="z",
        partition=0,
        partitions=1,
        fsync=True,
        catch_up_bytes_per_second=0,
        addresses={},
        storage=storage,
        mode=mode,
    )


def settled(nodes: str, settings: ReplicaSettings) -> tuple[PartitionKeys, object, WantedKeys]:
    """A group that has become what is wished."""
    group, keys = model.StoreGroup(), PartitionKeys()
    wish = WantedKeys(
        calculated=AssignmentSet.of(*nodes),
        revision=1,
        due=True,
        mode=settings.mode,
        storage=settings.storage,
    )
    for _ in range(40):
        seen = group.report()
        keys = decide(keys, seen, wish, NODES)
        for node, order in orders(keys, seen, settings, alive=NODES, reachable=NODES):
            group.obey(node, order)
        group.tick()
    assert keys.pending is None
    assert group.leader
    return keys, group, wish


def may_follow(before: Any, after: Any) -> None:
    """Forbidden states and steps."""
    was, keys, group = before.keys, after.keys, after.group
    assert keys.configuration_token >= was.configuration_token, "the token never falls"
    if keys.pending is None:
        assert keys.planned is None, "an orphan"
        assert keys.pending_lock is None
        assert keys.switch_append == (), "they would never be added"
    if keys.bootstrap is not None and keys.stable != was.stable:
        committed = group.committed
        assert committed is not None
        assert {p.node for p in committed.peers} == set(keys.stable.nodes), "not applied"
    if keys.pending_lock is not None and was.pending_lock is not None and keys.pending is not None:
        same = keys.pending.nodes == was.pending.nodes
        assert same or keys.stable != was.stable, "what is locked is replaced by its switch alone"
    if group.configuration is None:
        return
    counted = {*group.configuration.peers, *group.configuration.old_peers}
    assert len(counted) == len({p.node for p in counted}), "a lost replica came back in one step"
    if was.switch_reduce and keys.bootstrap is not None:
        for node in set(was.switch_reduce) - set(keys.switch_reduce):
            assert node not in {p.node for p in counted}, f"the reduction of {node} was overwritten"


V = StorageKind.VOLATILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A settled group, and what may happen to it. `more`: with how much more of it by hand."""

    first: str = "ABC"
    budget: Any
    more: Any
    storage: StorageKind = StorageKind.PERSISTENT
    may_leave: str = "ABCDE"
    for_good: bool = False

    def explore(self, mode: ChangePeersMode, *, thoroughly: bool = False) -> int:
        settings = settings_of(mode, self.storage)
        keys, group, wish = settled(self.first, settings)
        budget = self.more if thoroughly else self.budget
        found: int = search.Search(
            nodes=NODES,
            settings=settings,
            may_leave=frozenset(self.may_leave),
            for_good=self.for_good,
            check=may_follow,
        ).run(State(keys=keys, group=group, wish=wish, budget=budget), LIMIT)
        return found


SCENES = {
    "wishes under any leader": Scene(
        budget=Budget(wishes=("ABD", "ABC"), depositions=1),
        more=Budget(wishes=("ABD", "ABE", "ABC"), depositions=1, held=1),
    ),
    "an order that arrives at any later time": Scene(
        budget=Budget(wishes=("ABD",), depositions=1, held=1),
        more=Budget(wishes=("ABD", "ACE"), depositions=1, held=2),
    ),
    "volatile replicas lost": Scene(
        budget=Budget(losses=2, depositions=1),
        more=Budget(losses=3, depositions=1),
        storage=V,
    ),
    "volatile replicas lost while a node is added": Scene(
        budget=Budget(wishes=("ABCD",), losses=1, depositions=1),
        more=Budget(wishes=("ABCD",), losses=2, depositions=1, held=1),
        storage=V,
    ),
    "volatile replicas lost between wishes": Scene(
        budget=Budget(wishes=("ABCD", "ABC"), losses=1),
        more=Budget(wishes=("ABCD", "ABC"), losses=2, depositions=1),
        storage=V,
    ),
    "storages lost while a node is replaced": Scene(
        budget=Budget(wishes=("ABD",), losses=1, depositions=1),
        more=Budget(wishes=("ABD",), losses=2, depositions=1),
    ),
    "storages lost while the group shrinks": Scene(
        budget=Budget(wishes=("AB",), losses=1, depositions=1),
        more=Budget(wishes=("AB", "ABC"), losses=2, depositions=1, held=1),
    ),
    "nodes that leave and come back": Scene(
        budget=Budget(wishes=("ABD",), absences=1),
        more=Budget(wishes=("ABD",), absences=2, depositions=1),
    ),
    "a newcomer that leaves for good": Scene(
        budget=Budget(wishes=("ABD", "ABE"), absences=1, depositions=1),
        more=Budget(wishes=("ABD", "ABE"), absences=1, depositions=2, held=1),
        may_leave="D",
        for_good=True,
    ),
}


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        # What is lost matters to all modes alike: `make test` takes one of them, in turns.
        pytest.param(
            name, mode, marks=pytest.mark.long if "lost" in name and (row + at) % 3 else ()
        )
        for row, name in enumerate(SCENES)
        for at, mode in enumerate(ChangePeersMode)
    ],
)
def test_every_state_ends_at_the_wish_and_none_is_forbidden(
    name: str, mode: ChangePeersMode, request: pytest.FixtureRequest
) -> None:
    thoroughly = request.config.getoption("--exhaustive", default=False)
    states = SCENES[name].explore(mode, thoroughly=thoroughly)
    print(f"{name}, {mode}: {states} states")
    assert states > 100


# ---------------------------------------------------------------------------------- planted faults


def keep_switch_keys(
    keys: PartitionKeys, applied: Any, calculated: Any
) -> volatile_switch.SwitchStep:
    """The document's common branch, which writes switchAppend alone (hole 5)."""
    done = switch_done(keys, applied, calculated)
    if done.pending is None:
        return replace(done, switch_reduce=keys.switch_reduce)
    return done


def keep_append(keys: PartitionKeys, applied: Any, calculated: Any) -> volatile_switch.SwitchStep:
    """What Ignite 3 does: its common branch writes neither."""
    done = switch_done(keys, applied, calculated)
    return replace(done, switch_append=keys.switch_append) if done.pending is None else done


def promote_first(keys: PartitionKeys, applied: Any, calculated: Any) -> volatile_switch.SwitchStep:
    """Planned before the steps of a switch."""
    done = switch_done(keys, applied, calculated)
    if keys.planned is None:
        return done
    return replace(done, pending=None, switch_reduce=(), switch_append=())


def orphan(keys: PartitionKeys, wanted: Any, group: Any, *rest: Any) -> PartitionKeys:
    """Hole 1, as the document has it: planned stays, or is written, beside an empty pending."""
    if keys.bootstrap and keys.pending is None and keys.stable == wanted:
        return replace(keys, planned=wanted)
    return with_wish(keys, wanted, group, *rest)


switch_done, with_wish = volatile_switch.on_rebalance_done, key_changes._with_wish
PLANTED: dict[str, tuple[ModuleType, str, Any, str, ChangePeersMode]] = {
    "hole 1: an orphaned planned": (
        key_changes,
        "_with_wish",
        orphan,
        "wishes under any leader",
        U,
    ),
    "hole 2: whatever was applied becomes stable": (
        key_changes,
        "is_applied",
        lambda *_: True,
        "wishes under any leader",
        U,
    ),
    "hole 4: lost replicas are simply started": (
        volatile_switch,
        "with_lost",
        lambda keys, group: keys,
        "volatile replicas lost",
        U,
    ),
    "hole 5: switchReduce stays": (
        volatile_switch,
        "on_rebalance_done",
        keep_switch_keys,
        "storages lost while a node is replaced",
        U,
    ),
    "hole 5: switchAppend stays": (
        volatile_switch,
        "on_rebalance_done",
        keep_append,
        "volatile replicas lost",
        U,
    ),
    "hole 5: a reduction without pending isn't due": (
        key_changes,
        "must_reduce",
        lambda keys: False,
        "volatile replicas lost",
        U,
    ),
    "hole 5: planned goes before a switch": (
        volatile_switch,
        "on_rebalance_done",
        promote_first,
        "volatile replicas lost between wishes",
        Q,
    ),
    "hole 5: a reduction outlives the change that nobody finished": (
        volatile_switch,
        "without_moot",
        lambda keys, group: keys,
        "storages lost while a node is replaced",
        U,
    ),
    "hole 13: a blocked pending waits": (
        key_changes,
        "is_blocked",
        lambda *_: False,
        "a newcomer that leaves for good",
        Q,
    ),
    "hole 15: a lock outlives the majority of its peers": (
        key_changes,
        "lost_majority",
        lambda *_: False,
        "storages lost while the group shrinks",
        U,
    ),
    "hole 15: STAGE_NONE leaves the lock": (
        key_changes,
        "_release",
        lambda keys, group: (keys, False),
        "wishes under any leader",
        U,
    ),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, planted, scene, mode = PLANTED[fault]
    monkeypatch.setattr(module, name, planted)
    with pytest.raises(AssertionError):
        SCENES[scene].explore(mode)


def test_a_late_grant_whose_newcomer_is_lost_twice_holds_no_node_back() -> None:
    """Found by the search with more events: JOINT is gone with its leader, but D stayed in
    switchReduce, and pending waited for it forever."""
    settings = settings_of(U, V)
    keys, group, wish = settled("ABC", settings)
    budget = Budget(wishes=("ABCD",), losses=2, depositions=1, held=1)
    state = State(keys=keys, group=group, wish=wish, budget=budget)
    found = search.Search(
        nodes=NODES, settings=settings, may_leave=NODES, for_good=False, check=may_follow
    )
    for event in (
        "wish ABCD",
        "write",
        "StartReplica to D",
        "ChangePeers to A",
        "tick",
        "write",
        "Grant to A is held",
        "lose D",
        "StartReplica to D",
        "lose D",
        "Grant arrives late at A",
        "write",
        "depose and lose",
    ):
        state = dict(found.successors(state))[event]
    assert state.keys.switch_reduce == ("D",)
    found.assert_it_ends_well(state)
