"""The remains of faults at a pod: seen in the kernel and in the pod itself, not in any record.

    apply, fail-syncs, … under way ─► rules, delayers ─► strace ─► clocks ─► fill files

A harness that dies doesn't end the agent's program that it had called: that one goes on, and does
its harm afterwards. So whoever looks, looks for such programs first: what one of them did while the
rest was looked at is seen by the next look, which this one's answer makes necessary.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from zonequake_agent import failing_syncs, filling, links, pods, wall_clock

_PROGRAM = ("-m", "zonequake_agent")
_HARMS = ("apply", "fail-syncs", "fill", "step-clock")
_NO_STEP = "0"


def left(uid: str) -> list[str]:
    """Returns the remains as sentences; empty if there are none. Raises LinkTrouble, OSError."""
    return [
        *(f"agent process {pid}, which goes on with {verb}" for pid, verb in _under_way(uid)),
        *links.left(uid),
        *failing_syncs.left(uid),
        *(f"stepped clock of process {pid}" for pid in _stepped(uid)),
        *(f"fill file at {path}" for path in filling.left(uid)),
    ]


def heal(uid: str) -> None:
    """Takes it away; an agent that is under way is left to end, and looked for again.

    Raises LinkTrouble, OSError.
    """
    links.undo(uid)
    if failing_syncs.left(uid):
        failing_syncs.end(uid)
    for pid in _stepped(uid):
        wall_clock.step(pid, 0)
    filling.remove(uid)


def _under_way(uid: str) -> Iterator[tuple[int, str]]:
    """Other processes of this program that harm the pod: PID and verb."""
    for folder in pods.PROC.iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if tuple(words[1:3]) != _PROGRAM or words[3:4] == [] or words[4:5] != [uid]:
            continue
        heals = words[3] == "step-clock" and words[5:6] == [_NO_STEP]
        if words[3] in _HARMS and not heals:
            yield int(folder.name), words[3]


def _stepped(uid: str) -> list[int]:
    return [process.pid for process in pods.processes(uid) if wall_clock.is_stepped(process.pid)]
