"""The mark of a run that is not whole in its store yet, since its record is still elsewhere.

The harness writes it before a run, uploads `run.yaml` last of all files, and deletes the mark. So a
location with a mark and without `run.yaml` is not whole; nothing else could tell it from a folder
of histories alone.
"""

from __future__ import annotations

import msgspec

from zonequake_analysis.errors import NO_JSON, RunFolderError, RunNotWhole
from zonequake_analysis.storage.location import Location

MARK_FILE = ".upload.json"


class UploadMark(msgspec.Struct, frozen=True, kw_only=True):
    """The run that the location was chosen for, where its record is meanwhile, and the `command`
    there that brings it."""

    run: str
    host: str
    folder: str
    command: str

    @property
    def remedy(self) -> str:
        """Returns the command that makes the run whole, in words."""
        return f"`{self.command}` on {self.host} brings it"


def read_mark(run: Location) -> UploadMark | None:
    """Returns the mark of a location, None if it has none. Raises RunFolderError, LocationError."""
    file = run / MARK_FILE
    try:
        return msgspec.json.decode(file.read_bytes(), type=UploadMark)
    except FileNotFoundError:
        return None
    except NO_JSON as error:
        raise RunFolderError(f"{file}: {error}; expected what `zonequake run` writes") from error


def write_mark(run: Location, mark: UploadMark) -> None:
    """Marks a location. Raises LocationError."""
    (run / MARK_FILE).write(msgspec.json.encode(mark))


def check_whole(run: Location) -> None:
    """Raises RunNotWhole if the record of the run has not been uploaded as a whole."""
    if (run / "run.yaml").exists():
        return
    mark = read_mark(run)
    if mark is not None:
        raise RunNotWhole(
            f"{run}: the run {mark.run} is not whole here: either it still goes on, or its record "
            f"is in {mark.folder}, and {mark.remedy}"
        )
