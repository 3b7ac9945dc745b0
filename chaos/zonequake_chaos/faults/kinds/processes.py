"""SIGKILL and SIGSTOP for the store's process; its pod stays."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from dataclasses import replace

from zonequake_chaos.faults.life import Injection, Proof, Victim
from zonequake_chaos.faults.signals import (
    check_patience,
    continue_process,
    signal_all,
    stopped_processes,
)
from zonequake_chaos.faults.watching import until_answering, until_back, until_processes_gone
from zonequake_chaos.record.cleanup_journal import ContinueProcess
from zonequake_kube.errors import HarnessError, NotFound
from zonequake_kube.objects import pod_view


class ProcessKill:
    """Sends SIGKILL; the kubelet restarts the container in the same pod."""

    async def prepare(self, injection: Injection) -> None:
        """Records nothing: the kubelet restarts the container."""

    async def inject(self, injection: Injection) -> None:
        await signal_all(injection, signal.SIGKILL)

    async def wait_until_effective(self, injection: Injection) -> Proof:
        return await until_processes_gone(injection)

    async def recover(self, injection: Injection) -> None:
        """Does nothing: the kubelet restarts the container."""

    async def wait_until_recovered(self, injection: Injection) -> None:
        await until_back(injection)

    async def clean_up(self, injection: Injection) -> None:
        injection.pay()


class ProcessPause:
    """Sends SIGSTOP, and SIGCONT to recover. The process keeps its incarnation and its
    connections.

    Effective once the kernel reports the processes as stopped, and the node is silent. A kubelet
    ends a container that answers no probe for some time: a longer pause is refused, and one that
    turns out to be longer is reported as ended early.
    """

    async def prepare(self, injection: Injection) -> None:
        for victim in injection.victims:
            check_patience(injection, victim.node, victim.patience_s)
        for victim in injection.victims:
            injection.owe(ContinueProcess(pod=victim.node, uid=victim.pod_uid))

    async def inject(self, injection: Injection) -> None:
        await signal_all(injection, signal.SIGSTOP)

    async def wait_until_effective(self, injection: Injection) -> Proof:
        stopped: dict[str, list[int]] = {}

        async def all_stopped() -> bool:
            for victim in injection.victims:
                stopped[victim.node] = await _still(injection, victim)
            return all(stopped.values())

        await injection.until(
            all_stopped, waiting_for=lambda: f"stopped processes so far: {stopped or 'none'}"
        )
        silent = {victim.node for victim in injection.victims}
        await injection.world.observer.wait(
            lambda view: all(n.report is None for n in view.nodes.values() if n.name in silent),
            timeout_s=injection.timeout_s,
            waiting_for=lambda view: "a stopped process still answers",
        )
        return {"silent": sorted(silent), "stopped": stopped}

    async def recover(self, injection: Injection) -> None:
        looks = [_resumed(injection, victim) for victim in injection.victims]
        found = dict(zip(injection.victims, await asyncio.gather(*looks), strict=True))
        lasting = tuple(victim for victim, why in found.items() if why is None)
        if lasting:
            await signal_all(replace(injection, victims=lasting), signal.SIGCONT)
        for victim, why in found.items():
            if why is not None:
                injection.ended_early = f"{victim.node}: {why}"
                with contextlib.suppress(HarnessError):  # what may be left is owed still
                    await continue_process(
                        injection.world.kube, pod=victim.node, uid=victim.pod_uid
                    )

    async def wait_until_recovered(self, injection: Injection) -> None:
        await until_answering(injection)

    async def clean_up(self, injection: Injection) -> None:
        for victim in injection.victims:
            await continue_process(injection.world.kube, pod=victim.node, uid=victim.pod_uid)
        injection.pay()


async def _still(injection: Injection, victim: Victim) -> list[int]:
    """Returns the processes that were stopped; none unless all of them still are."""
    found = await stopped_processes(
        injection.world.kube, pod=victim.node, container=victim.container
    )
    stopped = injection.signalled.get(victim.node, frozenset())
    return sorted(stopped) if stopped <= set(found) else []


async def _resumed(injection: Injection, victim: Victim) -> str | None:
    """Returns why the victim's processes weren't stopped to the end; None if they were."""
    try:
        now = pod_view(await injection.world.kube.get("Pod", victim.node))
        if now.uid != victim.pod_uid:
            return "its pod was replaced while its process was stopped"
        if now.restarts != victim.restarts:
            return "its container was restarted while its process was stopped"
        if not await _still(injection, victim):
            return "its process was resumed before its pause ended"
    except NotFound:
        return "its pod was deleted while its process was stopped"
    except HarnessError as error:
        return f"it can't be proven that its process was stopped to the end: {error}"
    return None
