"""A kill counts only if its victim lived before it and certainly ended by it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.chaos.made_up_injections import made_up_injection
from tests.unit.made_up_nodes import node_identity
from zonequake_chaos.errors import FaultFailed
from zonequake_chaos.faults.life import Victim
from zonequake_chaos.faults.watching import until_processes_gone
from zonequake_chaos.observe.view import ClusterView, NodeView, assemble
from zonequake_kube.errors import WaitExpired
from zonequake_kube.objects import PodView
from zonequake_protocol.admin import ReplicasReport

PodOf = Callable[..., PodView]


def view(pod: PodView, process: str | None) -> ClusterView:
    """A cluster of one node, whose process answers, or is silent."""
    report = None
    if process is not None:
        identity = node_identity(pod.name, process_incarnation=process, pod_uid=pod.uid)
        report = ReplicasReport(node=identity, replicas=[])
    return assemble(at_ns=9, began_ns=0, nodes=[NodeView(pod=pod, report=report)], keys=[])


class Observing:
    """Shows one view, as long as anyone waits."""

    def __init__(self, shown: ClusterView) -> None:
        self.shown = shown

    async def wait(self, seen: Any, *, timeout_s: float, waiting_for: Any) -> Any:
        found = seen(self.shown)
        if not found:
            raise WaitExpired(waiting_for(self.shown))
        return found

    def process_ended(self, node: str, *, process: str | None, at_ns: int) -> None:
        """Forgets nothing."""


async def proof(before: ClusterView, after: ClusterView) -> object:
    """What proves the end of the only node's process of `before`, without a reported signal."""
    (node,) = before.nodes.values()
    injection = made_up_injection([Victim.of(node)], name="kill", observer=Observing(after))
    return (await until_processes_gone(injection))["gone_ns"]


async def test_what_answers_in_the_place_of_the_victim_or_a_restart_proves_its_end(
    pod_of: PodOf,
) -> None:
    before = view(pod_of("n"), "p1")
    for after in (
        view(pod_of("n"), "p2"),
        view(pod_of("n", uid="next"), "p2"),
        view(pod_of("n", restarts=1), None),
        view(dataclasses.replace(pod_of("n"), runs=False), None),
    ):
        assert await proof(before, after) == {"n": 9}


@pytest.mark.parametrize("process", [None, "p1"])
async def test_a_member_that_was_silent_and_answers_again_was_not_killed(
    pod_of: PodOf, process: str | None
) -> None:
    with pytest.raises(WaitExpired, match="no proof that the process has ended at n"):
        await proof(view(pod_of("n"), None), view(pod_of("n"), process))


async def test_the_end_of_a_silent_member_is_proven_by_the_kubelet_or_a_successor(
    pod_of: PodOf,
) -> None:
    before = view(pod_of("n"), None)
    assert await proof(before, view(pod_of("n", restarts=1), "p1")) == {"n": 9}
    assert await proof(before, view(pod_of("n", uid="next"), "p1")) == {"n": 9}
    with pytest.raises(WaitExpired):
        await proof(before, view(pod_of("n", uid="next"), None))


async def test_a_member_that_was_dead_before_is_not_killed_by_its_return(pod_of: PodOf) -> None:
    dead = dataclasses.replace(pod_of("n"), runs=False)
    with pytest.raises(FaultFailed, match="kill: the container of n did not run before the fault"):
        await proof(view(dead, None), view(pod_of("n", restarts=1), "p2"))
