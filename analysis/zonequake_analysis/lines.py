"""History lines as columns, read by ranges of bytes, one range to a task.

Spark's own reader spends most of a run's time on JSON; Arrow's is several times as fast. A piece of
a file that Arrow refuses, because of a torn or strange line, is read line by line.

Half of all lines are invokes that their completions repeat. They are recognized by the bytes that
the writer puts at the beginning of each line, and dropped before anybody parses them:

    {"schema":1,"type":"invoke",…,"op":"3-20",…}    dropped: its completion is in this range
    {"schema":1,"type":"ok",…,"op":"3-20",…}        kept, `paired`

Whatever looks otherwise is kept and not `paired`: lines with other spacing, torn ones, an
invoke whose completion lies in the next range, or nowhere. `ingest` pairs those by their fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyspark.sql.pandas.types import to_arrow_schema

from zonequake_analysis.schema import CORRUPT, LINES

RANGE_BYTES = 64 * 1024 * 1024
_PIECE_BYTES = 8 * 1024 * 1024
_INVOKE = '{"schema":1,"type":"invoke",'
_OP = re.compile(rb'\{"schema":1,"type":"\w+","f":"\w+","process":\d+,"op":"([^"\\]+)"[^\n]*\n')
_VALUE_LIST, _LIST = b'"value":[', b'"list":['
"""Within a JSON string the quotes would stand behind backslashes, so these are always fields."""

_NEWLINE, _BRACE = ord("\n"), ord("}")


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A part of a file: the lines that begin in [start, stop). `file` is its number."""

    path: str
    file: int
    start: int
    stop: int


def byte_ranges(files: Sequence[Path], size: int = RANGE_BYTES) -> list[ByteRange]:
    """All bytes of all files, in ranges of at most `size`."""
    return [
        ByteRange(str(file.resolve()), number, start, min(start + size, length))
        for number, file in enumerate(files)
        for length in [file.stat().st_size]
        for start in range(0, length, size)
    ]


def kept_lines(part: ByteRange) -> Iterator[pa.RecordBatch]:
    """The lines of one range that are kept, piece by piece."""
    open_invokes: dict[bytes, str] = {}
    for piece in _pieces(part):
        lines = _split(piece)
        invoke = pc.starts_with(lines, _INVOKE).to_numpy(zero_copy_only=False) & _whole(lines)
        asked, others = lines.filter(pa.array(invoke)), lines.filter(pa.array(~invoke))
        asked_ops, other_ops = _ops(asked), _ops(others)
        asks = {op: row for row, op in enumerate(asked_ops) if op is not None}
        paired = [op in asks or op in open_invokes for op in other_ops]
        answered = {op for op in other_ops if op is not None}
        for op in open_invokes.keys() & answered:
            del open_invokes[op]
        waiting = [row for op, row in asks.items() if op not in answered]
        for row in waiting:
            name = asked_ops[row]
            assert name is not None
            open_invokes[name] = asked[row].as_py()
        yield _batch(others, part.file, paired)
        nameless = [row for row, op in enumerate(asked_ops) if op is None]
        if nameless:
            yield _batch(asked.take(pa.array(nameless, pa.int64())), part.file, None)
    if open_invokes:
        yield _batch(pa.array(open_invokes.values(), pa.string()), part.file, None)


def _batch(lines: pa.Array, file: int, paired: list[bool] | None) -> pa.RecordBatch:
    """Lines with their numbers of file, as a batch of the shape `LINES`."""
    columns = _parsed(lines)
    columns["file"] = pa.array(np.full(len(lines), file, np.int32))
    columns["paired"] = pa.array([False] * len(lines) if paired is None else paired, pa.bool_())
    return pa.RecordBatch.from_arrays([columns[field.name] for field in _ARROW], schema=_ARROW)


def _parsed(lines: pa.Array) -> dict[str, pa.Array]:
    text = _text(lines)
    if text:
        try:
            table = pj.read_json(
                pa.BufferReader(text.replace(_VALUE_LIST, _LIST)),
                read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
                parse_options=pj.ParseOptions(
                    explicit_schema=_PARSED, unexpected_field_behavior="ignore"
                ),
            )
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return _one_by_one(text)
        if table.num_rows == len(lines):
            none = pa.nulls(len(lines), pa.string())
            return {CORRUPT: none} | {
                name: table.column(name).combine_chunks() for name in _PARSED.names
            }
    return _one_by_one(text)


def _one_by_one(text: bytes) -> dict[str, pa.Array]:
    """What `_parsed` gives, where not every line is an object of the schema."""
    rows: list[dict[str, object]] = []
    for line in text.splitlines():
        try:
            row = msgspec.to_builtins(_decode(line))
            if isinstance(row["value"], list):
                row["list"], row["value"] = row["value"], None
        except (msgspec.DecodeError, UnicodeDecodeError):
            row = {CORRUPT: line.decode(errors="replace")}
        rows.append(row)
    shape = [field for field in _ARROW if field.name not in ("file", "paired")]
    return {
        field.name: pa.array([row.get(field.name) for row in rows], field.type) for field in shape
    }


_ARROW = to_arrow_schema(LINES)
_PARSED = pa.schema([field for field in _ARROW if field.name not in ("file", "paired", CORRUPT)])
_Int = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Short = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_TYPES = {pa.int64(): _Int, pa.int32(): _Short, pa.string(): str, pa.bool_(): bool}
_Line = msgspec.defstruct(
    "_Line",
    [
        (field.name, _TYPES[field.type] | None, None)
        for field in _PARSED
        if field.name not in ("list", "value")
    ]
    + [("value", _Int | list[_Int] | None, None)],
)
_decode = msgspec.json.Decoder(_Line).decode


def _pieces(part: ByteRange) -> Iterator[bytes]:
    """Whole lines, each with its end; a torn last line gets one."""
    with Path(part.path).open("rb") as stream:
        at = part.start
        if at > 0:
            stream.seek(at - 1)
            at += len(stream.readline()) - 1
        while at < part.stop:
            piece = stream.read(min(_PIECE_BYTES, part.stop - at))
            if not piece:
                return
            if not piece.endswith(b"\n"):
                piece += stream.readline()
            at += len(piece)
            yield piece if piece.endswith(b"\n") else piece + b"\n"


def _split(piece: bytes) -> pa.Array:
    """The lines of a piece with their ends, without copying; blank ones are left out."""
    ends = np.flatnonzero(np.frombuffer(piece, np.uint8) == _NEWLINE) + 1
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    lines = pa.StringArray.from_buffers(
        len(ends), pa.py_buffer(offsets.tobytes()), pa.py_buffer(piece)
    )
    blank = np.diff(offsets) < 3
    return lines.filter(pa.array(~blank)) if blank.any() else lines


def _text(lines: pa.Array) -> bytes:
    """The lines' bytes, one line behind the other."""
    if not len(lines):
        return b""
    offsets = np.frombuffer(lines.buffers()[1], np.int32)[lines.offset :][: len(lines) + 1]
    return bytes(lines.buffers()[2][int(offsets[0]) : int(offsets[-1])])


def _whole(lines: pa.Array) -> np.ndarray:
    """Whether a line ends as a JSON object does."""
    offsets = np.frombuffer(lines.buffers()[1], np.int32)[lines.offset :][: len(lines) + 1]
    data = np.frombuffer(lines.buffers()[2], np.uint8)
    return np.asarray(data[np.maximum(offsets[1:] - 2, 0)] == _BRACE)


def _ops(lines: pa.Array) -> list[bytes | None]:
    """The name of each line's operation, None where the line looks otherwise."""
    if not len(lines):
        return []
    text = _text(lines)
    found: list[bytes | None] = list(_OP.findall(text))
    if len(found) == len(lines):  # at most one in each line, so one in each
        return found
    single = (_OP.match(line) for line in text.splitlines(keepends=True))
    return [match.group(1) if match else None for match in single]
