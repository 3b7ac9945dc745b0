"""An observer that can't go on says so to its caller, and not that nothing came."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tests.unit.made_up_nodes import node_identity
from zonequake_chaos.observe.observer import Observer
from zonequake_chaos.record.clock import SystemClock
from zonequake_kube.client import Kube, WatchEvent
from zonequake_kube.errors import ClusterError, HarnessError, WaitExpired
from zonequake_kube.objects import PodView
from zonequake_protocol.admin import ReplicasReport
from zonequake_target_store.data_nodes import DataNodeSource


class Api:
    """Has one pod, whose object is none that a pod has."""

    async def snapshot(self, kind: str, labels: str) -> tuple[list[dict[str, Any]], str]:
        return ([{"metadata": {"name": "zq-default-0"}}] if kind == "Pod" else []), "1"

    async def watch(self, kind: str, *, labels: str, resource_version: str) -> Any:
        await asyncio.Event().wait()
        yield


async def test_a_watch_that_broke_ends_a_wait_with_its_cause() -> None:
    kube = cast("Kube", Api())
    observer = Observer(kube=kube, clock=SystemClock(), member_source=DataNodeSource(kube))
    async with observer.watching():
        with pytest.raises(HarnessError, match="the watch of the cluster failed: KeyError: 'spec'"):
            await observer.wait(
                lambda view: bool(view.nodes), timeout_s=60, waiting_for=lambda view: "a node"
            )


POD = {
    "metadata": {"name": "zq-default-0", "uid": "u"},
    "spec": {"containers": [{"name": "store"}]},
}


class Deleting(Api):
    """Has one pod, which is deleted once it was asked."""

    def __init__(self, asked: asyncio.Event) -> None:
        self.asked = asked

    async def snapshot(self, kind: str, labels: str) -> tuple[list[dict[str, Any]], str]:
        return ([POD] if kind == "Pod" else []), "1"

    async def watch(self, kind: str, *, labels: str, resource_version: str) -> Any:
        if kind == "Pod":
            await self.asked.wait()
            yield WatchEvent(kind="DELETED", object=POD)
        await asyncio.Event().wait()


class Deaf(DataNodeSource):
    """Its requests end in their own error when they are cancelled, as at the end of their time."""

    def __init__(self, kube: Kube) -> None:
        super().__init__(kube)
        self.asked = asyncio.Event()

    async def report(self, pod: PodView, *, timeout_s: float) -> ReplicasReport:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ClusterError("no answer in time") from None
        raise AssertionError


class Saying(DataNodeSource):
    """Its process is `p1`; each answer waits until it is let go."""

    def __init__(self, kube: Kube) -> None:
        super().__init__(kube)
        self.asked = asyncio.Event()
        self.let_go = asyncio.Event()
        self.let_go.set()
        self.process = "p1"

    async def report(self, pod: PodView, *, timeout_s: float) -> ReplicasReport:
        said = ReplicasReport(
            node=node_identity(pod.name, process_incarnation=self.process), replicas=[]
        )
        self.asked.set()
        await self.let_go.wait()
        return said


async def test_what_a_process_said_before_it_was_killed_is_not_believed_any_more() -> None:
    """Else a trigger after a kill that is not waited for sees the dead one answer, and lead."""
    clock = SystemClock()
    source = Saying(cast("Kube", None))
    observer = Observer(
        kube=cast("Kube", Deleting(asyncio.Event())), clock=clock, member_source=source
    )

    def answers() -> bool:
        return all(node.answers for node in observer.view().nodes.values())

    async with observer.watching():
        await observer.wait(
            lambda view: bool(view.nodes) and answers(), timeout_s=60, waiting_for=lambda _: "-"
        )
        source.let_go.clear()
        source.asked.clear()
        with observer.armed():
            await source.asked.wait()  # this answer is on its way when the process dies
            ended_ns = clock.now().time_ns
            observer.process_ended("zq-default-0", process="p1", at_ns=ended_ns)
            assert not answers()
            late, source.let_go = source.let_go, asyncio.Event()
            source.asked.clear()
            source.process = "p2"
            late.set()
            await source.asked.wait()
            assert not answers(), "the late answer is of the dead one"
            source.let_go.set()
            await observer.wait(lambda view: answers(), timeout_s=60, waiting_for=lambda _: "p2")


async def test_a_pod_that_is_gone_is_not_asked_again_though_its_request_was_not_cancelled() -> None:
    member_source = Deaf(cast("Kube", None))
    observer = Observer(
        kube=cast("Kube", Deleting(member_source.asked)),
        clock=SystemClock(),
        member_source=member_source,
    )
    async with observer.watching():
        await member_source.asked.wait()
        await observer.wait(
            lambda view: not view.nodes, timeout_s=60, waiting_for=lambda view: "its deletion"
        )
        member_source.asked.clear()
        with pytest.raises(WaitExpired):
            await observer.wait(lambda view: False, timeout_s=0.7, waiting_for=lambda view: "-")
    assert not member_source.asked.is_set()
