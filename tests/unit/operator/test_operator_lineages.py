"""All orders of losses, returns, writes and decisions of a small HighAvailability partition.

A depth-first search over `lineage_model`, with the real planner in the middle: whatever happened
before, once every node is there and nothing more goes wrong the group stands on the target that
topology and zone name, has one lineage, and everything that was acknowledged and not given up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.unit.operator import lineage_model as model
from tests.unit.operator import lineage_operator as operator
from zonequake_operator.high_availability import chain, cold_start, decisions, reset
from zonequake_operator.resources.model import PartitionKeys
from zonequake_protocol.admin import ReplicaStatus

NODES = "ABC"
pytestmark = pytest.mark.timeout(900)
"""Each search takes some 15 s of a core that does nothing else."""
CALM_ROUNDS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What may still happen."""

    kills: int
    writes: int


def steps(world: Any, budget: Budget) -> Iterator[tuple[str, Any, Budget]]:
    """Everything that may happen next."""
    if budget.kills:
        for node in sorted(world.up):
            yield f"kill {node}", model.kill(world, node), replace(budget, kills=budget.kills - 1)
    for node in sorted(set(NODES) - world.up):
        yield f"start {node}", model.start(world, node), budget
    for found in model.resignations(world):
        yield "resign", found, budget
    for found in model.elections(world):
        yield "elect", found, budget
    if budget.writes:
        spent = replace(budget, writes=budget.writes - 1)
        for node, replica in world.replicas:
            if replica.leads and replica.takes_part:
                others = sorted(n for n, r in world.replicas if n != node and r.takes_part)
                for first in others or [node]:  # any other that lags
                    name = f"w{budget.writes}"
                    written = model.write(world, node, name, frozenset({first}))
                    yield f"write {name} at {node}", written, spent
    for fired in (False, True):
        if fired and world.status.reset is None:
            continue
        after, plan = operator.decided(world, fired=fired)
        if after != world:
            yield "the operator writes and dies" if not fired else "the timer fires", after, budget
        yield "the operator acts", operator.tell(after, plan), budget


def calm(world: Any) -> Any:
    """Every node comes back, the operator acts, leaders are elected, until nothing changes."""
    for node in sorted(set(NODES) - world.up):
        world = model.start(world, node)
    for _ in range(CALM_ROUNDS):
        before = world
        after, plan = operator.decided(world, fired=world.status.reset is not None)
        world = operator.tell(after, plan)
        for resigned in model.resignations(world):
            world = resigned
            break
        for elected in model.elections(world):
            world = elected
            break
        for node, replica in world.replicas:
            if replica.leads and replica.takes_part:
                world = model.replicate(world, node)
        if world == before:
            return world
    raise AssertionError("it never comes to rest")


def check_end(world: Any) -> None:
    keys = world.keys
    assert keys.stable.nodes == tuple(NODES), keys
    assert keys.pending is None
    assert keys.planned is None
    assert keys.pending_lock is None
    assert keys.chain[-1].nodes == tuple(NODES)
    replicas = world.of()
    assert sorted(replicas) == list(NODES)
    assert len({r.log for r in replicas.values()}) == 1, "one history"
    assert all(r.takes_part for r in replicas.values())
    assert world.acknowledged <= replicas["A"].writes
    assert world.status.reset_due is None
    assert not keys.is_stopped


def after_a_reset() -> Any:
    """A and B had w0, and are gone; C, which lagged, goes on alone: two links."""
    world = model.settled(NODES)
    world = model.write(world, "A", "w0", frozenset("B"))
    for node in "AB":
        world = model.kill(world, node)
    for _ in range(6):
        world = operator.tell(*operator.decided(world, fired=world.status.reset is not None))
    assert [link.nodes for link in world.keys.chain] == [tuple("ABC"), ("C",)]
    assert world.given_up == {"w0"}
    return world


def all_stopped(*, written: bool) -> Any:
    """Then C has stopped too; `written`: after it took a write alone."""
    world = after_a_reset()
    if written:
        world = model.write(world, "C", "w1", frozenset())
        assert "w1" in world.acknowledged
    return model.kill(world, "C")


def stopped_at_once() -> Any:
    """A and B had w0; then all of them stopped, and C, which lags, is back first."""
    world = model.write(model.settled(NODES), "A", "w0", frozenset("B"))
    for node in NODES:
        world = model.kill(world, node)
    return model.start(world, "C")


def stopped_in_a_reset() -> Any:
    """A and B had w0, and are gone; C, which lags, is to go on alone, and stops before it does."""
    world = model.write(model.settled(NODES), "A", "w0", frozenset("B"))
    for node in "AB":
        world = model.kill(world, node)
    world, _ = operator.decided(world)
    world, _ = operator.decided(world, fired=True)
    assert reset.forced_node(world.keys) == "C"
    return model.kill(world, "C")


def search(first: Any, budget: Budget, limit: int) -> Counter[str]:
    """Every state that can be reached is checked; returns how many there were, and of what."""
    seen = {(first, budget)}
    rest: list[tuple[Any, Budget, tuple[str, ...]]] = [(first, budget, ())]
    ends: set[Any] = set()
    calmed: set[Any] = set()
    tally: Counter[str] = Counter()
    while rest:
        world, left, path = rest.pop()
        tally["states"] += 1
        assert tally["states"] <= limit, "more states than there ever were"
        try:
            if world not in calmed:
                calmed.add(world)
                ended = calm(world)
                if ended not in ends:
                    ends.add(ended)
                    check_end(ended)
            for what, after, spent in steps(world, left):
                if (after, spent) not in seen:
                    seen.add((after, spent))
                    rest.append((after, spent, (*path, what)))
        except AssertionError as error:
            raise AssertionError("\n".join([*path, str(error)])) from error
        tally["most resets"] = max(tally["most resets"], world.resets)
        tally["given up"] += bool(world.given_up)
        tally["stopped"] += world.keys.is_stopped
        tally["of several links"] += len(world.keys.chain) > 1
        tally["in a reset"] += reset.forced_node(world.keys) is not None
        tally["restored"] += "w0" in world.acknowledged and first.given_up == {"w0"}
    return tally


@pytest.mark.long
def test_two_losses() -> None:
    tally = search(model.settled(NODES), Budget(kills=2, writes=0), 20_000)
    assert tally["in a reset"]
    assert tally["most resets"] == 1, "one loss, one reset"


@pytest.mark.long
def test_a_restart_of_all_after_a_reset() -> None:
    tally = search(all_stopped(written=False), Budget(kills=0, writes=1), 20_000)
    assert tally["in a reset"]
    assert tally["restored"], "no client wrote before, so the chain goes back"


def test_a_stop_of_all() -> None:
    tally = search(stopped_at_once(), Budget(kills=0, writes=1), 20_000)
    assert tally["stopped"]
    assert not tally["most resets"], "there is nothing to give up"
    assert not tally["given up"], "whichever node comes back first"


@pytest.mark.long
def test_a_stop_of_all_in_the_middle_of_a_reset() -> None:
    tally = search(stopped_in_a_reset(), Budget(kills=0, writes=0), 20_000)
    assert tally["stopped"]
    assert tally["in a reset"]
    assert tally["most resets"] == 2, "once C, and once a majority without C"


# ----------------------------------------------------------------------------------- planted faults


def carried_out_by_names(keys: PartitionKeys, leading: ReplicaStatus | None) -> bool:
    return (
        leading is not None
        and leading.configuration is not None
        and keys.pending is not None
        and {p.node for p in leading.configuration.peers} >= set(keys.pending.nodes)
    )


LOSSES, RESTART, STOP = "losses", "restart", "stop"
SCENES: dict[str, Callable[[], Any]] = {
    LOSSES: lambda: model.settled(NODES),
    RESTART: lambda: all_stopped(written=True),
    STOP: stopped_at_once,
}
PLANTED: dict[str, tuple[Any, str, Any, str]] = {
    "a reset counts as done before it is carried out": (
        reset,
        "is_carried_out",
        carried_out_by_names,
        LOSSES,
    ),
    "a reset needs no missing majority": (
        reset,
        "has_lost_majority",
        lambda keys, holders, since: True,
        LOSSES,
    ),
    "a link is judged before its majority has reported": (
        chain,
        "is_majority",
        lambda count, size: True,
        RESTART,
    ),
    "a stop is not written": (cold_start, "has_just_stopped", lambda keys, holders: False, STOP),
    "a stopped group goes on from whoever is back": (
        decisions,
        "_recover",
        lambda keys, holders, revision: decisions._reset(keys, holders, revision),
        STOP,
    ),
    "a stop never ends": (cold_start, "not_stopped", lambda keys: keys, STOP),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, planted, scene = PLANTED[fault]
    first = SCENES[scene]()
    kills = 2 if scene == LOSSES else 0
    monkeypatch.setattr(module, name, planted)
    with pytest.raises(AssertionError, match=r"(?s)^(?!more states)"):
        search(first, Budget(kills=kills, writes=0), 20_000)
