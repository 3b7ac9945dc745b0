"""What a checker costs as a whole program: time, CPU and memory of it and all its children."""

from __future__ import annotations

import math
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_CPU_EACH_S = 0.2
_MEMORY_EACH_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one program from its start to its end. `output` is what it printed.

    `ended`: by us, since it took too long or too much; else it came to its end by itself.
    """

    ended: bool
    exit_code: int
    seconds: float
    cpu_seconds: float
    peak_gib: float
    output: bytes


@dataclass(slots=True, kw_only=True)
class ProcessTree:
    """A process and all its descendants. `ticks`: the newest CPU ticks of each that was seen."""

    root: int
    ticks: dict[int, int] = field(default_factory=dict)
    peak_bytes: int = 0
    memory_due_s: float = -math.inf

    def sample(self, now_s: float) -> None:
        """Reads the CPU ticks of all, and their memory if a second has passed since it was read."""
        now = _ticks(self.root)
        self.ticks |= now
        if now_s >= self.memory_due_s:
            self.memory_due_s = now_s + _MEMORY_EACH_S
            self.peak_bytes = max(self.peak_bytes, sum(map(_proportional_bytes, now)))


def zonequake(*arguments: str | Path) -> list[str]:
    """Returns the command that a user starts so, with this Python and this folder's code."""
    program = "from zonequake_ctl.entry_points import zonequake; zonequake()"
    return [sys.executable, "-c", program, *map(str, arguments)]


def cost_of(
    command: Sequence[str], *, limit_s: float | None = None, limit_gib: float = math.inf
) -> Cost:
    """Returns what `command` costs until it ends, or is ended after `limit_s` or above `limit_gib`.

    CPU is sampled from /proc five times a second, so that that of a child counts too
    that its parent doesn't wait for, and is at least what the kernel says of those that were waited
    for. Memory is the proportional set size: a page that several processes share counts once. The
    kernel walks the page tables of a process to say it, and holds up a process of several GiB
    meanwhile, so it is asked once a second, of any program: a higher peak between two samples is
    not seen.
    """
    waited_s = _waited_cpu_s()
    began, done, ended = time.monotonic(), threading.Event(), False
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    tree = ProcessTree(root=process.pid)

    def watch() -> None:
        nonlocal ended
        while not done.wait(_CPU_EACH_S):
            tree.sample(time.monotonic())
            if tree.peak_bytes > limit_gib * 2**30:
                ended = True
                process.kill()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        ended = True
        process.kill()
        output, _ = process.communicate()
    finally:
        done.set()
        watcher.join()
    return Cost(
        ended=ended,
        exit_code=process.returncode,
        seconds=time.monotonic() - began,
        cpu_seconds=max(
            sum(tree.ticks.values()) / os.sysconf("SC_CLK_TCK"), _waited_cpu_s() - waited_s
        ),
        peak_gib=tree.peak_bytes / 2**30,
        output=output,
    )


def _waited_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _ticks(root: int) -> dict[int, int]:
    """Returns the CPU ticks of a process and all its descendants, by process id."""
    stats: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stats[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
    members = {root}
    while more := {pid for pid, stat in stats.items() if int(stat[1]) in members} - members:
        members |= more
    return {pid: int(stats[pid][11]) + int(stats[pid][12]) for pid in members & stats.keys()}


def _proportional_bytes(pid: int) -> int:
    """Returns the proportional set size of a process; 0 if it has just ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
