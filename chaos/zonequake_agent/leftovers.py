"""Finds the remains of faults at a pod, in the kernel and in the pod itself, not in a record.

    apply, fail-syncs, … under way ─► rules, delayers ─► strace ─► clocks ─► fill files ─► power

When a harness dies, an agent process that it had called runs on and may inject its fault later. A
look therefore begins with such processes: it reports them as remains, so that another look follows,
which finds what they did during this one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from zonequake_agent import break_links, pods, wall_clock
from zonequake_agent.disk import filling, power, tampering

_PROGRAM = ("-m", "zonequake_agent")
_HARMS = ("apply", "fail-syncs", "slow-disk", "fill", "mark-power", "lose-power", "step-clock")
_NO_STEP = "0"


def left(uid: str) -> list[str]:
    """Returns the remains as sentences; empty if there are none. Raises LinkTrouble, OSError."""
    return [
        *(f"agent process {pid}, which still runs {verb}" for pid, verb in _under_way(uid)),
        *break_links.left(uid),
        *tampering.left(uid),
        *(f"stepped clock of process {pid}" for pid in _stepped(uid)),
        *(f"fill file at {path}" for path in filling.left(uid)),
        *power.left(uid),
    ]


def heal(uid: str) -> None:
    """Removes the remains, except agent processes that still run: look again once they have ended.

    Raises LinkTrouble, NotTraced, NotMounted, OSError.
    """
    break_links.undo(uid)
    tampering.heal(uid)
    for pid in _stepped(uid):
        wall_clock.step(pid, 0)
    filling.remove(uid)
    power.heal(uid)


def _under_way(uid: str) -> Iterator[tuple[int, str]]:
    """Yields other processes of this program that harm the pod: PID and verb."""
    for folder in pods.PROC.iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if tuple(words[1:3]) != _PROGRAM or words[3:4] == [] or uid not in words[4:]:
            continue
        heals = words[3] == "step-clock" and words[5:6] == [_NO_STEP]
        if words[3] in _HARMS and not heals:
            yield int(folder.name), words[3]


def _stepped(uid: str) -> list[int]:
    return [process.pid for process in pods.processes(uid) if wall_clock.is_stepped(process.pid)]
