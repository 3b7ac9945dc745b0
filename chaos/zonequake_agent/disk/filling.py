"""Fills a pod's volume, so that the kernel answers its writes with ENOSPC.

Only for a volume with its own file system: filling a shared one would also fill the node's root or
other volumes.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from zonequake_agent import pods
from zonequake_agent.disk.mounts import root_device, whole_volume

FILE_NAME = ".zonequake-fill"
_LARGEST_PIECE = 64 << 20
_BLOCK = 4096
_WRITE = os.O_WRONLY | os.O_NOFOLLOW
"""The pod may have put a link in the file's place, and a link leads out of the pod: its absolute
path counts from this program's root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeState:
    """The state of a volume: the bytes in the fill file, the free bytes, and whether the write of
    one more block failed with ENOSPC.
    """

    file_bytes: int
    free_bytes: int
    refuses: bool


def fill(uid: str, path: str) -> VolumeState:
    """Fills the volume that the pod has at `path`.

    Raises PodAbsent, SharedVolume, OSError.
    """
    pid = pods.workers(uid)[0]
    _check(pid, path)
    handle = os.open(_file(pid, path), _WRITE | os.O_CREAT, 0o600)
    try:
        size, piece = os.fstat(handle).st_size, _LARGEST_PIECE
        while piece >= _BLOCK:
            try:
                os.posix_fallocate(handle, size, piece)
                size += piece
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                piece //= 2
    finally:
        os.close(handle)
    return look(uid, path)


def look(uid: str, path: str) -> VolumeState:
    """Returns the state of the volume; tries to write one more block after the fill file, if there
    is one.

    Raises PodAbsent, OSError.
    """
    pid = pods.workers(uid)[0]
    found = os.statvfs(_volume(pid, path))
    free_bytes = found.f_bavail * found.f_frsize
    try:
        handle = os.open(_file(pid, path), _WRITE)
    except FileNotFoundError:
        return VolumeState(file_bytes=0, free_bytes=free_bytes, refuses=False)
    try:
        size = os.fstat(handle).st_size
        return VolumeState(file_bytes=size, free_bytes=free_bytes, refuses=_refuses(handle, size))
    finally:
        os.close(handle)


def empty(uid: str, path: str) -> VolumeState:
    """Deletes the fill file, if it exists. Raises PodAbsent, OSError."""
    _file(pods.workers(uid)[0], path).unlink(missing_ok=True)
    return look(uid, path)


def left(uid: str) -> list[str]:
    """Returns the paths of the fill files in the pod's containers. Raises OSError."""
    return sorted({path for _, path in _files(uid)})


def remove(uid: str) -> None:
    """Deletes every fill file in the pod's containers. Raises OSError."""
    for pid, path in _files(uid):
        _file(pid, path).unlink(missing_ok=True)


def _refuses(handle: int, size: int) -> bool:
    try:
        os.pwrite(handle, bytes(_BLOCK), size)
        os.fsync(handle)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return True
        raise
    os.ftruncate(handle, size)
    return False


def _check(pid: int, path: str) -> None:
    of_node = (pods.PROC / "1" / "mountinfo").read_text()
    whole_volume((pods.PROC / str(pid) / "mountinfo").read_text(), path, root_device(of_node))


def _files(uid: str) -> list[tuple[int, str]]:
    """Returns process and path of each mount in the pod that holds a fill file."""
    found = []
    for process in pods.processes(uid):
        try:
            mounts = (pods.PROC / str(process.pid) / "mountinfo").read_text().splitlines()
            paths = {line.split()[4] for line in mounts}
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended, and so have its mounts
        found += [(process.pid, path) for path in paths if _is_there(_file(process.pid, path))]
    return found


def _is_there(file: Path) -> bool:
    try:
        file.lstat()
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
        return False
    except PermissionError:
        return False  # a file system that denies root access: no file was made there, either
    return True


def _volume(pid: int, path: str) -> Path:
    return pods.PROC / str(pid) / "root" / path.lstrip("/")


def _file(pid: int, path: str) -> Path:
    return _volume(pid, path) / FILE_NAME
