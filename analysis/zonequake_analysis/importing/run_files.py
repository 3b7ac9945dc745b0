"""Writes an imported history as a run folder, which appears whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import yaml

from zonequake_analysis.errors import RunFolderError
from zonequake_analysis.importing.operations import OK, Function, Notes
from zonequake_analysis.importing.translation import CLOCK, Line, OperationLines
from zonequake_analysis.importing.values import VALUES_FILE, Values

_ROLE = b'"role":"load",'
_LOAD, _FINAL = b'"role":"load" ,', b'"role":"final",'
"""Equally long, so that the line of a key's last read can be changed in place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The content of the folder: operations, keys, and keys that were read after their last
    write.
    """

    operations: int
    keys: int
    read_finally: int


class _Key:
    __slots__ = ("last_read_ns", "last_write_ns", "places")

    def __init__(self) -> None:
        self.last_write_ns = self.last_read_ns = -(2**63)
        self.places: list[int] = []


def write_run(
    out: Path,
    found: Iterable[OperationLines],
    *,
    source: dict[str, object],
    notes: Notes,
    values: Values,
    began_ns: int = 0,
) -> Written:
    """Writes `out`, which must not exist yet. `source` goes into `run.yaml`. `began_ns`: the time
    of day at which times are 0.

    Raises RunFolderError, and the errors of iterating over `found`.
    """
    if out.exists():
        raise RunFolderError(f"{out} is there already; name another folder with --out")
    draft = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        (draft / "history").mkdir(parents=True)
        written = _write_history(draft / "history" / "imported.jsonl", found, began_ns)
        _write_beside(draft, written, source=source, notes=notes, values=values, began_ns=began_ns)
        draft.rename(out)
    except OSError as error:
        raise RunFolderError(f"{out} can't be written: {error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return written


def _write_history(file: Path, found: Iterable[OperationLines], began_ns: int) -> Written:
    encode = msgspec.json.Encoder().encode
    keys: dict[str, _Key] = {}
    operations = at = 0
    with file.open("w+b") as stream:

        def write(line: Line) -> int:
            nonlocal at
            if began_ns:
                line = msgspec.structs.replace(line, wall=line.wall + began_ns)
            text = encode(line).replace(_ROLE, _LOAD, 1) + b"\n"
            stream.write(text)
            at += len(text)
            return at - len(text) + text.index(_LOAD)

        for invoke, completion in found:
            operations += 1
            place = write(invoke)
            for part in invoke.parts:
                keys.setdefault(part.key, _Key())
            if completion is None:
                continue
            places = [place, write(completion)]
            if completion.type != OK:
                continue
            parts = completion.parts
            writes = any(part.f != Function.READ for part in parts)
            for part in parts:
                key = keys[part.key]
                if part.f != Function.READ:
                    key.last_write_ns = max(key.last_write_ns, completion.time)
                elif completion.inv >= key.last_read_ns:
                    key.last_read_ns, key.places = completion.inv, [] if writes else places
        finals = [key for key in keys.values() if key.last_read_ns > key.last_write_ns]
        for place in sorted({place for key in finals for place in key.places}):
            stream.seek(place)
            stream.write(_FINAL)
    return Written(operations=operations, keys=len(keys), read_finally=len(finals))


def _write_beside(
    run: Path,
    written: Written,
    *,
    source: dict[str, object],
    notes: Notes,
    values: Values,
    began_ns: int,
) -> None:
    by_number = values.by_number()
    if by_number:
        (run / VALUES_FILE).write_bytes(msgspec.json.encode(by_number))
    events = [
        {
            "schema": 1,
            "kind": "nemesis",
            "time": event.time_ns,
            "wall": event.time_ns + began_ns,
            "clock": CLOCK,
            "source": "imported",
            "zone": None,
            "partition": None,
            "node": None,
            "data": event.data,
        }
        for event in notes.events
    ]
    if events:
        (run / "events.jsonl").write_bytes(
            b"".join(msgspec.json.encode(event) + b"\n" for event in events)
        )
    imported = {
        **source,
        "operations": written.operations,
        "keys": written.keys,
        "left_out": dict(notes.left_out),
        "said": dict(notes.said),
    }
    (run / "run.yaml").write_text(
        yaml.safe_dump({"imported": imported}, sort_keys=False, allow_unicode=True)
    )
