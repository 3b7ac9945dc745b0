"""Opening LMDB environments: their files are checked before they are mapped.

LMDB trusts its file. One cut short ends the process with SIGBUS at the first page beyond its end,
and a page that is no page may end it with SIGSEGV, at each start again. Therefore a file that is
shorter than its newest commit says is walked by plain reads first (`lmdb_pages`), and so are all
files if the last process here died by such a signal (`zonequake_store.storage.crash_note`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lmdb

from zonequake_store.errors import StorageError, StorageFailed, StorageFull, StoreCorrupt
from zonequake_store.storage.lmdb_pages import is_cut_short, walk

UNREADABLE = (
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.VersionMismatchError,
)
"""Exceptions of reading a damaged environment."""

_FILE_NAME = "data.mdb"

# LMDB reports a write of which the disk took only a part as an input/output error.
_FULL_DISK_BYTES = 1 << 20


def open_environment(path: Path, *, map_bytes: int, sync: bool, databases: int) -> lmdb.Environment:
    """Open an environment, created if there is none.

    Raises StoreCorrupt if its file is damaged, StorageError if it cannot be opened.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        if is_cut_short(path / _FILE_NAME):
            walk(path / _FILE_NAME)
        return lmdb.open(
            str(path),
            map_size=map_bytes,
            max_dbs=databases,
            sync=sync,
            metasync=sync,
            writemap=False,
            # One slot per reading thread, and one per snapshot that is being sent.
            max_readers=1024,
            readahead=False,
        )
    except StoreCorrupt as error:
        raise StoreCorrupt(f"the environment {path} is damaged ({error})") from error
    except UNREADABLE as error:
        raise StoreCorrupt(f"the environment {path} does not open ({error})") from error
    except (lmdb.Error, OSError) as error:
        raise StorageError(
            f"the environment {path} does not open ({error}); check the volume, its owner and its "
            "free space"
        ) from error


def check_pages(path: Path) -> None:
    """Look at every page of an environment's newest commit. Raises StoreCorrupt."""
    try:
        walk(path / _FILE_NAME)
    except (StoreCorrupt, OSError) as error:
        raise StoreCorrupt(f"the environment {path} is damaged ({error})") from error


def renew(path: Path) -> None:
    """Writes an environment's newest commit into a new file, in place of the old.

    After a failed sync the kernel may show pages, and call them clean, that the disk never got;
    later commits would leave them as they are. In the new file every page is written again. Raises
    StoreCorrupt if it cannot be read, StorageError if there is no room.
    """
    check_pages(path)
    fresh = path.with_name(f"{path.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        fresh.mkdir()
        with lmdb.open(str(path), readonly=True, lock=False) as environment:
            environment.copy(str(fresh), compact=True)
        sync_file(fresh / _FILE_NAME)
        (fresh / _FILE_NAME).replace(path / _FILE_NAME)
        sync_file(path)
        shutil.rmtree(fresh)
    except UNREADABLE as error:
        raise StoreCorrupt(f"the environment {path} cannot be read ({error})") from error
    except (lmdb.Error, OSError) as error:
        raise StorageError(
            f"the environment {path} cannot be written again ({error}), as it must be because a "
            "commit in it failed; look at the disk and its free space"
        ) from error


def sync_file(path: Path) -> None:
    """Syncs a file or a folder to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def used_bytes(environment: lmdb.Environment) -> int:
    """Bytes of the map that have ever been used."""
    page_bytes: int = environment.stat()["psize"]
    last: int = environment.info()["last_pgno"]
    return (last + 1) * page_bytes


def live_bytes(environment: lmdb.Environment, databases: list[Any]) -> int:
    """Bytes of the pages that hold something now; the rest of the map is free or never used."""
    try:
        with environment.begin() as txn:
            stats = [txn.stat(), *(txn.stat(database) for database in databases)]
    except lmdb.PanicError:
        return 0  # a commit failed, and the call that waits for it reports that
    pages = sum(s["branch_pages"] + s["leaf_pages"] + s["overflow_pages"] for s in stats)
    return int(pages * stats[0]["psize"])


@contextlib.contextmanager
def writing(
    environment: lmdb.Environment,
    path: Path,
    *,
    variable: str,
    touch: Callable[[lmdb.Transaction], object],
) -> Iterator[lmdb.Transaction]:
    """Opens a transaction that is committed at the end. `touch` writes next to nothing.

    Raises StorageFull if the map or the disk takes no more: LMDB has dropped the whole transaction
    then, and a later one writes every page of its own again, so that none is needed that this one
    may have lost. Raises StorageFailed for all else, a failed sync above all: LMDB would go on by
    itself, but whether the last commit is on the disk is unknown.
    """
    try:
        with environment.begin(write=True) as txn:
            yield txn
    except lmdb.MapFullError as error:
        _age(environment, touch)
        raise StorageFull(
            path.name, f"the map of {path} is full; set {variable} higher and start the node again"
        ) from error
    except lmdb.Error as error:
        if _is_full(error, path) and not _has_panicked(environment):
            raise StorageFull(
                path.name, f"the disk of {path} is full ({error}); free space on it"
            ) from error
        raise StorageFailed(
            path.name,
            f"a commit in {path} failed ({error}); look at the disk, then start the node again: "
            "its replicas there come back from their peers",
        ) from error


def _age(environment: lmdb.Environment, touch: Callable[[lmdb.Transaction], object]) -> None:
    """Makes freed pages usable: LMDB reuses them two commits later, and there is no commit while
    each transaction fails.
    """
    with contextlib.suppress(lmdb.MapFullError):
        for _ in range(2):
            with environment.begin(write=True) as txn:
                touch(txn)


def _has_panicked(environment: lmdb.Environment) -> bool:
    """Returns whether LMDB lost its meta pages: which commit counts is unknown then."""
    try:
        with environment.begin():
            return False
    except lmdb.PanicError:
        return True


def _is_full(error: lmdb.Error, path: Path) -> bool:
    text = str(error)
    if isinstance(error, lmdb.DiskError) or os.strerror(errno.EDQUOT) in text:
        return True
    return os.strerror(errno.EIO) in text and free_bytes(path) < _FULL_DISK_BYTES


def free_bytes(path: Path) -> int:
    """Bytes that the file system of a path has left for us."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize
