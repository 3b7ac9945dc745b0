"""A pool's size: of the release's data nodes, or of members that a run makes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from zonequake_chaos.faults.kinds.scale import Scale
from zonequake_chaos.faults.life import FaultWorld, Injection
from zonequake_chaos.observe.view import ClusterView, NodeView
from zonequake_chaos.record.cleanup_journal import RestoreScale
from zonequake_chaos.targeting.triggers import Sighting
from zonequake_kube.objects import PodView


def view(*names: str) -> ClusterView:
    pods = [
        PodView(
            name=name,
            uid=name,
            pool="default",
            ready=True,
            phase="Running",
            deleting=False,
            container="hands",
            restarts=0,
        )
        for name in names
    ]
    nodes = {pod.name: NodeView(pod=pod) for pod in pods}
    return ClusterView(at_ns=0, began_ns=0, nodes=nodes, partitions={})


class World:
    """A world with nodes of these names, and the sizes that were asked for."""

    release = "zq"

    def __init__(self, *names: str) -> None:
        self._view = view(*names)
        self.asked: dict[str, int] = {}
        self.owed: list[Any] = []
        self.kube = self.observer = self.journal = self

    def view(self) -> ClusterView:
        return self._view

    async def get(self, kind: str, name: str) -> dict[str, Any]:
        assert kind == "StatefulSet"
        return {"metadata": {"name": name}, "spec": {"replicas": len(self._view.nodes)}}

    async def patch(self, _: str, name: str, body: dict[str, Any], __: str) -> None:
        self.asked[name] = body["spec"]["replicas"]
        self._view = view()  # the last of its pods is gone at once

    async def wait(self, seen: Callable[[ClusterView], bool], **_: object) -> bool:
        assert seen(self._view)
        return True

    def owe(self, debt: object) -> int:
        self.owed.append(debt)
        return len(self.owed)


@pytest.mark.parametrize(
    ("names", "stateful_set"),
    [
        (["zq-default-0", "zq-default-1"], "zq-default"),
        (["zq-other-default-0"], "zq-other-default"),
        ([], "zq-default"),
    ],
)
def test_the_stateful_set_is_that_of_the_pools_nodes(names: list[str], stateful_set: str) -> None:
    world = World(*names)
    injection = Injection(
        world=cast("FaultWorld", world),
        name="f",
        victims=(),
        sighting=Sighting(at_ns=0, what="now"),
        timeout_s=1,
        hold_s=0,
    )
    scale = Scale(pool="default", replicas=0)

    async def run() -> dict[str, object]:
        await scale.prepare(injection)
        await scale.inject(injection)
        return await scale.wait_until_effective(injection)

    assert asyncio.run(run()) == {"pool": "default", "nodes": []}
    assert world.asked == {stateful_set: 0}
    if names:
        assert world.owed == [RestoreScale(stateful_set=stateful_set, replicas=len(names))]
