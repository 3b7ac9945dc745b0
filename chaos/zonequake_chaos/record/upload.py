"""Brings a run's record from its spool, a folder of this machine, into a store.

The location is marked before the run begins, files go there while it goes on, and the rest when it
has ended. If the store refuses meanwhile, the record is in the spool, for `zonequake upload`.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zonequake_analysis.errors import AnalysisError, LocationTaken
from zonequake_analysis.storage.location import Location
from zonequake_analysis.storage.streaming import streamed
from zonequake_analysis.storage.upload import Uploaded, give_up, put_mark, upload
from zonequake_analysis.storage.upload_mark import UploadMark
from zonequake_chaos.record.cleanup_journal import FILE_NAME as JOURNAL
from zonequake_chaos.record.run_folder import RECORDED, RunFolder
from zonequake_kube.errors import HarnessError, UsageError


def mark_for(folder: RunFolder, store: Location) -> None:
    """Marks the location as that of this run, which also shows that it can be written to.

    Raises UsageError if it holds anything else, HarnessError if the store refuses.
    """
    with _in_our_errors(store):
        put_mark(store, _mark(folder))


@contextmanager
def sent_to(folder: RunFolder, store: Location, say: Callable[[str], None]) -> Iterator[None]:
    """Marks the location for a run of the fresh folder, which is deleted if that fails, and sends
    its files there while the run goes on. `say` is told when the store takes nothing.

    A run that an error ends gives up the location, and is in the folder alone. Raises UsageError,
    HarnessError.
    """
    try:
        mark_for(folder, store)
    except BaseException:
        delete_spool(folder)
        raise
    try:
        with streamed(folder.path, store, (JOURNAL, *RECORDED), sent=folder.sent, say=say):
            yield
    except BaseException:
        give_up(store, folder.sent)
        raise


def upload_run(folder: RunFolder, store: Location) -> Uploaded:
    """Uploads the record and all that was derived from it; marks the location again, first.

    Repeatable. Raises UsageError if the location holds something else, HarnessError if the store
    refuses: then `run.yaml` isn't there.
    """
    with _in_our_errors(store):
        return upload(folder.path, store, _mark(folder), folder.sent)


def delete_spool(folder: RunFolder) -> None:
    """Deletes the folder, whose content the store has."""
    shutil.rmtree(folder.path)


def _mark(folder: RunFolder) -> UploadMark:
    path = str(folder.path.resolve())
    return UploadMark(
        run=folder.run_id(),
        host=socket.gethostname(),
        folder=path,
        command=f"zonequake upload {path}",
    )


@contextmanager
def _in_our_errors(store: Location) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise UsageError(
            f"{store} can't be opened ({error}): pip install 'zonequake[analysis]'"
        ) from error
    except LocationTaken as error:
        raise UsageError(str(error)) from error
    except (AnalysisError, OSError) as error:
        raise HarnessError(str(error)) from error
