"""`zonequake import --from jepsen|porcupine FILE`: another tool's history as a run folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO

import typer
from typer.exceptions import TyperException

from zonequake_analysis.errors import AnalysisError, ImportRefused
from zonequake_analysis.importing import jepsen, porcupine
from zonequake_analysis.importing.edn import EdnEntry, entries
from zonequake_analysis.importing.json_lines import json_lines
from zonequake_analysis.importing.log_lines import without_prefix
from zonequake_analysis.importing.operations import Choices, ForeignOperation, Notes
from zonequake_analysis.importing.run_files import Written, write_run
from zonequake_analysis.importing.translation import pairs
from zonequake_analysis.importing.values import Values

app = typer.Typer(help="Import histories of other tools.", add_completion=False)


class Source(StrEnum):
    """The tool that wrote a history."""

    JEPSEN = "jepsen"
    PORCUPINE = "porcupine"


def import_history(
    source: Source, files: Sequence[Path], out: Path, choices: Choices
) -> tuple[Written, Notes]:
    """Writes the history of `files` as the run folder `out`, and returns what is in it.

    Raises ImportRefused for what can't be read or judged, RunFolderError where `out` can't be
    written.
    """
    notes, values = Notes(), Values()
    written = write_run(
        out,
        pairs(
            _operations(source, files, choices, notes), choices=choices, notes=notes, values=values
        ),
        source={"from": source.value, "files": [file.name for file in files]},
        notes=notes,
        values=values,
    )
    return written, notes


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
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            raise ImportRefused(
                str(file), number, "", f"{error}; expected text in UTF-8"
            ) from error


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
        Path | None, typer.Option("--out", help="Run folder to write. Default: runs/<file's name>.")
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
) -> None:
    """Import another tool's history as a run folder, for `zonequake analyze` to judge."""
    if source is Source.JEPSEN and len(files) > 1:
        raise TyperException(
            f"found {len(files)} files; a Jepsen history is one file: import each by itself"
        )
    out = out or Path("runs") / files[0].stem
    choices = Choices(split=split_transactions, leave_out=leave_out_keys, initial=_initial(initial))
    try:
        written, notes = import_history(source, files, out, choices)
    except AnalysisError as error:
        raise TyperException(str(error)) from error
    _say(f"{out}: {written.operations:,} operations on {written.keys:,} keys")
    for what, count in notes.left_out.items():
        _say(f"left out: {count:,} {what}")
    for what, count in notes.said.items():
        _say(f"{count:,} {what}")
    if written.read_finally < written.keys:
        _say(
            f"{written.keys - written.read_finally:,} keys have no read after their last write, "
            "so that a loss there can't be seen: read each key once more at the end of a test"
        )
    _say(f"next: zonequake analyze {out}")


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


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201
