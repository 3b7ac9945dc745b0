"""SIGKILL and SIGSTOP for the store's process; its pod stays."""

from __future__ import annotations

import signal

from zonequake_chaos.faults.life import Injury, Proof
from zonequake_chaos.faults.signals import continue_process, signal_all
from zonequake_chaos.faults.watching import until_answering, until_back, until_processes_gone
from zonequake_chaos.record.cleanup_journal import ContinueProcess


class ProcessKill:
    """SIGKILL; the kubelet restarts the container in the same pod."""

    async def prepare(self, injury: Injury) -> None:
        """Nothing to undo: the kubelet restarts the container."""

    async def inject(self, injury: Injury) -> None:
        await signal_all(injury, signal.SIGKILL)

    async def wait_until_effective(self, injury: Injury) -> Proof:
        return await until_processes_gone(injury)

    async def recover(self, injury: Injury) -> None:
        """The kubelet does."""

    async def wait_until_recovered(self, injury: Injury) -> None:
        await until_back(injury)

    async def clean_up(self, injury: Injury) -> None:
        injury.pay()


class ProcessPause:
    """SIGSTOP, and SIGCONT to recover. The process keeps its incarnation and its connections."""

    async def prepare(self, injury: Injury) -> None:
        for victim in injury.victims:
            injury.owe(ContinueProcess(pod=victim.node, uid=victim.pod_uid))

    async def inject(self, injury: Injury) -> None:
        await signal_all(injury, signal.SIGSTOP)

    async def wait_until_effective(self, injury: Injury) -> Proof:
        """The command that stopped it reported its PID; that it is silent is seen here."""
        silent = {victim.node for victim in injury.victims}
        await injury.world.observer.wait(
            lambda view: all(n.report is None for n in view.nodes.values() if n.name in silent),
            timeout_s=injury.timeout_s,
            waiting_for=lambda view: "a stopped process still answers",
        )
        return {"silent": sorted(silent)}

    async def recover(self, injury: Injury) -> None:
        await signal_all(injury, signal.SIGCONT)

    async def wait_until_recovered(self, injury: Injury) -> None:
        await until_answering(injury)

    async def clean_up(self, injury: Injury) -> None:
        for victim in injury.victims:
            await continue_process(injury.world.kube, pod=victim.node, uid=victim.pod_uid)
        injury.pay()
