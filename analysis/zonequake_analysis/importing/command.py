"""`zonequake import --from jepsen|porcupine FILE`: another tool's history as a run folder."""

from __future__ import annotations

import shlex
import socket
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO

import typer
from typer.exceptions import TyperException

from zonequake_analysis.command_errors import told_errors
from zonequake_analysis.errors import AnalysisError, ImportRefused, LocationError
from zonequake_analysis.importing import jepsen, porcupine
from zonequake_analysis.importing.edn import EdnEntry, entries
from zonequake_analysis.importing.json_lines import json_lines
from zonequake_analysis.importing.log_lines import without_prefix
from zonequake_analysis.importing.operations import Choices, ForeignOperation, Notes
from zonequake_analysis.importing.run_files import Written, write_run
from zonequake_analysis.importing.translation import OperationLines, pairs
from zonequake_analysis.importing.values import Values
from zonequake_analysis.run_argument import path_or_uri
from zonequake_analysis.storage.location import Location
from zonequake_analysis.storage.upload_mark import UploadMark
from zonequake_analysis.text.strange_bytes import strange_bytes, without_mark

app = typer.Typer(help="Import histories of other tools.", add_completion=False)


class Source(StrEnum):
    """The tool that wrote a history."""

    JEPSEN = "jepsen"
    PORCUPINE = "porcupine"


def import_history(
    source: Source, files: Sequence[Path], out: Path | Location, choices: Choices
) -> tuple[Written, Notes]:
    """Writes the history of `files` as the run `out`, and returns what is in it.

    Raises ImportRefused for what can't be read or judged, RunFolderError where `out` can't be
    written, or holds something else.
    """
    location = Location.of(out)
    if (folder := location.local) is not None:
        return _into(folder, source, files, choices)
    from zonequake_analysis.storage.upload import uploaded_at_the_end

    with uploaded_at_the_end(location, mark_of(source, files, location)) as spool:
        return _into(spool, source, files, choices)


def mark_of(source: Source, files: Sequence[Path], location: Location) -> UploadMark:
    """Returns the mark of a location while an import goes there."""
    given = [str(file.resolve()) for file in files]
    words = ["zonequake", "import", "--from", source.value, *given, "--out", str(location)]
    return UploadMark(
        run=f"{source.value} {' '.join(given)}",
        host=socket.gethostname(),
        folder=given[0],
        command=shlex.join(words),
    )


def _into(
    out: Path, source: Source, files: Sequence[Path], choices: Choices
) -> tuple[Written, Notes]:
    notes, values = Notes(), Values()
    found = pairs(
        _operations(source, files, choices, notes), choices=choices, notes=notes, values=values
    )
    written = write_run(
        out,
        _at_least_one(found, files[0], notes),
        source={"from": source.value, "files": [file.name for file in files]},
        notes=notes,
        values=values,
        began_ns=choices.began_ns,
    )
    return written, notes


def _at_least_one(
    found: Iterable[OperationLines], file: Path, notes: Notes
) -> Iterator[OperationLines]:
    """Yields the same, and raises ImportRefused if there is none."""
    is_empty = True
    for one in found:
        is_empty = False
        yield one
    if is_empty:
        left_out = "".join(
            f"; left out: {count:,} {what}" for what, count in notes.left_out.items()
        )
        raise ImportRefused(
            str(file),
            1,
            "",
            f"found no operation to judge{left_out}; was the file copied as a whole, and is it of "
            "the tool that --from names?",
        )


def _operations(
    source: Source, files: Sequence[Path], choices: Choices, notes: Notes
) -> Iterator[ForeignOperation]:
    if source is Source.PORCUPINE:
        return porcupine.operations(json_lines(files), choices=choices, notes=notes)
    (file,) = files
    return jepsen.operations(_entries(file), file=str(file), choices=choices, notes=notes)


def _entries(file: Path) -> Iterator[EdnEntry]:
    with file.open("rb") as stream:
        yield from entries(without_prefix(_decoded(file, stream)), file=str(file))


def _decoded(file: Path, stream: BinaryIO) -> Iterator[str]:
    for number, line in enumerate(stream, 1):
        if (strange := strange_bytes(line)) is not None:
            raise ImportRefused(str(file), number, "", strange[1])
        yield (without_mark(line) if number == 1 else line).decode()


@app.command("import", epilog="Example: zonequake import --from jepsen store/latest/history.edn")
def import_command(
    files: Annotated[
        list[Path],
        typer.Argument(
            exists=True,
            dir_okay=False,
            metavar="FILE",
            help="File to read; of porcupine several, if clients wrote one each.",
        ),
    ],
    source: Annotated[Source, typer.Option("--from", help="Tool that wrote the file.")],
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            callback=path_or_uri,
            help="Run folder to write, or its URI, as s3://bucket/x. Default: runs/<file's name>.",
        ),
    ] = None,
    initial: Annotated[
        str | None,
        typer.Option(
            help="Value of every register at first, as the file writes it. Default: none."
        ),
    ] = None,
    split_transactions: Annotated[
        bool,
        typer.Option(
            "--split-transactions",
            help="Judge each operation of a transaction alone, though not that they are atomic.",
        ),
    ] = False,
    leave_out_keys: Annotated[
        bool,
        typer.Option(
            "--leave-out-keys",
            help="Of porcupine: leave out keys that can't be judged, as those with deletes.",
        ),
    ] = False,
    began: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time of day at which the file's times are 0, as 2026-11-28T15:00:00Z, for "
            "metrics beside it. Default: they are unix time, or say no time of day.",
        ),
    ] = None,
) -> None:
    """Import another tool's history as a run folder, for `zonequake analyze` to judge."""
    if source is Source.JEPSEN and len(files) > 1:
        raise TyperException(
            f"found {len(files)} files; a Jepsen history is one file: import each by itself"
        )
    for file, times in Counter(file.resolve() for file in files).items():
        if times > 1:
            raise TyperException(f"found {file} {times} times; name each file once")
    location = Location.of(out or Path("runs") / files[0].stem)
    choices = Choices(
        split=split_transactions,
        leave_out=leave_out_keys,
        initial=_initial(initial),
        began_ns=_began_ns(began),
    )
    with told_errors("import"):
        try:
            written, notes = import_history(source, files, location, choices)
        except LocationError:
            raise
        except AnalysisError as error:
            raise TyperException(str(error)) from error
    _say(f"{location}: {written.operations:,} operations on {written.keys:,} keys")
    for what, count in notes.left_out.items():
        _say(f"left out: {count:,} {what}")
    for what, count in notes.said.items():
        _say(f"{count:,} {what}")
    if written.read_finally < written.keys:
        _say(
            f"{written.keys - written.read_finally:,} keys have no read after their last write, "
            "so that a loss there can't be seen: read each key once more at the end of a test"
        )
    _say(f"next: zonequake analyze {location}")


def _initial(text: str | None) -> object:
    if text is None:
        return None
    try:
        found = [entry.value for entry in entries([f"{{:initial {text}\n}}"], file="--initial")]
    except ImportRefused:
        found = []
    (given,) = found if len(found) == 1 else ({},)
    value = given.get(":initial") if isinstance(given, dict) and len(given) == 1 else None
    if value is None or isinstance(value, list | dict):
        raise TyperException(f"--initial {text}: expected one scalar, such as 0")
    return value


def _began_ns(text: str | None) -> int:
    """Returns a time of day in unix ns, 0 for none; refuses one without its zone."""
    if text is None:
        return 0
    try:
        began = datetime.fromisoformat(text)
    except ValueError:
        began = datetime.min
    if began.tzinfo is None:
        raise TyperException(
            f"--began {text}: expected a time of day with its zone, such as 2026-11-28T15:00:00Z"
        )
    return (began - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1) * 1000


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201
