"""Faults on the node itself: a hung kubelet, a hung or dead API server.

They need the embedded cluster (`zonequake_chaos.node_access.own_machine`); on any other cluster the
run is refused before it begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from zonequake_chaos.errors import FaultFailed
from zonequake_chaos.faults.kinds.pod_kill import delete_pod
from zonequake_chaos.faults.life import Injection, Proof, end_tasks
from zonequake_chaos.faults.watching import until_back
from zonequake_chaos.node_access.own_machine import OwnMachine, is_stopped
from zonequake_chaos.node_access.shell import to_its_end
from zonequake_chaos.observe.view import ClusterView
from zonequake_chaos.record.cleanup_journal import ResumeComponent
from zonequake_chaos.scenario.faults import AnyFault, OnTheNode
from zonequake_kube.errors import ClusterError, UsageError, in_words

KUBELET = "kubelet"

_KILL_AGAIN_S = 0.1
"""Time between two checks whether a component is back: far less than an API server's start."""

_ANSWER_S = 1.0


def check_node(faults: Sequence[AnyFault], node: OwnMachine | None) -> None:
    """Raises UsageError where a fault needs the node and there is none."""
    needed = [fault.name for fault in faults if isinstance(fault, OnTheNode)]
    if needed and node is None:
        raise UsageError(
            f"{', '.join(needed)}: these faults need an embedded cluster: run `zonequake cluster "
            "up` and omit --context"
        )


class ForceDelete:
    """Life of `ForceDeleteSpec`. Effective once the objects are gone and processes run on.

    A hung kubelet looks like a node without network: the API server forgets the pod, while its
    processes run on.
    """

    async def prepare(self, injection: Injection) -> None:
        injection.owe(ResumeComponent(component=KUBELET))

    async def inject(self, injection: Injection) -> None:
        _node(injection).pause(KUBELET)
        for victim in injection.victims:
            await delete_pod(injection, victim, grace_s=0)

    async def wait_until_effective(self, injection: Injection) -> Proof:
        def left(view: ClusterView) -> list[str]:
            return [
                v.node
                for v in injection.victims
                if (found := view.node(v.node)) is not None and found.pod.uid == v.pod_uid
            ]

        await injection.world.observer.wait(
            lambda view: not left(view),
            timeout_s=injection.timeout_s,
            waiting_for=lambda view: f"the objects of {', '.join(left(view))} are still there",
        )
        surviving = {v.node: _node(injection).processes(v.pod_uid) for v in injection.victims}
        dead = [name for name, pids in surviving.items() if not pids]
        if dead:
            raise FaultFailed(f"{injection.name}: no process of {', '.join(dead)} survived its pod")
        return {"surviving": surviving}

    async def recover(self, injection: Injection) -> None:
        if KUBELET not in _node(injection).stopped_components():
            injection.ended_early = f"the {KUBELET} was resumed before its fault ended"
        _node(injection).resume(KUBELET)

    async def wait_until_recovered(self, injection: Injection) -> None:
        await until_back(injection)

    async def clean_up(self, injection: Injection) -> None:
        _node(injection).resume(KUBELET)
        injection.pay()


class ComponentPause:
    """Life of `ComponentPauseSpec`. Effective once the kernel reports the process as stopped."""

    def __init__(self, *, component: str) -> None:
        self._component = component
        self._pid = 0

    async def prepare(self, injection: Injection) -> None:
        injection.owe(ResumeComponent(component=self._component))

    async def inject(self, injection: Injection) -> None:
        self._pid = _node(injection).pause(self._component)

    async def wait_until_effective(self, injection: Injection) -> Proof:
        async def stands_still() -> bool:
            return is_stopped(self._pid)

        await injection.until(
            stands_still, waiting_for=lambda: f"{self._component}, process {self._pid}, runs on"
        )
        return {"component": self._component, "pid": self._pid}

    async def recover(self, injection: Injection) -> None:
        if not is_stopped(self._pid):
            injection.ended_early = f"{self._component} was resumed before its pause ended"
        _node(injection).resume(self._component)

    async def wait_until_recovered(self, injection: Injection) -> None:
        await _until_all_answer(injection, through=self._component)

    async def clean_up(self, injection: Injection) -> None:
        await self.recover(injection)
        injection.pay()


class ComponentKill:
    """Life of `ComponentKillSpec`. Effective once it was killed and its port refuses connections.

    The node's supervisor restarts it within a second, so it is killed each time it is back. There
    is nothing to undo: the kills end with the fault, with the run, and with the harness.
    """

    def __init__(self, *, component: str) -> None:
        self._component = component
        self._killed: list[int] = []
        self._killing: asyncio.Task[None] | None = None

    async def prepare(self, injection: Injection) -> None:
        """Records nothing: there is nothing to undo."""

    async def inject(self, injection: Injection) -> None:
        self._killing = asyncio.create_task(self._kill_again(_node(injection)))
        injection.world.tasks.add(self._killing)

    async def wait_until_effective(self, injection: Injection) -> Proof:
        async def refused() -> bool:
            if (why := self._kills_ended()) is not None:
                raise FaultFailed(f"{injection.name}: {why}")
            return bool(self._killed) and await injection.world.kube.is_refused()

        await injection.until(
            refused,
            waiting_for=lambda: (
                f"{self._component} was killed {len(self._killed)} times; its port may still accept"
            ),
        )
        return {"component": self._component, "killed": list(self._killed), "refused": True}

    async def recover(self, injection: Injection) -> None:
        try:
            if (why := self._kills_ended()) is not None:
                injection.ended_early = why
            elif await _api_answers(injection):
                injection.ended_early = f"{self._component} answered before its outage ended"
        finally:
            await self._stop(injection)

    async def wait_until_recovered(self, injection: Injection) -> None:
        await _until_all_answer(injection, through=self._component)

    async def clean_up(self, injection: Injection) -> None:
        await self._stop(injection)
        injection.pay()

    async def _kill_again(self, node: OwnMachine) -> None:
        while True:
            # To its end: a kill that has begun must not come after the end of the kills.
            killed = await to_its_end(asyncio.to_thread(node.kill, self._component))
            if killed:
                self._killed.append(killed)
            await asyncio.sleep(_KILL_AGAIN_S)

    def _kills_ended(self) -> str | None:
        """Returns the reason why the kills of the component have ended; None while they go on."""
        if self._killing is None or not self._killing.done() or self._killing.cancelled():
            return None
        error = self._killing.exception()
        return f"kills of {self._component} ended: {in_words(error) if error else 'cancelled'}"

    async def _stop(self, injection: Injection) -> None:
        if self._killing is not None:
            await end_tasks({self._killing})
            injection.world.tasks.discard(self._killing)
            self._killing = None


async def _api_answers(injection: Injection) -> bool:
    """Returns whether the API server answers a request.

    An accepted connection that is reset is no answer: the server may have begun to listen between
    two checks and then been killed.
    """
    try:
        async with asyncio.timeout(_ANSWER_S):
            await injection.world.kube.version()
    except (ClusterError, TimeoutError):
        return False
    return True


async def _until_all_answer(injection: Injection, *, through: str) -> None:
    """Waits until every data node answers; their reports come through the API server."""
    await injection.world.observer.wait(
        lambda view: bool(view.nodes) and all(node.answers for node in view.nodes.values()),
        timeout_s=injection.timeout_s,
        waiting_for=lambda view: f"not every data node answers through {through}",
    )


def _node(injection: Injection) -> OwnMachine:
    node = injection.world.node
    assert node is not None, "checked before the run"
    return node
