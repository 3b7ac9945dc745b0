"""Signals to the process under test, sent from inside its pod.

The store runs under an init as PID 1 (docs/interfaces.md), because a process that is PID 1 of its
PID namespace can't be killed or stopped from inside. The signal goes to every child of PID 1. A
program that isn't ours shares its PID namespace with a container of ours, and the signal goes to
the processes of its name. The command prints whom it met: that is the proof that it arrived.
"""

from __future__ import annotations

import signal

from zonequake_chaos.errors import ClusterError, FaultFailed, NotFound
from zonequake_chaos.faults.life import Injury, Victim, together
from zonequake_chaos.kube import ExecResult, Kube
from zonequake_chaos.objects import pod_view

EXEC_TIMEOUT_S = 10.0

_SIGNAL = """
import os, sys
number, programs = int(sys.argv[1]), sys.argv[2:]
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        if programs:
            command = open("/proc/" + pid + "/cmdline").read().partition("\\0")[0]
            met = os.path.basename(command) in programs
        else:
            met = open("/proc/" + pid + "/stat").read().rpartition(")")[2].split()[1] == "1"
        if met and int(pid) != os.getpid():
            os.kill(int(pid), number)
            print(pid)
    except (FileNotFoundError, ProcessLookupError):
        pass
"""

_STOPPED = """
import os
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        if open("/proc/" + pid + "/stat").read().rpartition(")")[2].split()[0] in "Tt":
            print(pid)
    except (FileNotFoundError, ProcessLookupError):
        pass
"""


async def stopped_processes(kube: Kube, *, pod: str, container: str) -> list[int]:
    """The processes of the container that are stopped now. Raises HarnessError."""
    return [int(pid) for pid in (await _printed(kube, pod, container, _STOPPED)).split()]


STILL = "T"
"""The state of a process that SIGSTOP has stopped (proc(5))."""

_STATES_OF_CHILDREN = """
import os
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        state, parent = open("/proc/" + pid + "/stat").read().rpartition(")")[2].split()[:2]
        if parent == "1" and int(pid) != os.getpid():
            print(pid, state)
    except (FileNotFoundError, ProcessLookupError):
        pass
"""


async def process_states(kube: Kube, *, pod: str, container: str) -> dict[int, str]:
    """The kernel's word on each child of the container's PID 1. Raises HarnessError."""
    said = await _printed(kube, pod, container, _STATES_OF_CHILDREN)
    return {int(pid): state for pid, state in (line.split() for line in said.splitlines())}


async def _printed(kube: Kube, pod: str, container: str, code: str) -> str:
    done = await kube.execute(pod, container, ["python", "-c", code], timeout_s=EXEC_TIMEOUT_S)
    if done.code != 0:
        raise FaultFailed(f"processes of pod {pod}: exit code {done.code}: {done.stderr[-300:]}")
    return done.stdout


async def send_signal(
    kube: Kube, *, pod: str, container: str, number: signal.Signals, program: str = ""
) -> ExecResult:
    """Signals what runs in `pod`; `container`, `program` as in `state.PodView`.

    Raises ClusterError if the command could not run.
    """
    return await kube.execute(
        pod,
        container,
        ["python", "-c", _SIGNAL, str(int(number)), *([program] if program else [])],
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
                injury.world.kube,
                pod=victim.node,
                container=victim.container,
                number=number,
                program=victim.program,
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
                f"(exit code {result.code}): {result.stderr.strip()[-300:] or 'none was found'}"
            )

    await together(one(victim) for victim in injury.victims)


async def continue_process(kube: Kube, *, pod: str, uid: str) -> None:
    """Sees to it that the store in that very pod isn't stopped; a successor never was.

    Raises HarnessError.
    """
    try:
        found = pod_view(await kube.get("Pod", pod))
    except NotFound:
        return
    if found.uid == uid:
        done = await send_signal(
            kube,
            pod=pod,
            container=found.container,
            number=signal.SIGCONT,
            program=found.program,
        )
        if done.code != 0:
            raise FaultFailed(
                f"SIGCONT in pod {pod}: exit code {done.code}: {done.stderr.strip()[-300:]}"
            )
