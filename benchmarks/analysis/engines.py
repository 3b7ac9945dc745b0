"""What a checker costs as a whole program: time, CPU and memory of it and all its children."""

from __future__ import annotations

import math
import os
import resource
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


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


def cost_of(
    command: Sequence[str], *, limit_s: float | None = None, limit_gib: float = math.inf
) -> Cost:
    """What `command` costs until it ends, or is ended after `limit_s` or above `limit_gib`.

    CPU and memory are sampled from /proc five times a second, so that those of a child that nobody
    waits for count too; CPU at least as the kernel says of those that were waited for. Memory is
    the proportional set size: a page that several processes share counts once.
    """
    waited_s = _waited_cpu_s()
    began, peak, done, ended = time.monotonic(), 0, threading.Event(), False
    ticks: dict[int, int] = {}
    process = subprocess.Popen(command, stdout=subprocess.PIPE)

    def watch() -> None:
        nonlocal peak, ended
        while not done.wait(0.2):
            now = _tree(process.pid)
            peak = max(peak, sum(held for held, _ in now.values()))
            ticks.update({pid: spent for pid, (_, spent) in now.items()})
            if peak > limit_gib * 2**30:
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
        cpu_seconds=max(sum(ticks.values()) / os.sysconf("SC_CLK_TCK"), _waited_cpu_s() - waited_s),
        peak_gib=peak / 2**30,
        output=output,
    )


def _waited_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _tree(root: int) -> dict[int, tuple[int, int]]:
    """Returns bytes of memory and CPU ticks of a process and all its descendants, by process id."""
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
    return {
        pid: (_proportional_bytes(pid), int(stats[pid][11]) + int(stats[pid][12]))
        for pid in members & stats.keys()
    }


def _proportional_bytes(pid: int) -> int:
    """Returns the proportional set size of a process; 0 if it has just ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
