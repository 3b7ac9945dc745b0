"""Signals to the store's process, sent from inside its container.

The store runs under an init as PID 1 (docs/interfaces.md), because a process that is PID 1 of its
PID namespace can't be killed or stopped from inside. The signal goes to every child of PID 1, in
the same instant, and the command prints whom it met and when.
"""

from __future__ import annotations

import signal

from zonequake_chaos.errors import ClusterError, FaultFailed, NotFound
from zonequake_chaos.faults.life import Injury, Proof, Victim, together
from zonequake_chaos.faults.watching import until_back, until_processes_gone
from zonequake_chaos.journal import ContinueProcess
from zonequake_chaos.kube import ExecResult, Kube
from zonequake_chaos.objects import pod_view

EXEC_TIMEOUT_S = 10.0

_SIGNAL_CHILDREN = """
import os, sys
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        parent = open("/proc/" + pid + "/stat").read().rpartition(")")[2].split()[1]
        if parent == "1" and int(pid) != os.getpid():
            os.kill(int(pid), int(sys.argv[1]))
            print(pid)
    except FileNotFoundError:
        pass
"""


async def send_signal(
    kube: Kube, *, pod: str, container: str, number: signal.Signals
) -> ExecResult:
    """Signals the store in `pod`. Raises ClusterError if the command could not run."""
    return await kube.execute(
        pod,
        container,
        ["python", "-c", _SIGNAL_CHILDREN, str(int(number))],
        timeout_s=EXEC_TIMEOUT_S,
    )


async def _signal_all(injury: Injury, number: signal.Signals) -> None:
    """Signals all victims together. Raises FaultFailed if one had no process to signal."""

    async def one(victim: Victim) -> None:
        try:
            result = await send_signal(
                injury.world.kube, pod=victim.node, container=victim.container, number=number
            )
        except ClusterError:
            # SIGKILL may end the container before the command can report: the wait for the proof
            # decides.
            if number is signal.SIGKILL:
                return
            raise
        if number is not signal.SIGKILL and (result.code != 0 or not result.stdout.strip()):
            raise FaultFailed(
                f"{injury.name}: {number.name} reached no process in pod {victim.node} "
                f"(exit code {result.code}): {result.stderr.strip()[-300:] or 'no child of PID 1'}"
            )

    await together(one(victim) for victim in injury.victims)


class ProcessKill:
    """SIGKILL; the kubelet restarts the container in the same pod."""

    async def prepare(self, injury: Injury) -> None:
        """Nothing to undo: the kubelet restarts the container."""

    async def inject(self, injury: Injury) -> None:
        await _signal_all(injury, signal.SIGKILL)

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
        await _signal_all(injury, signal.SIGSTOP)

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
        await _signal_all(injury, signal.SIGCONT)

    async def wait_until_recovered(self, injury: Injury) -> None:
        names = {victim.node for victim in injury.victims}
        await injury.world.observer.wait(
            lambda view: names <= {n.name for n in view.nodes.values() if n.answers},
            timeout_s=injury.timeout_s,
            waiting_for=lambda view: f"{', '.join(sorted(names))} must answer again",
        )

    async def clean_up(self, injury: Injury) -> None:
        for victim in injury.victims:
            await continue_process(injury.world.kube, pod=victim.node, uid=victim.pod_uid)
        injury.pay()


async def continue_process(kube: Kube, *, pod: str, uid: str) -> None:
    """Sees to it that the store in that very pod isn't stopped; a successor never was."""
    try:
        found = pod_view(await kube.get("Pod", pod))
    except NotFound:
        return
    if found.uid == uid:
        await send_signal(kube, pod=pod, container=found.container, number=signal.SIGCONT)
