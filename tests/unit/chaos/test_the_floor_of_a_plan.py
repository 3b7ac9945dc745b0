"""Plans that would leave too few replicas alive are refused, by a sentence that helps."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from zonequake_chaos.errors import PlanRefused
from zonequake_chaos.scenario import manifest
from zonequake_chaos.scenario.alive_floor import check_plan, objections
from zonequake_chaos.scenario.run import ChaosRun


def plan(
    *faults: dict[str, Any],
    floor: int | None = None,
    replicas: int = 3,
    nodes: int = 3,
    zone: dict[str, Any] | None = None,
) -> ChaosRun:
    spec: dict[str, Any] = {
        "pools": [{"name": "default", "replicas": nodes}],
        "zones": [{"name": "z", "replicas": replicas} | (zone or {})],
        "faults": list(faults),
    }
    if floor is not None:
        spec["floor"] = {"aliveReplicas": floor}
    return manifest.parse(
        json.dumps(
            {
                "apiVersion": "zonequake.io/v1alpha1",
                "kind": "ChaosRun",
                "metadata": {"name": "x"},
                "spec": spec,
            }
        ),
        where="x",
    )


def outage(name: str, *nodes: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "type": "node_outage",
        "target": {"role": "nodes", "nodes": list(nodes)},
    } | more


def kill(name: str, count: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": "pod_kill", "target": {"role": "any", "count": count}} | more


SETTLED: dict[str, Any] = {"trigger": {"when": "settled"}}
HIGHLY_AVAILABLE = {"consistencyMode": "HighAvailability"}


@pytest.mark.parametrize("name", sorted(manifest.shipped()))
def test_every_shipped_scenario_may_be_done(name: str) -> None:
    check_plan(manifest.load(name))


@pytest.mark.parametrize(
    "name", [n for n, text in manifest.shipped().items() if "floor" in yaml.safe_load(text)["spec"]]
)
def test_what_a_shipped_scenario_declares_it_also_needs(name: str) -> None:
    declared = manifest.load(name).spec.floor
    assert declared is not None
    higher = manifest.load(name, [f"floor={{aliveReplicas: {declared.alive_replicas + 1}}}"])
    assert list(objections(higher))


def test_more_kills_than_a_majority_survives_are_refused_with_what_would_allow_them() -> None:
    with pytest.raises(PlanRefused) as refused:
        check_plan(plan(kill("two", 2)))
    assert str(refused.value) == (
        "fault 'two' could leave 1 of 3 replicas of a partition of zone 'z' alive; the floor is 2 "
        "(a majority). To allow it declare spec.floor: {aliveReplicas: 1}"
    )
    check_plan(plan(kill("two", 2), floor=1))


def test_a_reset_by_hand_takes_no_node_away_and_is_onto_a_node_that_there_is() -> None:
    by_hand = {"name": "by-hand", "type": "reset_by_hand"}
    assert not list(objections(plan(by_hand | {"survivor": "default-2"}, kill("one"))))
    (refused,) = objections(plan(by_hand | {"survivor": "default-3"}))
    assert "'by-hand' targets node 'default-3', which will not exist then" in refused


def test_a_declared_floor_may_also_be_higher_than_a_majority() -> None:
    (refused,) = objections(plan(kill("one"), floor=3))
    assert "the floor is 3 (spec.floor.aliveReplicas)" in refused


def test_a_floor_that_no_partition_can_have_is_refused() -> None:
    (refused,) = objections(plan(floor=4))
    assert "has 3 replicas, so no fault is possible" in refused


def test_faults_that_are_held_count_together_and_are_named() -> None:
    (refused,) = objections(
        plan(
            outage("first", "default-0", heldUntil="end"),
            outage("second", "default-1"),
            {"name": "end", "type": "reached"},
        )
    )
    assert "fault 'second' could leave 1 of 3" in refused
    assert "while 'first' may still be active" in refused


def test_a_node_that_was_not_waited_for_is_away_until_the_cluster_has_settled() -> None:
    first = kill("first", waitRecovered=False)
    assert list(objections(plan(first, kill("second"))))
    assert not list(objections(plan(first, kill("second", **SETTLED))))


def test_a_fault_that_is_released_is_away_until_the_cluster_has_settled() -> None:
    held = outage("held", "default-0", heldUntil="end")
    end = {"name": "end", "type": "reached"}
    assert list(objections(plan(held, end, kill("next"))))
    assert not list(objections(plan(held, end, kill("next", **SETTLED))))


def test_repetitions_that_are_not_waited_for_add_up() -> None:
    assert list(objections(plan(kill("often", times=2, waitRecovered=False))))
    assert not list(objections(plan(kill("often", times=2))))
    assert not list(objections(plan(kill("often", times=2, waitRecovered=False, **SETTLED))))


def test_the_same_node_counts_once() -> None:
    again = outage("again", "zq-default-0", waitRecovered=False)
    assert not list(objections(plan(outage("one", "default-0", waitRecovered=False), again)))


def test_more_nodes_than_the_pool_has_are_refused() -> None:
    (refused,) = objections(plan(kill("four", 4), floor=0))
    assert "fault 'four' targets 4 nodes, and there are 3 then: pool default has 3" in refused
    (refused,) = objections(plan(outage("nobody", "default-3"), floor=0))
    assert "node 'default-3', which will not exist then" in refused
    grow = {"name": "grow", "type": "scale", "pool": "default", "replicas": 4}
    assert not list(objections(plan(grow, outage("now", "default-3"), floor=0)))


def test_two_faults_on_the_same_thing_at_the_same_time_are_refused() -> None:
    end = {"name": "end", "type": "reached"}
    (refused,) = objections(
        plan(
            outage("down", "default-0", heldUntil="end"),
            outage("twice", "zq-default-0"),
            end,
            floor=0,
        )
    )
    assert "fault 'twice' targets default-0, which 'down' holds until 'end'" in refused
    hang = {"type": "component_pause"}
    (refused,) = objections(
        plan({"name": "a", "heldUntil": "end"} | hang, {"name": "b"} | hang, end)
    )
    assert "'b' targets kube-apiserver, which 'a' holds" in refused


def test_what_was_held_until_a_refused_fault_ends_with_it() -> None:
    (refused,) = objections(
        plan(
            outage("down", "default-0", "default-1", heldUntil="twice"),
            outage("twice", "default-0"),
            kill("later", 2, **SETTLED),
            floor=1,
        )
    )
    assert "'twice' targets default-0" in refused


def test_two_things_can_be_done_to_a_node_whose_process_runs_on() -> None:
    broken = {"type": "failed_fsync", "target": {"role": "nodes", "nodes": ["default-0"]}}
    assert not list(
        objections(
            plan({"name": "syncs", "heldUntil": "dies"} | broken, outage("dies", "default-0"))
        )
    )


@pytest.mark.parametrize(("delay_ms", "away"), [(50, False), (1000, True)])
def test_a_disk_as_slow_as_an_election_takes_its_node_away(delay_ms: int, away: bool) -> None:
    target = {"role": "nodes", "nodes": ["default-0", "default-1"]}
    slow = {"name": "slow", "type": "slow_disk", "target": target, "delayMilliseconds": delay_ms}
    assert bool(list(objections(plan(slow)))) == away


def test_a_power_loss_of_all_needs_a_floor_that_says_so() -> None:
    loss = {"name": "loss", "type": "power_loss", "target": {"role": "all"}}
    (refused,) = objections(plan(loss))
    assert "could leave 0 of" in refused
    assert not list(objections(plan(loss, floor=0)))


def test_a_cut_of_a_majority_needs_a_floor_that_says_so() -> None:
    cut = {
        "name": "cut",
        "type": "network_partition",
        "target": {"role": "nodes", "nodes": ["default-0", "default-1"]},
    }
    assert list(objections(plan(cut)))
    assert not list(objections(plan(cut, floor=1)))


def test_without_the_api_server_only_highly_available_zones_stop() -> None:
    hang = {"name": "hang", "type": "component_pause"}
    assert not list(objections(plan(hang)))
    assert list(objections(plan(hang, zone=HIGHLY_AVAILABLE)))
    control = {
        "name": "control",
        "type": "network_partition",
        "cut": "control",
        "target": {"role": "all"},
    }
    assert not list(objections(plan(control)))
    assert list(objections(plan(control, zone=HIGHLY_AVAILABLE)))


def test_a_smaller_pool_takes_its_nodes_away_for_as_long_as_the_zone_waits_for_them() -> None:
    shrink = {"name": "shrink", "type": "scale", "pool": "default", "replicas": 3}
    next_one = kill("next", **SETTLED)
    assert list(objections(plan(shrink, next_one, nodes=4)))
    moves = {"dataNodesAutoAdjustScaleDown": 0}
    assert not list(objections(plan(shrink, next_one, nodes=4, zone=moves)))


# Against a plan that is played with the worst of luck ---------------------------------------------


def _choices(fault: dict[str, Any], nodes: int) -> Iterator[frozenset[str]]:
    names = [f"default-{n}" for n in range(nodes)]
    target = fault["target"]
    if target["role"] == "nodes":
        yield frozenset(target["nodes"])
    else:
        yield from map(frozenset, itertools.combinations(names, target["count"]))


def _worst(
    faults: list[dict[str, Any]], down: tuple[tuple[str | None, frozenset[str]], ...]
) -> int:
    """How many nodes are away at most, from here to the end."""
    if not faults:
        return 0
    fault, *rest = faults
    if fault.get("trigger", {}).get("when") == "settled":
        down = tuple(entry for entry in down if entry[0] is not None)
    found = 0
    for victims in _choices(fault, 5):
        now = (*down, (fault.get("heldUntil"), victims))
        found = max(found, len(frozenset().union(*(who for _, who in now))))
        after = now if "heldUntil" in fault or not fault.get("waitRecovered", True) else down
        released = tuple((None if u == fault["name"] else u, who) for u, who in after)
        found = max(found, _worst(rest, released))
    return found


@st.composite
def _plans(draw: st.DrawFn) -> list[dict[str, Any]]:
    faults: list[dict[str, Any]] = []
    count = draw(st.integers(1, 3))
    for number in range(count):
        if draw(st.booleans()):
            names = draw(
                st.sets(st.sampled_from([f"default-{n}" for n in range(5)]), min_size=1, max_size=3)
            )
            fault = outage(f"f{number}", *sorted(names))
        else:
            fault = kill(f"f{number}", draw(st.integers(1, 3)))
        fault |= draw(st.sampled_from([{}, SETTLED]))
        lasts = draw(st.sampled_from(["waits", "goes on", "held"]))
        if lasts == "goes on":
            fault["waitRecovered"] = False
        if lasts == "held" and number < count - 1:
            fault["heldUntil"] = f"f{draw(st.integers(number + 1, count - 1))}"
        faults.append(fault)
    return faults


@settings(max_examples=100, deadline=None)
@given(_plans(), st.integers(0, 5))
def test_a_plan_that_is_accepted_never_breaks_its_floor_whichever_node_is_chosen(
    faults: list[dict[str, Any]], floor: int
) -> None:
    run = plan(*faults, floor=floor, replicas=5, nodes=5)
    if not list(objections(run)):
        assert 5 - _worst(faults, ()) >= floor


@settings(max_examples=100, deadline=None)
@given(_plans(), st.integers(0, 5))
def test_a_plan_is_refused_for_its_floor_only_if_some_choice_of_victims_breaks_it(
    faults: list[dict[str, Any]], floor: int
) -> None:
    run = plan(*faults, floor=floor, replicas=5, nodes=5)
    if any("the floor is" in problem for problem in objections(run)):
        assert 5 - _worst(faults, ()) < floor
