"""A pod whose image can't be had ends the wait for it, with the kubelet's word."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError, ImageNotPulled
from zonequake_kube.pulls import REASONS, not_pulled, unless_not_pulled


def pod(reason: str, *, init: bool = False, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}} if reason else {"running": {}}
    kind = "initContainerStatuses" if init else "containerStatuses"
    return {
        "metadata": {"name": "zq-default-0"},
        "status": {kind: [{"image": "registry.example/store:1", "state": state}]},
    }


class Pods:
    """A made-up API server: answers with one list after another, the last one forever."""

    def __init__(self, *answers: list[dict[str, Any]] | ClusterError) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def find(self, kind: str, labels: str) -> list[dict[str, Any]]:
        assert kind == "Pod"
        self.asked.append(labels)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, ClusterError):
            raise answer
        return answer


def kube(*answers: list[dict[str, Any]] | ClusterError) -> Kube:
    return cast("Kube", Pods(*answers))


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("init", [False, True])
def test_the_kubelets_word_is_passed_on(reason: str, init: bool) -> None:
    assert not_pulled(pod(reason, init=init, message="no such\n  host")) == (
        "image registry.example/store:1 of pod zq-default-0 can't be pulled: "
        f"{reason} (no such host)"
    )


@pytest.mark.parametrize("reason", ["", "ContainerCreating", "CrashLoopBackOff"])
def test_a_pod_that_waits_for_something_else_is_no_problem(reason: str) -> None:
    assert not_pulled(pod(reason)) is None
    assert not_pulled({"metadata": {"name": "new"}}) is None


async def test_work_ends_as_soon_as_an_image_is_missed() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    server = kube([pod("")], ClusterError("not now"), [pod("ErrImagePull")])
    with pytest.raises(ImageNotPulled, match=r"ErrImagePull.*zonequake cluster load"):
        await asyncio.wait_for(unless_not_pulled(server, ("a=b", "c=d"), work()), 30)
    assert ended.is_set(), "the work was cancelled and waited for"
    assert cast("Pods", server).asked[:3] == ["a=b", "c=d", "a=b"]


async def test_work_that_ends_first_is_what_counts() -> None:
    async def work() -> int:
        return 7

    async def failing() -> int:
        raise KeyError("its own")

    assert await unless_not_pulled(kube([pod("")]), ("a=b",), work()) == 7
    with pytest.raises(KeyError, match="its own"):
        await unless_not_pulled(kube([pod("")]), ("a=b",), failing())


async def test_who_is_cancelled_cancels_the_work() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    outer = asyncio.create_task(unless_not_pulled(kube([pod("")]), ("a=b",), work()))
    await begun.wait()
    outer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await outer
    assert ended.is_set()
