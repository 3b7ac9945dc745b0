"""Faults of links: what a manifest may say of them, whom they are for, and what a plan counts."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.chaos.made_up_injections import made_up_injection, made_up_victim
from zonequake_chaos.errors import ManifestError
from zonequake_chaos.faults.kinds.network import NetworkPartition
from zonequake_chaos.node_access.shell import PodOnNode
from zonequake_chaos.observe.view import ClusterView
from zonequake_chaos.runner.plan.run_plan import build_plan
from zonequake_chaos.scenario import manifest
from zonequake_chaos.scenario.alive_floor import objections
from zonequake_chaos.scenario.faults import Direction, Traffic
from zonequake_chaos.scenario.run import ChaosRun
from zonequake_chaos.targeting.targets import NoTarget, choose_sides
from zonequake_chaos.targeting.triggers import Sighting
from zonequake_kube.execution import ExecResult
from zonequake_kube.objects import PodView


def plan(**fault: Any) -> ChaosRun:
    spec = {
        "pools": [{"name": "default", "replicas": 5}],
        "zones": [{"name": "z", "replicas": 5}],
        "faults": [{"name": "f", "type": "network_partition", **fault}],
    }
    document = {
        "apiVersion": "zonequake.io/v1alpha1",
        "kind": "ChaosRun",
        "metadata": {"name": "x"},
        "spec": spec,
    }
    return manifest.parse(json.dumps(document), where="x")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({}, "either target or between"),
        ({"target": {"role": "any"}, "between": [["leader"], ["others"]]}, "and not both"),
        ({"between": [["leader"], []]}, "a side of between is empty"),
        ({"between": [["leader"], ["others"]], "cut": "control"}, "no data node is an API server"),
        (
            {"type": "network_slow", "target": {"role": "any"}},
            "expected delayMilliseconds or bytesPerSecond",
        ),
        (
            {
                "type": "network_slow",
                "target": {"role": "any"},
                "delayMilliseconds": 5,
                "jitterMilliseconds": 6,
            },
            "jitterMilliseconds is above",
        ),
        ({"type": "network_loss", "target": {"role": "any"}, "percent": 100}, "percent"),
        ({"target": {"role": "any"}, "direction": "sideways"}, "sideways"),
    ],
)
def test_a_fault_that_says_too_little_or_too_much_is_refused(
    fault: dict[str, Any], said: str
) -> None:
    with pytest.raises(ManifestError, match=said):
        plan(**fault)


def test_a_plan_says_between_whom_and_which_way() -> None:
    built = build_plan(plan(between=[["leader"], ["default-1"]], direction="inbound"), seed=1)
    title = built.step("fault:f").title
    assert "network partition between leader and default-1, inbound alone" in title


@pytest.fixture
def view(view_of: Callable[..., ClusterView], group: type) -> ClusterView:
    return view_of([group(partition=0, leader="n0", followers=("n1", "n2"))])


def sides(view: ClusterView, first: list[str], second: list[str], seed: int = 0) -> Any:
    seen = Sighting(at_ns=0, what="", place=("z", 0), leader="n0")
    return choose_sides(first, second, view, seen, random.Random(seed))


def test_sides_are_told_by_role_or_by_name(view: ClusterView) -> None:
    assert sides(view, ["leader"], ["followers"]) == (("n0",), ("n1", "n2"))
    assert sides(view, ["n1"], ["others"]) == (("n1",), ("n0", "n2"))
    assert sides(view, ["leader", "n1"], ["others"]) == (("n0", "n1"), ("n2",))


def test_one_follower_is_drawn_by_the_seed(view: ClusterView) -> None:
    drawn = {sides(view, ["leader"], ["follower"], seed)[1] for seed in range(20)}
    assert drawn == {("n1",), ("n2",)}
    assert sides(view, ["leader"], ["follower"], 3) == sides(view, ["leader"], ["follower"], 3)


def test_no_node_is_on_both_sides_and_an_empty_side_is_no_target(view: ClusterView) -> None:
    with pytest.raises(NoTarget, match="no leader apart from n0"):
        sides(view, ["n0"], ["leader"])
    with pytest.raises(NoTarget, match="nobody-0"):
        sides(view, ["nobody-0"], ["others"])


@pytest.mark.parametrize(
    "worse",
    [
        {"type": "network_slow", "delayMilliseconds": 1000},
        {"type": "network_slow", "bytesPerSecond": 100},
        {"type": "network_loss", "percent": 60},
    ],
)
@pytest.mark.parametrize("whom", ["target", "between"])
def test_a_link_that_is_as_good_as_cut_counts_as_cut(worse: dict[str, Any], whom: str) -> None:
    three = [["default-0", "default-1", "default-2"], ["default-3", "default-4", "leader"]]
    everybody: dict[str, Any] = {"target": {"role": "all"}}
    for_whom: dict[str, Any] = everybody if whom == "target" else {"between": three}
    (refused,) = objections(plan(**worse, **for_whom))
    assert "replicas of a partition" in refused
    better = {"delayMilliseconds": 999} if "delayMilliseconds" in worse else {"percent": 49}
    if "bytesPerSecond" in worse:
        better = {"bytesPerSecond": 50_000}
    assert list(objections(plan(**(worse | better), **for_whom))) == []


def test_the_smaller_side_of_a_partition_counts_as_away_and_a_slow_link_leads_everywhere() -> None:
    assert list(objections(plan(between=[["leader"], ["followers"]]))) == []
    three = [["default-0", "default-1", "default-2"], ["default-3", "default-4", "leader"]]
    (refused,) = objections(plan(between=three))
    assert "could leave 2 of 5 replicas" in refused
    everybody: dict[str, Any] = {"target": {"role": "all"}}
    assert list(objections(plan(type="network_loss", percent=10, **everybody))) == []
    assert list(objections(plan(**everybody)))


class Whole:
    """An agent whose rules stay to the end."""

    agent = ("agent",)

    async def run(self, pod: PodOnNode, argv: Sequence[str], *, timeout_s: float = 0) -> ExecResult:
        return ExecResult(code=0, stdout="true", stderr="")


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("10.0.0.2", None),
        ("", None),
        ("10.0.0.9", "n2 has the address 10.0.0.9 now, and its links were broken by that of its"),
    ],
)
async def test_a_link_whose_other_end_moved_was_not_cut_to_the_end(
    view_of: Callable[..., ClusterView],
    pod_of: Callable[..., PodView],
    group: Any,
    address: str,
    why: str | None,
) -> None:
    """A pod that is replaced has another address, which no rule names."""
    there = view_of(
        [group(partition=0, leader="n1", followers=("n2",))],
        pods={"n2": replace(pod_of("n2"), address=address)},
    )
    injection = made_up_injection(
        [made_up_victim("n1")], shell=Whole(), observer=SimpleNamespace(view=lambda: there)
    )
    injection.opposite = (made_up_victim("n2", address="10.0.0.2"),)
    await NetworkPartition(traffic=Traffic.ALL, direction=Direction.BOTH).recover(injection)
    assert (injection.ended_early or "")[: len(why or "")] == (why or "")
    assert (injection.ended_early is None) is (why is None)
