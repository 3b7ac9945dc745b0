"""Finds a pod's processes among those of the node, by their cgroups, and enters its namespaces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_CONTAINER = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process of a pod; `container` is the runtime's name for its container, or empty."""

    pid: int
    name: str
    container: str


class PodAbsent(Exception):
    """No process of the pod runs on this node."""


def processes(uid: str, proc: Path = PROC) -> list[Process]:
    """The pod's processes in the order of their numbers; none if all have ended.

    The systemd driver of cgroups writes a UID with underscores.
    """
    marks = (f"pod{uid}", f"pod{uid.replace('-', '_')}")
    found = []
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            groups = (folder / "cgroup").read_text()
            if not any(mark in groups for mark in marks):
                continue
            name = (folder / "comm").read_text().strip()
        except (FileNotFoundError, ProcessLookupError):
            continue
        container = _CONTAINER.search(groups)
        pid = int(folder.name)
        found.append(Process(pid=pid, name=name, container=container.group() if container else ""))
    return sorted(found, key=lambda process: process.pid)


def inside(uid: str, namespaces: Sequence[str], command: Sequence[str]) -> list[str]:
    """The command, inside the pod's namespaces of these kinds (`net`, `mount`, `pid`, …).

    The container's own process is entered, and not the one that only holds the namespaces.
    Raises PodAbsent.
    """
    running = processes(uid)
    if not running:
        raise PodAbsent(f"no process of the pod with UID {uid} runs on this node")
    target = next((p for p in running if p.name != "pause"), running[0])
    kinds = [f"--{kind}" for kind in namespaces]
    return ["nsenter", "--target", str(target.pid), *kinds, "--", *command]
