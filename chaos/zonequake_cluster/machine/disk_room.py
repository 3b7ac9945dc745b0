"""Room on the node's file system: with too little the kubelet evicts pods and takes no others."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from zonequake_cluster.errors import TooLittleDisk

EVICTION_GIB = 1
"""The kubelet's threshold, as its configuration sets it: a share would grow with the disk."""
THRESHOLD_BYTES = EVICTION_GIB * 2**30
NEAR_BYTES = 2 * 2**30
"""Room above the threshold for some runs, images and logs; with less a run may end in evictions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRoom:
    """Bytes of the file system that holds `folder`; `free_bytes` are those that all users share."""

    folder: Path
    free_bytes: int

    @property
    def is_too_little(self) -> bool:
        """Returns whether the kubelet would evict pods now."""
        return self.free_bytes < THRESHOLD_BYTES

    def check(self) -> None:
        """Raises TooLittleDisk if the kubelet would evict pods now."""
        if self.is_too_little:
            raise TooLittleDisk(self.problem())

    def problem(self) -> str | None:
        """Returns what was found and what is needed, as one line; None if there is enough."""
        needed_bytes = THRESHOLD_BYTES + NEAR_BYTES
        if self.free_bytes >= needed_bytes:
            return None
        what = "evicts pods" if self.is_too_little else "soon evicts pods"
        return (
            f"{_gib(self.free_bytes)} GiB are free on the file system of {self.folder}: below "
            f"{_gib(THRESHOLD_BYTES)} GiB the kubelet {what} for DiskPressure; free some room, "
            f"{_gib(needed_bytes)} GiB are needed"
        )


def disk_room(folder: Path) -> DiskRoom:
    """Measures the file system of a folder, or of the nearest one above that exists."""
    while not folder.exists():
        folder = folder.parent
    return DiskRoom(folder=folder, free_bytes=shutil.disk_usage(folder).free)


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:,.1f}"
