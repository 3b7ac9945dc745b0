"""Alters a value in a member's files, behind the system's back."""

from __future__ import annotations

import asyncio
import signal

from zonequake_chaos.errors import FaultFailed
from zonequake_chaos.faults.life import FaultWorld
from zonequake_chaos.faults.signals import send_signal
from zonequake_chaos.kit.alteration import Alteration
from zonequake_chaos.kit.member_set import DATA_FOLDER
from zonequake_chaos.record.cleanup_journal import ContinueProcess
from zonequake_kube.errors import WaitExpired
from zonequake_kube.objects import PodView

TRIES = 15
"""A value may be in memory for some seconds before it is in a file."""

_PAUSE_S = 1.0


def altered(value: int) -> int:
    """Returns another number with as many digits."""
    text = str(value)
    return int(text[:-1] + ("1" if text[-1] != "1" else "2"))


async def alter_value(
    world: FaultWorld, pod: PodView, *, alteration: Alteration, value: int
) -> None:
    """Replaces `value` by `altered(value)` in the member's data while its process is stopped, and
    kills the process. Raises HarnessError.
    """
    values = [str(value), str(altered(value))]
    words = [pod.program, DATA_FOLDER, *values, *alteration.words]
    command = ["python", "-c", alteration.program, *words]
    debt = world.journal.owe(ContinueProcess(pod=pod.name, uid=pod.uid))
    for _ in range(TRIES):
        await _signal(world, pod, signal.SIGSTOP)
        done = await world.kube.execute(pod.name, pod.container, command)
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
        f"{pod.name}: looked {TRIES} times for {value} below {DATA_FOLDER}, found none, expected "
        f"it where the target's `alters` looks ({' '.join(alteration.words) or 'a program'})"
    )


async def _signal(world: FaultWorld, pod: PodView, number: signal.Signals) -> None:
    await send_signal(
        world.kube, pod=pod.name, container=pod.container, number=number, program=pod.program
    )
