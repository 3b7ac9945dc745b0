"""Finds and ends an instance's processes by a mark in their environment.

A mark rather than a recorded process id: a process has it from its exec on, so that a killed `up`
leaves no process that can't be found. The node is a PID namespace: the kernel ends all its
processes with its init, and removes the init only after the others.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from zonequake_cluster.errors import ProviderError

_PROC = Path("/proc")
_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """A process with the mark; `is_init`: it is process 1 of a namespace below ours."""

    pid: int
    is_init: bool


def find_marked(mark: str, value: str) -> list[Marked]:
    """Returns every process whose environment holds `mark=value`, except zombies."""
    wanted = f"{mark}={value}".encode()
    found = []
    for folder in _PROC.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(Marked(pid=int(folder.name), is_init=_is_init(folder)))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def find_init(mark: str, value: str) -> int | None:
    """Returns the marked init's process id on the host."""
    for process in find_marked(mark, value):
        if process.is_init:
            return process.pid
    return None


def end_marked(mark: str, value: str, *, timeout_s: float) -> None:
    """Kills every marked process, inits first, and waits until none is left.

    Raises ProviderError with the ids of processes that are left after `timeout_s`.
    """
    deadline = time.monotonic() + timeout_s
    while processes := find_marked(mark, value):
        for process in sorted(processes, key=lambda each: not each.is_init):
            _kill(process.pid, mark, value)
        if time.monotonic() >= deadline:
            left = ", ".join(str(process.pid) for process in processes)
            raise ProviderError(
                f"processes {left} did not end within {timeout_s:.0f} s of SIGKILL: "
                "look at what they wait for in /proc/<pid>/stack, then run `down` again"
            )
        time.sleep(_POLL_S)


def host_pid(init_pid: int, inner_pid: int) -> int:
    """Returns the host's PID of process `inner_pid` in the namespace of `init_pid`, or 0."""
    namespace = _namespace(init_pid)
    for folder in _PROC.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            numbers = _namespace_pids(folder)
            if numbers[-1] == inner_pid and _namespace(int(folder.name)) == namespace:
                return int(folder.name)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return 0


def namespace_memory_bytes(init_pid: int) -> int:
    """Returns the resident memory of the processes in the namespace of `init_pid`, without
    containers.

    A shared page counts in equal parts for the processes that share it (PSS).
    """
    namespace, total_kib = _namespace(init_pid), 0
    for folder in _PROC.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if _namespace(int(folder.name)) != namespace:
                continue
            for line in (folder / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total_kib += int(line.split()[1])
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return total_kib * 1024


def _kill(pid: int, mark: str, value: str) -> None:
    """Kills through a descriptor, as the number may belong to another process by now."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
        if f"{mark}={value}".encode() in environment:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        return
    finally:
        os.close(descriptor)


def _namespace(pid: int) -> int:
    return os.stat(_PROC / str(pid) / "ns" / "pid").st_ino


def _namespace_pids(folder: Path) -> list[int]:
    for line in (folder / "status").read_text().splitlines():
        if line.startswith("NSpid:"):
            return [int(number) for number in line.split()[1:]]
    return [int(folder.name)]


def _is_init(folder: Path) -> bool:
    numbers = _namespace_pids(folder)
    return len(numbers) > 1 and numbers[-1] == 1
