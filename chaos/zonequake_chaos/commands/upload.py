"""`zonequake upload RUN`, and the same at the end of `zonequake run --out s3://…`."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console

from zonequake_analysis.errors import LocationError
from zonequake_analysis.storage.location import Location
from zonequake_analysis.storage.upload import Uploaded
from zonequake_chaos.record.run_folder import RunFolder
from zonequake_chaos.record.upload import delete_spool, upload_run
from zonequake_kube.errors import HarnessError, UsageError


def chosen_location(
    given: str | None, option: str = "--out"
) -> tuple[Path | None, Location | None]:
    """Returns what the option names: a folder of this machine, or a location in a store. Raises
    UsageError."""
    if given is None:
        return None, None
    try:
        location = Location.of(given)
    except LocationError as error:
        raise UsageError(f"{option}: {error}") from error
    return (location.local, None) if location.local is not None else (None, location)


def upload_folder(folder: RunFolder, to: str | None, console: Console) -> Location:
    """Uploads a run of this machine to `to`, or to where its `zonequake run` was to bring it.

    The folder stays. Raises UsageError, HarnessError.
    """
    given = to or folder.store()
    if not given:
        raise UsageError(
            f"{folder.path}: its run was not to go into a store; name a location: "
            f"zonequake upload {folder.path} --to s3://bucket/prefix"
        )
    _, store = chosen_location(given, "--to")
    if store is None:
        raise UsageError(f"--to {given}: expected a store, such as s3://bucket/prefix")
    with folder.held(wait_s=0):
        _told(folder, store, console)
    console.print(f"next: zonequake analyze {store}", markup=False)
    return store


def move_to_store(folder: RunFolder, store: Location, console: Console, *, clean: bool) -> str:
    """Uploads a run that has ended. Returns why it could not, empty if it is in the store.

    The spool is deleted then, unless it holds what `zonequake clean` needs. An interrupted upload
    says where the record is, too.
    """
    try:
        with folder.held(wait_s=0):
            _told(folder, store, console)
            if clean:
                delete_spool(folder)
    except (UsageError, HarnessError) as error:
        why = f"not uploaded: {error}; {_where(folder, store)}"
        console.print(why, style="red", markup=False)
        return why
    except BaseException:
        console.print(f"not uploaded: {_where(folder, store)}", style="red", markup=False)
        raise
    return ""


def _told(folder: RunFolder, store: Location, console: Console) -> Uploaded:
    console.print(f"Uploading to {store} …", markup=False)
    started_s = time.monotonic()
    uploaded = upload_run(folder, store)
    before = ""
    if uploaded.sent:
        before = f"; {uploaded.sent}, {uploaded.sent_bytes / 1e6:,.1f} MB, while the run went on"
    console.print(
        f"Uploaded: {uploaded.files} files, {uploaded.size_bytes / 1e6:,.1f} MB "
        f"({time.monotonic() - started_s:.1f} s{before})"
    )
    return uploaded


def _where(folder: RunFolder, store: Location) -> str:
    return (
        f"the run's record is whole in {folder.path}; bring it to {store} with: zonequake upload "
        f"{folder.path}"
    )
