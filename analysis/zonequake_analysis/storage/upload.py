"""Uploads a run's folder into a store, where no rename is atomic.

    mark ── the folder is filled, on this machine ── every file ── run.yaml ── the mark is deleted
                  └── files are sent meanwhile (streaming.py) ──┘

`run.yaml` comes last: a run is complete in the store when it is there. No file is ever in memory as
a whole.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from zonequake_analysis.errors import LocationError, LocationTaken
from zonequake_analysis.judgement.verdict_json import VERDICT_FILE, read_facts
from zonequake_analysis.storage.location import Location
from zonequake_analysis.storage.streaming import AT_ONCE, FileState, unchanged
from zonequake_analysis.storage.upload_mark import MARK_FILE, UploadMark, read_mark, write_mark

_LAST = (VERDICT_FILE, "run.yaml")
"""In this order: a verdict stands only beside all that it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    """The result of an upload: all that the store has, and what of it was `sent` before."""

    files: int
    size_bytes: int
    sent: int
    sent_bytes: int


def put_mark(store: Location, mark: UploadMark) -> None:
    """Marks the location as that of this run, which also shows that it can be written to.

    Raises LocationTaken if it holds anything else, RunFolderError, LocationError.
    """
    store.check_reachable()
    _check_free(store, mark)
    write_mark(store, mark)


def give_up(store: Location, sent: Iterable[str] = ()) -> None:
    """Deletes what was `sent` of a run that is not to come, then its mark, if the store lets it."""
    with suppress(LocationError):
        for name in (*sent, MARK_FILE):
            (store / name).delete()


def upload(
    folder: Path, store: Location, mark: UploadMark, sent: Mapping[str, FileState] | None = None
) -> Uploaded:
    """Uploads all plain files of the folder; marks the location again, first.

    `sent`: files that the store has already, which are left out if they haven't changed.
    Repeatable. Raises LocationTaken if the location holds something else, RunFolderError, OSError,
    LocationError: then `run.yaml` isn't there.
    """
    put_mark(store, mark)
    there = unchanged(folder, store, sent or {})
    files = [name for name in _files(folder) if name not in _LAST and name not in there]
    last = [name for name in _LAST if (folder / name).is_file()]
    with ThreadPoolExecutor(AT_ONCE, "upload") as pool:
        try:
            sizes = list(pool.map(lambda name: _upload_one(folder, store, name), files))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    sizes += [_upload_one(folder, store, name) for name in last]
    (store / MARK_FILE).delete()
    before = [(folder / name).stat().st_size for name in there]
    return Uploaded(
        files=len(sizes) + len(before),
        size_bytes=sum(sizes) + sum(before),
        sent=len(before),
        sent_bytes=sum(before),
    )


@contextmanager
def uploaded_at_the_end(store: Location, mark: UploadMark) -> Iterator[Path]:
    """Yields a path of this machine; the folder that is made there is in the store afterwards.

    An error deletes the mark and what was uploaded, unless the location is another run's by
    then. Raises what `upload` raises.
    """
    put_mark(store, mark)
    sent: list[str] = []
    try:
        with tempfile.TemporaryDirectory(prefix="zonequake-") as made:
            folder = Path(made) / "run"
            yield folder
            sent = sorted(_files(folder), key=lambda name: name not in _LAST)
            upload(folder, store, mark)
    except LocationTaken:
        raise
    except BaseException:
        give_up(store, sent)
        raise


def _upload_one(folder: Path, store: Location, name: str) -> int:
    (store / name).copy_from(folder / name)
    return (folder / name).stat().st_size


def _files(folder: Path) -> list[str]:
    """Returns the plain files below a folder, by name."""
    found = (file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    return sorted(file.relative_to(folder).as_posix() for file in found)


def _check_free(store: Location, mark: UploadMark) -> None:
    """Raises LocationTaken if the location holds anything but this run."""
    facts = read_facts(store)
    if facts is not None:
        if facts.run != mark.run:
            raise LocationTaken(
                f"{store} holds the run {facts.run}, expected a prefix without one: name another"
            )
        return
    found = read_mark(store)
    if found is not None:
        if found.run != mark.run:
            raise LocationTaken(
                f"{store} is kept for the run {found.run}, whose record is in {found.folder} on "
                f"{found.host}: {found.remedy}; or name another location"
            )
        return
    if others := [*store.listed(), *store.folders()]:
        raise LocationTaken(
            f"{store} holds {others[0].name}, expected nothing there: name another location"
        )
