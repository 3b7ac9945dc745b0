"""Plans how a file system that lost its power is mounted again. Pure.

    dead, mounted ─► kill what has it open ─► unmount everywhere ─► mount ─► mount what lay beside

The kernel keeps a file system as long as one mount of it is left, in any mount namespace: the
node's own, the kubelet's for the pod, and the containers'. Only once all are gone does another
mount read the disk, and not what the memory still has. Containers that start meanwhile are killed,
since they got the dead file system from the kubelet's mount; those that start later get the new
one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zonequake_agent.disk.mounts import Mount

KINDS = ("ext4", "xfs")
"""The file systems that can be shut down without a flush."""

_ONLY_SHOWN = frozenset({"shutdown", "emergency_ro"})
"""Options that the kernel shows and does not take."""

_OF_POD = re.compile(r"/pods/([0-9a-f-]{36})/")
"""Part of the path of a mount that the kubelet makes for a pod."""


class Unsuited(Exception):
    """Raised when a volume can't lose its power alone; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoint:
    """A mount point of the node: in this mount namespace, at this path."""

    namespace: int
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A pod's volume and all that is needed to mount it again. `source` is its device; or with
    `loop` the file behind its loop device, which goes with the last mount.
    """

    source: str
    device: str
    loop: bool
    kind: str
    options: str
    points: list[NodePoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSight:
    """The present state of a volume. `dead`: it was shut down; `device`: its device, None while it
    is mounted nowhere; `mounted`: its mounts on the node, in the order of their making; `folders`:
    those of its points whose folder is there; `holders`: the pod's processes that have it mounted.
    """

    dead: bool
    device: str | None
    mounted: tuple[NodePoint, ...]
    folders: frozenset[NodePoint]
    holders: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KillHolder:
    """Sends SIGKILL to a process of the pod."""

    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmount:
    """Unmounts what is mounted at the point."""

    point: NodePoint


@dataclass(frozen=True, slots=True, kw_only=True)
class MountVolume:
    """Mounts the source at the point; with `loop` it is a file, which needs a loop device."""

    point: NodePoint
    source: str
    loop: bool


PowerStep = KillHolder | Unmount | MountVolume


def volume_of(
    mount: Mount, *, uid: str, node: Mapping[int, Sequence[Mount]], file: str | None
) -> Volume:
    """Returns the volume of the pod `uid` whose container has it by `mount`.

    `node`: mounts of the same device by the namespaces outside of pods; `file`: the one behind its
    loop device, if that goes with the last mount. Raises Unsuited.
    """
    if mount.kind not in KINDS:
        raise Unsuited(
            f"{mount.point} is of type {mount.kind}, which can't be shut down without a flush: "
            f"expected {' or '.join(KINDS)}, on a device or file of its own (docs/faults.md)"
        )
    outside = [(number, each) for number, mounts in node.items() for each in mounts]
    if not outside:
        raise Unsuited(
            f"{mount.source} of {mount.point} is mounted in no namespace of the node itself, so "
            "it can't be mounted again: expected a mount by the kubelet (docs/faults.md)"
        )
    for _, each in outside:
        if each.root != "/":
            raise Unsuited(
                f"{each.point} has the folder {each.root} of the same file system: expected only "
                "mounts of the whole, as of a volume without subPath (docs/faults.md)"
            )
    others = sorted({pod for _, each in outside for pod in _OF_POD.findall(each.point)} - {uid})
    if others:
        raise Unsuited(
            f"{mount.source} of {mount.point} is also a volume of the pod with UID {others[0]}, "
            "which would lose its writes, too: expected a volume of one pod (docs/faults.md)"
        )
    first = outside[0][1]
    return Volume(
        source=file or first.source,
        device=mount.device,
        loop=file is not None,
        kind=mount.kind,
        options=_options(first.options),
        points=[NodePoint(namespace=number, path=each.point) for number, each in outside],
    )


def volume_from(told: Mapping[str, Any]) -> Volume:
    """Returns the volume that was told as JSON."""
    return Volume(**{**told, "points": [NodePoint(**point) for point in told["points"]]})


def is_of(uid: str, mount: Mount) -> bool:
    """Returns whether the kubelet made this mount, of a whole file system, for the pod."""
    suited = mount.kind in KINDS and mount.root == "/"
    return suited and uid in _OF_POD.findall(mount.point)


def next_steps(volume: Volume, seen: VolumeSight) -> list[PowerStep]:
    """Returns the next steps until the volume is mounted at each of its points; none if it is.

    After them the state must be looked at again: a container may have started, and a mount may be
    in use for a moment. A point whose folder is gone was given up by the kubelet.
    """
    if seen.dead:
        return [
            *(KillHolder(pid=pid) for pid in seen.holders),
            *(Unmount(point=point) for point in reversed(seen.mounted)),
        ]
    missing = [p for p in volume.points if p in seen.folders and p not in seen.mounted]
    if seen.device is not None:  # another mount of a device shares its file system
        return [MountVolume(point=point, source=seen.device, loop=False) for point in missing]
    return [MountVolume(point=p, source=volume.source, loop=volume.loop) for p in missing[:1]]


def _options(shown: str) -> str:
    return ",".join(word for word in dict.fromkeys(shown.split(",")) if word not in _ONLY_SHOWN)
