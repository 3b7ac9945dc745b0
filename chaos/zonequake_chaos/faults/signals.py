"""Signals to the store's process, sent from inside its container.

The store runs under an init as PID 1 (docs/interfaces.md), because a process that is PID 1 of its
PID namespace can't be killed or stopped from inside. The signal goes to every child of PID 1, and
the command prints whom it met: that is the proof that it arrived.
"""

from __future__ import annotations

import signal

from zonequake_chaos.errors import ClusterError, FaultFailed, NotFound
from zonequake_chaos.faults.life import Injury, Victim, together
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


async def signal_all(injury: Injury, number: signal.Signals) -> None:
    """Signals all victims together. Raises FaultFailed if one had no process to signal.

    SIGKILL may end the container before the command can report; then the wait for the proof
    decides. Where it did report, the victim is known to be dead from then on.
    """

    async def one(victim: Victim) -> None:
        try:
            result = await send_signal(
                injury.world.kube, pod=victim.node, container=victim.container, number=number
            )
        except ClusterError:
            if number is signal.SIGKILL:
                return
            raise
        if result.code == 0 and result.stdout.strip():
            if number is signal.SIGKILL:
                injury.killed_ns[victim.node] = injury.world.clock.now().time_ns
        elif number is not signal.SIGKILL:
            raise FaultFailed(
                f"{injury.name}: {number.name} reached no process in pod {victim.node} "
                f"(exit code {result.code}): {result.stderr.strip()[-300:] or 'no child of PID 1'}"
            )

    await together(one(victim) for victim in injury.victims)


async def continue_process(kube: Kube, *, pod: str, uid: str) -> None:
    """Sees to it that the store in that very pod isn't stopped; a successor never was."""
    try:
        found = pod_view(await kube.get("Pod", pod))
    except NotFound:
        return
    if found.uid == uid:
        await send_signal(kube, pod=pod, container=found.container, number=signal.SIGCONT)
