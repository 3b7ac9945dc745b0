"""The instance's control groups: one of its name below the root of every hierarchy.

    /  ── the machine's other processes, each thread with as much as a whole group of 1,024 shares
    └─ zonequake-x   as much as its two parts together
       ├─ kubepods   1,024 shares for each core, by the kubelet
       └─ components 1,024 shares: API server, etcd, kubelet, containerd

These are the shares of a dedicated node, where pods are `kubepods` and the rest is one group of
services. Without them all pods together get as much of a busy machine as one thread of the kubelet.

Both versions are supported: with version 1 every controller has its own hierarchy, with version 2
there is one, in which `cgroup.subtree_control` passes controllers down.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from zonequake_cluster.errors import ProviderError

_ROOT = Path("/sys/fs/cgroup")
_CPUSET_FILES = ("cpuset.cpus", "cpuset.mems")
COMPONENTS = "components"
"""The group of all processes that belong to no pod."""

_CORE_SHARES = 1024
"""Processor shares that the kubelet gives its pods for each core; also a group's default."""

_V2_CONTROLLERS = ("cpu", "cpuset", "io", "memory", "pids")


def is_unified(root: Path = _ROOT) -> bool:
    """Returns whether this is version 2."""
    return (root / "cgroup.controllers").is_file()


def hierarchies(root: Path = _ROOT) -> list[Path]:
    """Returns the hierarchies' roots; a link as for `cpu,cpuacct` is counted once."""
    if is_unified(root):
        return [root]
    return [each for each in sorted(root.iterdir()) if each.is_dir() and not each.is_symlink()]


def create(name: str, root: Path = _ROOT) -> None:
    """Creates the group in every hierarchy, ready for groups below it."""
    for hierarchy in hierarchies(root):
        group = hierarchy / name
        if is_unified(root):
            _pass_down(hierarchy)
        group.mkdir(exist_ok=True)
        if is_unified(root):
            _pass_down(group)
        for setting in _CPUSET_FILES:
            if (hierarchy / setting).is_file():
                (group / setting).write_text((hierarchy / setting).read_text())


def share_out(name: str, *, cores: int, root: Path = _ROOT) -> None:
    """Sets the group's share of the processors, and moves this process, and so its later children,
    into the part for components.
    """
    for group in find(name, root):
        if not _give(group, (cores + 1) * _CORE_SHARES):
            continue
        part = group / COMPONENTS
        part.mkdir(exist_ok=True)
        _give(part, _CORE_SHARES)
        (part / "cgroup.procs").write_text("0\n")  # 0: the process that writes it


def _give(group: Path, shares: int) -> bool:
    """Sets the group's share of the processors; returns False where this hierarchy has none."""
    if (group / "cpu.shares").is_file():
        (group / "cpu.shares").write_text(f"{shares}\n")
    elif (group / "cpu.weight").is_file():
        # The conversion that kubelet and runc use, of version 1's shares into version 2's weights.
        (group / "cpu.weight").write_text(f"{1 + (shares - 2) * 9999 // 262142}\n")
    else:
        return False
    return True


def find(name: str, root: Path = _ROOT) -> list[Path]:
    """Returns the group's folders that exist, in every hierarchy."""
    return [hierarchy / name for hierarchy in hierarchies(root) if (hierarchy / name).is_dir()]


def remove(name: str, *, timeout_s: float, root: Path = _ROOT) -> None:
    """Removes the group and all groups below it; their processes must have ended.

    Waits, since the kernel releases a group shortly after its last process. Raises ProviderError.
    """
    deadline = time.monotonic() + timeout_s
    while groups := find(name, root):
        for group in groups:
            for folder, _, _ in os.walk(group, topdown=False):
                _try_remove(Path(folder))
        if not find(name, root):
            return
        if time.monotonic() >= deadline:
            raise ProviderError(
                f"cgroup {groups[0]} is still in use after {timeout_s:.0f} s: "
                f"see its cgroup.procs, then run `down` again"
            )
        time.sleep(0.05)


def _try_remove(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # busy, or removed already: the next round decides


def _pass_down(group: Path) -> None:
    present = (group / "cgroup.controllers").read_text().split()
    for controller in _V2_CONTROLLERS:
        if controller in present:
            (group / "cgroup.subtree_control").write_text(f"+{controller}")
