"""SIGKILL and SIGSTOP for the store's process; its pod stays."""

from __future__ import annotations

import signal

from zonequake_chaos.faults.life import Injection, Proof
from zonequake_chaos.faults.signals import continue_process, signal_all
from zonequake_chaos.faults.watching import until_answering, until_back, until_processes_gone
from zonequake_chaos.record.cleanup_journal import ContinueProcess


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
    """

    async def prepare(self, injection: Injection) -> None:
        for victim in injection.victims:
            injection.owe(ContinueProcess(pod=victim.node, uid=victim.pod_uid))

    async def inject(self, injection: Injection) -> None:
        await signal_all(injection, signal.SIGSTOP)

    async def wait_until_effective(self, injection: Injection) -> Proof:
        """Waits until the process is silent; the command that stopped it reported its PID."""
        silent = {victim.node for victim in injection.victims}
        await injection.world.observer.wait(
            lambda view: all(n.report is None for n in view.nodes.values() if n.name in silent),
            timeout_s=injection.timeout_s,
            waiting_for=lambda view: "a stopped process still answers",
        )
        return {"silent": sorted(silent)}

    async def recover(self, injection: Injection) -> None:
        await signal_all(injection, signal.SIGCONT)

    async def wait_until_recovered(self, injection: Injection) -> None:
        await until_answering(injection)

    async def clean_up(self, injection: Injection) -> None:
        for victim in injection.victims:
            await continue_process(injection.world.kube, pod=victim.node, uid=victim.pod_uid)
        injection.pay()
