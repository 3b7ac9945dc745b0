"""Opening LMDB environments: their files are checked before they are mapped.

LMDB trusts its file. One cut short ends the process with SIGBUS at the first page beyond its end,
and a page that is no page may end it with SIGSEGV, at each start again. Therefore a file that is
shorter than its newest commit says is walked by plain reads first (`lmdb_pages`), and so are all
files if the last process here died by such a signal (`zonequake_store.last_breath`).
"""

from __future__ import annotations

from pathlib import Path

import lmdb

from zonequake_store.errors import StorageError, StoreCorrupt
from zonequake_store.lmdb_pages import is_cut_short, walk

UNREADABLE = (
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.VersionMismatchError,
)
"""What reading a damaged environment raises."""

_FILE_NAME = "data.mdb"


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


def used_bytes(environment: lmdb.Environment) -> int:
    """Bytes of the map that have ever been used."""
    page_bytes: int = environment.stat()["psize"]
    last: int = environment.info()["last_pgno"]
    return (last + 1) * page_bytes
