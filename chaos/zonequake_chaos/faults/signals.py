"""Signals to the process under test, sent from inside its pod.

The store runs under an init as PID 1 (docs/interfaces.md), because a process that is PID 1 of its
PID namespace can't be killed or stopped from inside. The signal goes to every child of PID 1. A
program that isn't ours shares its PID namespace with a container of ours, and the signal goes to
the processes of its name. The command prints the PIDs that it signalled, as the proof. Starting the
command takes a few hundred milliseconds on a busy node. It is therefore started in every pod first,
and then waits for one word: so all signals are sent at the same time.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Coroutine

from zonequake_chaos.errors import FaultFailed
from zonequake_chaos.faults.life import Injection, Victim, together
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError, NotFound
from zonequake_kube.execution import ExecResult, Execution
from zonequake_kube.objects import pod_view

EXEC_TIMEOUT_S = 10.0

_SIGNAL = """
import os, sys
number, programs = int(sys.argv[1]), sys.argv[2:]
print("ready", flush=True)
if not sys.stdin.readline():
    sys.exit("the signal to begin did not come")
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
    """Returns the processes of the container that are stopped now. Raises HarnessError."""
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
    """Returns the kernel's state of each child of the container's PID 1. Raises HarnessError."""
    said = await _printed(kube, pod, container, _STATES_OF_CHILDREN)
    return {int(pid): state for pid, state in (line.split() for line in said.splitlines())}


async def _printed(kube: Kube, pod: str, container: str, code: str) -> str:
    done = await kube.execute(pod, container, ["python", "-c", code], timeout_s=EXEC_TIMEOUT_S)
    if done.code != 0:
        raise FaultFailed(
            f"cannot list the processes of pod {pod}: exit code {done.code}: {done.stderr[-300:]}"
        )
    return done.stdout


async def send_signal(
    kube: Kube, *, pod: str, container: str, number: signal.Signals, program: str = ""
) -> ExecResult:
    """Signals the processes in `pod`; `container`, `program` as in `view.PodView`.

    Raises ClusterError if the command could not run.
    """
    async with _command(kube, pod, container, number, program) as command:
        return await _signal_now(command)


@contextlib.asynccontextmanager
async def _command(
    kube: Kube, pod: str, container: str, number: signal.Signals, program: str
) -> AsyncIterator[Execution]:
    """Returns the command, which waits in the pod for the word, and does nothing without it."""
    words = ["python", "-c", _SIGNAL, str(int(number)), *([program] if program else [])]
    async with kube.executing(
        pod, container, words, timeout_s=EXEC_TIMEOUT_S, stdin=True
    ) as command:
        await command.line()
        yield command


async def _signal_now(command: Execution) -> ExecResult:
    await command.say("now\n")
    return await command.result()


async def signal_all(injection: Injection, number: signal.Signals) -> None:
    """Signals all victims at once. Raises FaultFailed if one had no process to signal."""
    async with ready_to_signal(injection, number) as signal_them:
        await signal_them()


@contextlib.asynccontextmanager
async def ready_to_signal(
    injection: Injection, number: signal.Signals
) -> AsyncIterator[Callable[[], Coroutine[object, object, None]]]:
    """Starts the command in each victim's pod; yields a function that signals all at the same time.

    SIGKILL may end the container before the command can report; then the wait for the proof
    decides. If it reports, the victim is known to be dead from then on. Raises FaultFailed if a
    victim has no process to signal: what was dead before is not killed.
    """

    async def one(victim: Victim, command: Execution) -> None:
        try:
            result = await _signal_now(command)
        except ClusterError:
            if number is signal.SIGKILL:
                return
            raise
        if result.code == 0 and result.stdout.strip():
            injection.signalled[victim.node] = frozenset(map(int, result.stdout.split()))
            if number is signal.SIGKILL:
                injection.killed_ns[victim.node] = injection.world.clock.now().time_ns
        elif number is not signal.SIGKILL or result.code == 0:
            raise FaultFailed(
                f"{injection.name}: {number.name} reached no process in pod {victim.node} "
                f"(exit code {result.code}): {result.stderr.strip()[-300:] or 'none was found'}"
            )

    kube = injection.world.kube
    commands: dict[Victim, Execution] = {}
    async with contextlib.AsyncExitStack() as begun:

        async def begin(victim: Victim) -> None:
            command = _command(kube, victim.node, victim.container, number, victim.program)
            commands[victim] = await begun.enter_async_context(command)

        await together(begin(victim) for victim in injection.victims)
        yield lambda: together(one(*each) for each in commands.items())


def check_patience(injection: Injection, pod: str, patience_s: float | None) -> None:
    """Raises FaultFailed for a pause that the kubelet would end; `patience_s` as in `PodView`."""
    if patience_s is not None and injection.hold_s >= patience_s:
        raise FaultFailed(
            f"{injection.name}: found holdSeconds {injection.hold_s:g}, expected less than "
            f"{patience_s:g}: the kubelet restarts the container of pod {pod} when it has answered "
            "no liveness probe for so long; hold it shorter, or give the probe more patience"
        )


async def continue_process(kube: Kube, *, pod: str, uid: str) -> None:
    """Resumes the store in exactly that pod, if it is stopped; a successor never was.

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
