"""Mounts as the kernel lists them (/proc/PID/mountinfo, proc(5)). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ESCAPED = re.compile(r"\\([0-7]{3})")


class SharedVolume(Exception):
    """Raised when the volume shares its file system; the text says with what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One mount: `root` is the folder of the file system that is mounted at `point`; `device` is
    its `major:minor`; `options` are those of the mount and then those of the file system.
    """

    device: str
    root: str
    point: str
    options: str
    kind: str
    source: str


def parse(text: str) -> Iterator[Mount]:
    """Yields the mounts of a mountinfo file, in its order: a later one covers an earlier one."""
    for line in text.splitlines():
        own, _, of_file_system = line.partition(" - ")
        words, (kind, source, options) = own.split(), of_file_system.split()[:3]
        yield Mount(
            device=words[2],
            root=_plain(words[3]),
            point=_plain(words[4]),
            options=f"{words[5]},{options}",
            kind=kind,
            source=_plain(source),
        )


def whole_volume(mounts: str, path: str, root_device: str) -> Mount:
    """Returns the mount at `path`. Raises SharedVolume unless it is a whole file system, and not
    the node's root, whose device is `root_device`. `mounts`: a mountinfo file.
    """
    at_path = [mount for mount in parse(mounts) if mount.point == path]
    if not at_path:
        raise SharedVolume(
            f"nothing is mounted at {path}: it belongs to the container's own file system"
        )
    found = at_path[-1]
    if found.root != "/":
        raise SharedVolume(
            f"{path} is the folder {found.root} of a shared file system: the fault would harm "
            "everything on it. Give the pod a volume with its own file system (docs/faults.md)"
        )
    if found.device == root_device:
        raise SharedVolume(f"{path} is the node's root file system: it is never harmed")
    return found


def root_device(mounts: str) -> str:
    """Returns the device of the root of a mountinfo file; empty if it has none."""
    return next((mount.device for mount in parse(mounts) if mount.point == "/"), "")


def _plain(word: str) -> str:
    """Returns a word without the kernel's octal escapes of blanks and backslashes."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), word)
