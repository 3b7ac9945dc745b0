"""Finds a pod's processes on the node by their cgroups, and enters the pod's network."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_POD = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")
_CONTAINER = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodProcess:
    """One process of a pod; `container` is the runtime's name for its container, or empty."""

    pid: int
    name: str
    container: str


class PodAbsent(Exception):
    """Raised when no process of the pod is running on this node."""


def processes(uid: str, proc: Path = PROC) -> list[PodProcess]:
    """Returns the pod's processes, oldest first; none if all have ended.

    The systemd driver of cgroups writes a UID with underscores.
    """
    marks = (f"pod{uid}", f"pod{uid.replace('-', '_')}")
    found = []
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            groups = (folder / "cgroup").read_text()
            if any(mark in groups for mark in marks):
                found.append((started(folder), _process(folder, groups)))
    return [process for _, process in sorted(found, key=lambda each: (each[0], each[1].pid))]


def started(folder: Path) -> int:
    """Returns the time at which the process began, in the kernel's ticks."""
    # The name in brackets may hold blanks and brackets.
    return int((folder / "stat").read_text().rpartition(")")[2].split()[19])


def _process(folder: Path, groups: str) -> PodProcess:
    container = _CONTAINER.search(groups)
    return PodProcess(
        pid=int(folder.name),
        name=(folder / "comm").read_text().strip(),
        container=container.group() if container else "",
    )


def all_uids(proc: Path = PROC) -> list[str]:
    """Returns the UID of every pod on this node, sorted."""
    found = set()
    for folder in proc.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found |= set(_POD.findall((folder / "cgroup").read_text()))
    return sorted({uid.replace("_", "-") for uid in found})


def is_of_a_pod(pid: int, proc: Path = PROC) -> bool:
    """Returns whether the process is one of a pod; False if it is gone."""
    try:
        return _POD.search((proc / str(pid) / "cgroup").read_text()) is not None
    except (FileNotFoundError, ProcessLookupError):
        return False


def workers(uid: str) -> list[int]:
    """Returns the pod's processes, except that of the pause container, which started first and only
    holds the namespaces. Raises PodAbsent if there is none.
    """
    running = processes(uid)
    found = [process.pid for process in running if process.container != running[0].container]
    if not found:
        raise PodAbsent(f"no process of the pod with UID {uid} is running on this node")
    return found


def in_network(uid: str, command: Sequence[str]) -> list[str]:
    """Returns the command to run inside the pod's network namespace, by way of its oldest process,
    which lives as long as the pod. Raises PodAbsent.
    """
    running = processes(uid)
    if not running:
        raise PodAbsent(f"no process of the pod with UID {uid} is running on this node")
    return ["nsenter", "--target", str(running[0].pid), "--net", "--", *command]
