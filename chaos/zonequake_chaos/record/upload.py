"""Uploads a run's record from its spool, a folder of this machine, into a store.

    claim ── the run writes into the spool ── every file ── run.yaml ── the claim is deleted
                └── the store refuses: the record stays in the spool, for `zonequake upload`

A store renames nothing as a whole, so `run.yaml` comes last: a run is complete in the store when it
is there. No file is ever in memory as a whole.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from zonequake_analysis.errors import AnalysisError, PlaceError
from zonequake_analysis.judgement.verdict_json import VERDICT_FILE, read_facts
from zonequake_analysis.storage.place import Place
from zonequake_analysis.storage.upload_mark import MARK_FILE, UploadMark, read_mark, write_mark
from zonequake_chaos.record.run_folder import RunFolder
from zonequake_kube.errors import HarnessError, UsageError

_AT_ONCE = 4
"""Files that are uploaded at the same time: a run has many small ones."""

_LAST = (VERDICT_FILE, "run.yaml")
"""In this order: a verdict stands only beside all that it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    """The result of an upload."""

    files: int
    size_bytes: int


def claim(store: Place, folder: RunFolder) -> None:
    """Marks the place as that of this run, which also shows that it can be written to.

    Raises UsageError if it holds anything else, HarnessError if the store refuses.
    """
    _check_can_be_opened(store)
    mark = UploadMark(
        run=folder.run_id(), host=socket.gethostname(), folder=str(folder.path.resolve())
    )
    try:
        store.check_reachable()
        _check_free(store, mark)
        write_mark(store, mark)
    except AnalysisError as error:
        raise HarnessError(str(error)) from error


@contextmanager
def claimed_for(folder: RunFolder, store: Place) -> Iterator[None]:
    """Claims the place for a run of the fresh folder, which is deleted if that fails.

    A run that an error ends gives up the claim. Raises UsageError, HarnessError.
    """
    try:
        claim(store, folder)
    except BaseException:
        delete_spool(folder)
        raise
    try:
        yield
    except BaseException:
        with suppress(PlaceError):
            (store / MARK_FILE).delete()
        raise


def upload(folder: RunFolder, store: Place) -> Uploaded:
    """Uploads the record and all that was derived from it; claims the place again, first.

    Repeatable. Raises UsageError if the place holds something else, HarnessError if the store
    refuses: then `run.yaml` isn't there.
    """
    claim(store, folder)
    files = [name for name in _files(folder.path) if name not in _LAST]
    last = [name for name in _LAST if (folder.path / name).is_file()]
    try:
        with ThreadPoolExecutor(_AT_ONCE, "upload") as pool:
            try:
                sizes = list(pool.map(lambda name: _upload_one(folder, store, name), files))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        sizes += [_upload_one(folder, store, name) for name in last]
        (store / MARK_FILE).delete()
    except (PlaceError, OSError) as error:
        raise HarnessError(str(error)) from error
    return Uploaded(files=len(sizes), size_bytes=sum(sizes))


def delete_spool(folder: RunFolder) -> None:
    """Deletes the folder, whose content the store has."""
    shutil.rmtree(folder.path)


def _upload_one(folder: RunFolder, store: Place, name: str) -> int:
    (store / name).copy_from(folder.path / name)
    return (folder.path / name).stat().st_size


def _files(folder: Path) -> list[str]:
    """Returns the plain files below a folder, by name."""
    found = (file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    return sorted(file.relative_to(folder).as_posix() for file in found)


def _check_free(store: Place, mark: UploadMark) -> None:
    """Raises UsageError if the place holds anything but this run."""
    facts = read_facts(store)
    if facts is not None:
        if facts.run != mark.run:
            raise UsageError(
                f"{store} holds the run {facts.run}, expected a prefix without one: name another"
            )
        return
    found = read_mark(store)
    if found is not None:
        if found.run != mark.run:
            raise UsageError(
                f"{store} is kept for the run {found.run}, whose record is in {found.folder} on "
                f"{found.host}: {found.remedy}; or name another place"
            )
        return
    if others := [*store.listed(), *store.folders()]:
        raise UsageError(
            f"{store} holds {others[0].name}, expected nothing there: name another place"
        )


def _check_can_be_opened(store: Place) -> None:
    try:
        import pyarrow.fs  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"{store} can't be opened ({error}): pip install 'zonequake[analysis]'"
        ) from error
