"""Alters a value in a member's files, behind the system's back."""

from __future__ import annotations

import asyncio
import signal

from zonequake_chaos.faults.life import FaultWorld
from zonequake_chaos.faults.signals import send_signal
from zonequake_chaos.kit.member_set import DATA_FOLDER
from zonequake_chaos.record.cleanup_journal import ContinueProcess
from zonequake_kube.errors import FaultFailed, WaitExpired
from zonequake_kube.objects import PodView

TRIES = 15
"""A value may be in memory for some seconds before it is in a file."""

_PAUSE_S = 1.0
_REPLACE = """
import glob, os, sys
program, folder, pattern, old, new = sys.argv[1:]
done = 0
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        command = open("/proc/" + pid + "/cmdline").read().partition("\\0")[0]
    except OSError:
        continue
    if os.path.basename(command) != program or int(pid) == os.getpid():
        continue
    for name in glob.glob("/proc/" + pid + "/root" + folder + "/" + pattern, recursive=True):
        with open(name, "r+b") as file:
            data = file.read()
            found = data.count(old.encode())
            if found:
                file.seek(0)
                file.write(data.replace(old.encode(), new.encode()))
                done += found
    break
print(done)
"""


def altered(value: int) -> int:
    """Returns another number with as many digits."""
    text = str(value)
    return int(text[:-1] + ("1" if text[-1] != "1" else "2"))


async def alter_value(world: FaultWorld, pod: PodView, *, pattern: str, value: int) -> None:
    """Replaces `value` by `altered(value)` in the files of the member's data folder that `pattern`
    names, while its process is stopped, and kills the process. Raises HarnessError.
    """
    kube, command = world.kube, [pod.program, DATA_FOLDER, pattern, str(value), str(altered(value))]
    debt = world.journal.owe(ContinueProcess(pod=pod.name, uid=pod.uid))
    for _ in range(TRIES):
        await _signal(world, pod, signal.SIGSTOP)
        done = await kube.execute(pod.name, pod.container, ["python", "-c", _REPLACE, *command])
        if done.code != 0:
            raise FaultFailed(f"{pod.name}: files can't be altered: {done.stderr[-300:]}")
        if int(done.stdout or 0):
            await _signal(world, pod, signal.SIGKILL)
            world.journal.paid(debt)
            return
        await _signal(world, pod, signal.SIGCONT)
        await asyncio.sleep(_PAUSE_S)
    world.journal.paid(debt)
    raise WaitExpired(
        f"{pod.name}: found {value} in no file {DATA_FOLDER}/{pattern} after {TRIES} tries: does "
        "the target's `alters` name the files in which values stand as text?"
    )


async def _signal(world: FaultWorld, pod: PodView, number: signal.Signals) -> None:
    await send_signal(
        world.kube, pod=pod.name, container=pod.container, number=number, program=pod.program
    )
