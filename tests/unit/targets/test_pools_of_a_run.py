"""A run's zone is created once the pools have their sizes: a zone takes all nodes that exist."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.installed import installed
from zonequake_chaos.kit.client_code import ClientCode
from zonequake_chaos.observe.observer import Observer
from zonequake_chaos.scenario.run import Pool, RunSpec, RunZone
from zonequake_kube.client import Kube
from zonequake_target_store.deployment import StoreDeployment


class Shown:
    """Shows the cluster once, in place of an observer: is it what is waited for?"""

    def __init__(self, answers: dict[str, bool]) -> None:
        nodes = {name: SimpleNamespace(answers=answer) for name, answer in answers.items()}
        self._view = SimpleNamespace(nodes=nodes)

    async def wait(
        self, ready: Callable[[Any], bool], *, timeout_s: float, waiting_for: Callable[[Any], str]
    ) -> None:
        if not ready(self._view):
            raise TimeoutError(waiting_for(self._view))


def deployment() -> StoreDeployment:
    spec = RunSpec(
        pools=[Pool(name="default", replicas=0), Pool(name="limited", replicas=2)],
        zones=[RunZone(name="z")],
    )
    return StoreDeployment(
        kube=cast("Kube", None),
        spec=spec,
        run_id="r",
        installation=installed(),
        client=ClientCode(connect="a:connect"),
    )


async def until_they_answer(shown: dict[str, bool]) -> None:
    sizes = {"default": 0, "limited": 2}
    await deployment()._until_they_answer(cast("Observer", Shown(shown)), sizes)


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        # As many nodes as wanted, but of the pool that goes away.
        ({"zq-default-0": True, "zq-default-1": True}, "0 of 2 data nodes answer"),
        ({"zq-limited-0": True, "zq-limited-1": True, "zq-default-1": True}, "2 of 2 data nodes"),
        ({"zq-limited-0": True, "zq-limited-1": False}, "1 of 2 data nodes answer"),
        ({}, r"0 of 2 data nodes answer \(no pod\)"),
    ],
)
async def test_a_run_waits_for_the_pools_of_its_own(shown: dict[str, bool], told: str) -> None:
    with pytest.raises(TimeoutError, match=told):
        await until_they_answer(shown)


async def test_a_run_goes_on_with_just_its_nodes() -> None:
    await until_they_answer({"zq-limited-0": True, "zq-limited-1": True})
