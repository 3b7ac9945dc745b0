"""Takes the power from pods' volumes: what was synced stays, and what was not is lost.

    kill the processes ─► shut the file system down without a flush ─► mount it again

The machine runs on: only the file system forgets what the kernel holds for it in memory. Its
shutdown is an ioctl of ext4 and xfs, made for tests of them; `power_plan` says how it is mounted
again. A marker in the volume proves the loss: its first half was synced, its second half was not.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zonequake_agent import pods
from zonequake_agent.disk import mounts
from zonequake_agent.disk.power_plan import (
    KillHolder,
    MountVolume,
    NodePoint,
    PowerStep,
    Unmount,
    Unsuited,
    Volume,
    VolumeSight,
    is_of,
    next_steps,
    volume_of,
)

MARKER = ".zonequake-power"
HALF_BYTES = 4096
_SHUT_DOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN, which are the same."""

_NO_FLUSH = 2
"""Not even the journal is flushed: EXT4_GOING_FLAGS_NOLOGFLUSH, XFS_FSOP_GOING_FLAGS_NOLOGFLUSH."""

_TIMEOUT_S = 40.0
_POLL_S = 0.02
_SAID = 300


class NotMounted(Exception):
    """Raised when a volume could not be mounted again; the text says what holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLoss:
    """The effect of a power loss on a volume: the killed processes, and how many bytes of its
    marker's halves are left.
    """

    killed: list[int]
    synced_bytes: int
    unsynced_bytes: int


def look(uid: str, path: str) -> Volume:
    """Returns the volume that the pod has at `path`. Raises PodAbsent, SharedVolume, Unsuited,
    OSError.
    """
    root = mounts.root_device(_mountinfo(1))
    problem = mounts.SharedVolume(f"no container of the pod has {path}")
    for pid in pods.workers(uid):
        try:
            mount = mounts.whole_volume(_mountinfo(pid), path, root)
        except mounts.SharedVolume as shared:
            problem = shared
            continue
        return _volume(uid, mount, _mounts_of_node(_namespaces()))
    raise problem


def mark(uid: str, path: str) -> None:
    """Writes and syncs the first half of the marker. Raises PodAbsent, SharedVolume, Unsuited,
    OSError.
    """
    volume = look(uid, path)
    folder = _open_folder(_holders(uid, volume)[0], path, volume)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        handle = os.open(MARKER, flags, 0o600, dir_fd=folder)
        try:
            os.write(handle, b"s" * HALF_BYTES)
            os.fsync(handle)
        finally:
            os.close(handle)
        os.fsync(folder)
    finally:
        os.close(folder)


def lose(volumes: Sequence[tuple[str, str]]) -> list[PowerLoss]:
    """Takes the power from all these volumes at the same moment, each a pod's UID and a path, and
    mounts them again.

    Raises PodAbsent, SharedVolume, Unsuited, NotMounted, OSError.
    """
    found = [look(uid, path) for uid, path in volumes]
    held = [_holders(uid, volume) for (uid, _), volume in zip(volumes, found, strict=True)]
    with contextlib.ExitStack() as opened:
        folders = []
        for (_, path), volume, holders in zip(volumes, found, held, strict=True):
            folder = _open_folder(holders[0], path, volume)
            opened.callback(os.close, folder)
            handle = os.open(MARKER, os.O_WRONLY | os.O_NOFOLLOW, dir_fd=folder)
            opened.callback(os.close, handle)
            os.pwrite(handle, b"u" * HALF_BYTES, HALF_BYTES)
            folders.append(folder)
        for holders, folder in zip(held, folders, strict=True):
            _kill(holders)
            fcntl.ioctl(folder, _SHUT_DOWN, struct.pack("I", _NO_FLUSH))
    lost = []
    for (uid, _), volume, killed in zip(volumes, found, held, strict=True):
        restore(uid, volume)
        synced, unsynced = _halves(volume)
        lost.append(PowerLoss(killed=killed, synced_bytes=synced, unsynced_bytes=unsynced))
    return lost


def restore(uid: str, volume: Volume) -> None:
    """Mounts the volume again wherever it is missing or dead; does nothing if it is neither.

    Raises NotMounted, OSError.
    """
    deadline_s = time.monotonic() + _TIMEOUT_S
    said = ""
    while steps := next_steps(volume, seen := _see(uid, volume)):
        if time.monotonic() >= deadline_s:
            places = ", ".join(point.path for point in seen.mounted) or "no place"
            raise NotMounted(
                f"{volume.source} was not mounted again within {_TIMEOUT_S:g} s; it is "
                f"{'shut down' if seen.dead else 'alive'}, mounted at {places}, and used by the "
                f"pod's processes {list(seen.holders)}: {said or 'no step failed'}. End what uses "
                "it on the node, then run `zonequake clean`"
            )
        for step in steps:
            said = _do(step, volume) or said
        time.sleep(_POLL_S)


def forget(volume: Volume) -> None:
    """Deletes the marker, if it is there. Raises OSError."""
    for folder in _folders(volume)[:1]:
        (folder / MARKER).unlink(missing_ok=True)


def left(uid: str) -> list[str]:
    """Returns the pod's volumes that are shut down or have a marker, as sentences."""
    return [
        f"volume {volume.source}, {'shut down' if _is_dead(folder) else 'with a marker'}"
        for volume, folder in _volumes(uid)
        if _is_dead(folder) or (folder / MARKER).exists()
    ]


def heal(uid: str) -> None:
    """Mounts the pod's volumes that are shut down again and deletes markers. Raises NotMounted,
    OSError.
    """
    for volume, _ in list(_volumes(uid)):
        restore(uid, volume)
        forget(volume)


def _volumes(uid: str) -> Iterator[tuple[Volume, Path]]:
    """Yields the volumes that the kubelet mounted for the pod, and a folder that shows each."""
    namespaces = _namespaces()
    node = _mounts_of_node(namespaces)
    for number, found in node.items():
        for mount in found:
            if is_of(uid, mount):
                folder = _path(namespaces, NodePoint(namespace=number, path=mount.point))
                with contextlib.suppress(Unsuited):  # so it never lost its power
                    yield _volume(uid, mount, node), folder


def _volume(uid: str, mount: mounts.Mount, node: Mapping[int, Sequence[mounts.Mount]]) -> Volume:
    same = {n: [each for each in of if each.device == mount.device] for n, of in node.items()}
    return volume_of(mount, uid=uid, node=same, file=_file_behind(mount.device))


def _see(uid: str, volume: Volume) -> VolumeSight:
    namespaces = _namespaces()
    node = list(_mounted(volume, namespaces))
    holders = _holders(uid, volume)
    shown = [_path(namespaces, point) for point, _ in node]
    shown += [path for pid in holders for path in _within(pid, volume)]
    return VolumeSight(
        dead=any(map(_is_dead, shown)),
        device=node[0][1].source if node else None,
        mounted=tuple(point for point, _ in node),
        folders=frozenset(
            point
            for point in volume.points
            if point.namespace in namespaces and _is_folder(_path(namespaces, point))
        ),
        holders=tuple(holders),
    )


def _do(step: PowerStep, volume: Volume) -> str:
    """Executes a step; returns what it said if it failed: the next look decides."""
    match step:
        case KillHolder(pid=pid):
            _kill([pid])
            return ""
        case Unmount(point=point):
            return _in_namespace(point, "umount", point.path)
        case MountVolume(point=point, source=source, loop=loop):
            options = f"{volume.options},loop" if loop else volume.options
            words = ("mount", "-t", volume.kind, "-o", options, source, point.path)
            return _in_namespace(point, *words)


def _in_namespace(point: NodePoint, *words: str) -> str:
    """Runs the node's own program there; returns what it said if it failed."""
    pid = _namespaces()[point.namespace][0]
    # In the PID namespace of its /proc too: mount and umount read /proc/self. A process that made
    # both namespaces by a fork is in the PID namespace before, and only its children in that one.
    of_proc = pods.PROC / str(pid) / "ns" / "pid_for_children"
    enter = ("nsenter", "--target", str(pid), "--mount", f"--pid={of_proc}", "--")
    done = subprocess.run([*enter, *words], capture_output=True, text=True, check=False)
    return f"{' '.join(words)}: {done.stderr.strip()[-_SAID:]}" if done.returncode else ""


def _namespaces() -> dict[int, list[int]]:
    """Returns the processes of each mount namespace, the oldest first: by it the namespace is
    looked at, and a younger one may end meanwhile. One that has ended is in none.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    for folder in pods.PROC.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                number = (folder / "ns" / "mnt").stat().st_ino
                found.setdefault(number, []).append((pods.started(folder), int(folder.name)))
    return {number: [pid for _, pid in sorted(each)] for number, each in found.items()}


def _mounts_of_node(namespaces: Mapping[int, Sequence[int]]) -> dict[int, list[mounts.Mount]]:
    """Returns the mounts of each namespace in which no process of a pod runs."""
    found = {}
    for number, pids in namespaces.items():
        if not any(map(pods.is_of_a_pod, pids)):
            with contextlib.suppress(OSError):
                found[number] = list(mounts.parse(_mountinfo(pids[0])))
    return found


def _mounted(
    volume: Volume, namespaces: Mapping[int, Sequence[int]]
) -> Iterator[tuple[NodePoint, mounts.Mount]]:
    """Yields the volume's mounts on the node: in other namespaces the same path may name the file
    of another node.
    """
    own = {point.namespace for point in volume.points} & set(namespaces)
    for number in sorted(own):
        for mount in mounts.parse(_mountinfo(namespaces[number][0])):
            if _is(volume, mount):
                yield NodePoint(namespace=number, path=mount.point), mount


def _path(namespaces: Mapping[int, Sequence[int]], point: NodePoint) -> Path:
    """Returns the point's folder as this program sees it."""
    return pods.PROC / str(namespaces[point.namespace][0]) / "root" / point.path.lstrip("/")


def _folders(volume: Volume) -> list[Path]:
    """Returns the folders that show the volume on the node."""
    namespaces = _namespaces()
    return [_path(namespaces, point) for point, _ in _mounted(volume, namespaces)]


def _holders(uid: str, volume: Volume) -> list[int]:
    """Returns the pod's processes that have the volume mounted."""
    return [each.pid for each in pods.processes(uid) if any(_within(each.pid, volume))]


def _within(pid: int, volume: Volume) -> Iterator[Path]:
    """Yields the volume's places in the process's own namespace."""
    with contextlib.suppress(OSError):  # it has ended
        for mount in mounts.parse(_mountinfo(pid)):
            if _is(volume, mount):
                yield pods.PROC / str(pid) / "root" / mount.point.lstrip("/")


def _is(volume: Volume, mount: mounts.Mount) -> bool:
    """Returns whether the mount is the volume's. The number of a loop device is nothing to go by:
    it is another one after the next mount.
    """
    if volume.loop:
        return _file_behind(mount.device) == volume.source
    return mount.device == volume.device


def _file_behind(device: str) -> str | None:
    """Returns the file of a loop device that goes with its last mount, else None."""
    loop = Path("/sys/dev/block", device, "loop")
    try:
        if (loop / "autoclear").read_text().strip() == "1":
            return (loop / "backing_file").read_text().rstrip("\n")
    except FileNotFoundError:
        return None
    return None


def _is_dead(folder: Path) -> bool:
    """Returns whether the file system was shut down: it makes no file, not even one without a
    name.
    """
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o600))
    except OSError as error:
        return error.errno == errno.EIO
    return False


def _is_folder(path: Path) -> bool:
    """Returns whether it is one, or the place of an xfs that was shut down, which says only EIO."""
    try:
        return path.is_dir()
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return True


def _halves(volume: Volume) -> tuple[int, int]:
    """Returns the bytes that are left of the marker's halves."""
    (folder, *_) = _folders(volume)
    try:
        handle = os.open(folder / MARKER, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return 0, 0
    try:
        content = os.read(handle, 2 * HALF_BYTES)
    finally:
        os.close(handle)
    return content.count(b"s"), content.count(b"u")


def _open_folder(pid: int, path: str, volume: Volume) -> int:
    """Returns the volume's folder, open. Raises Unsuited where the pod put another one there."""
    place = pods.PROC / str(pid) / "root" / path.lstrip("/")
    folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    device = os.fstat(folder).st_dev
    found = f"{os.major(device)}:{os.minor(device)}"
    if found != volume.device:
        os.close(folder)
        raise Unsuited(f"{path} leads to the device {found}, and not to {volume.device}")
    return folder


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _mountinfo(pid: int) -> str:
    return (pods.PROC / str(pid) / "mountinfo").read_text()
