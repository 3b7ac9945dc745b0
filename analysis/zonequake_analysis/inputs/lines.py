"""History lines as columns, read by ranges of bytes, one range to a task.

Spark's own reader spends most of a run's time on JSON; Arrow's is several times as fast. A piece of
a file that Arrow refuses, because of a torn or strange line, is read line by line.

Half of all lines are invokes that their completions repeat. They are recognized by the bytes that
the writer puts at the beginning of each line, and dropped before anybody parses them, if the name
of their operation is that of a completion:

    {"schema":1,"type":"invoke",…,"op":"3-20",…}    dropped: its completion is in this range
    {"schema":1,"type":"ok",…,"op":"3-20",…}        kept, `paired`

Whatever looks otherwise is kept and not `paired`: lines with other spacing, torn ones, an
invoke whose completion lies in the next range, or nowhere. `ingest` pairs those by their fields.
"""

from __future__ import annotations

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

from zonequake_analysis.inputs.shapes import CORRUPT, LINES

RANGE_BYTES = 64 * 1024 * 1024
_PIECE_BYTES = 8 * 1024 * 1024
_INVOKE = '{"schema":1,"type":"invoke",'
_OP = '"op":"'
_MOST_OP_BYTES = 32
_VALUE_LIST, _LIST = b'"value":[', b'"list":['
"""Within a JSON string the quotes would stand behind backslashes, so these are always fields."""

_NEWLINE, _BRACE, _QUOTE, _BACKSLASH = b'\n}"\\'


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
    """The lines of one range that are kept, piece by piece, of the shape `LINES`."""
    open_invokes: dict[bytes, str] = {}
    for piece in _pieces(part):
        lines = _split(piece)
        invoke = pc.starts_with(lines, _INVOKE).to_numpy(zero_copy_only=False) & _whole(lines)
        asked, others = lines.filter(pa.array(invoke)), lines.filter(pa.array(~invoke))
        asked_ops = _ops(asked)
        asks = {op: row for row, op in enumerate(asked_ops) if op is not None}
        columns = _parsed(others)
        completions = _completions(columns)
        paired = [op in asks or op in open_invokes for op in completions]
        answered = set(completions)
        for op in open_invokes.keys() & answered:
            del open_invokes[op]
        for op in asks.keys() - answered:
            open_invokes[op] = asked[asks[op]].as_py()
        yield _batch(columns, part.file, paired)
        nameless = [row for row, op in enumerate(asked_ops) if op is None]
        if nameless:
            yield _unpaired(asked.take(pa.array(nameless, pa.int64())), part.file)
    if open_invokes:
        yield _unpaired(pa.array(open_invokes.values(), pa.string()), part.file)


def _completions(columns: dict[str, pa.Array]) -> list[bytes | None]:
    """The name of each line's operation if it completes one, else None."""
    ends = pc.not_equal(columns["type"], "invoke")
    names = pc.if_else(ends, columns["op"], pa.scalar(None, pa.string()))
    result: list[bytes | None] = names.cast(pa.binary()).to_pylist()
    return result


def _unpaired(lines: pa.Array, file: int) -> pa.RecordBatch:
    return _batch(_parsed(lines), file, [False] * len(lines))


def _batch(columns: dict[str, pa.Array], file: int, paired: list[bool]) -> pa.RecordBatch:
    """Parsed lines with their numbers of file, as a batch of the shape `LINES`."""
    columns["file"] = pa.array(np.full(len(paired), file, np.int32))
    columns["paired"] = pa.array(paired, pa.bool_())
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
    """Returns what `_parsed` gives, where not every line is an object of the schema."""
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


def _pieces(part: ByteRange) -> Iterator[bytes | memoryview]:
    """Whole lines, each with its end; a torn last line gets one."""
    with Path(part.path).open("rb", buffering=0) as stream:
        at = part.start
        if at > 0:
            stream.seek(at - 1)
            at += len(stream.readline()) - 1
            stream.seek(at)
        while at < part.stop:
            piece = stream.read(min(_PIECE_BYTES, part.stop - at))
            if not piece:
                return
            end = piece.rfind(b"\n") + 1
            if end == len(piece):
                yield piece
            elif end and at + len(piece) < part.stop:
                # The begun line is read again: that is cheaper than to copy all the others.
                yield memoryview(piece)[:end]
                stream.seek(at + end)
            else:
                piece += stream.readline()
                end = len(piece)
                yield piece if piece.endswith(b"\n") else piece + b"\n"
            at += end


def _split(piece: bytes | memoryview) -> pa.Array:
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
    """The name of each line's operation, None where there is none, or a long or strange one."""
    if not len(lines):
        return []
    offsets = np.frombuffer(lines.buffers()[1], np.int32)[lines.offset :][: len(lines)]
    data = lines.buffers()[2]
    found = pc.find_substring(lines, _OP).to_numpy()
    begin = offsets.astype(np.int64) + found + len(_OP)
    window = begin[:, None] + np.arange(_MOST_OP_BYTES)
    letters = np.frombuffer(data, np.uint8)[np.minimum(window, data.size - 1)]
    ends = (letters == _QUOTE) | (letters == _BACKSLASH) | (letters == _NEWLINE)
    length = ends.argmax(axis=1)
    plain = (found >= 0) & (letters[np.arange(len(lines)), length] == _QUOTE)
    text = memoryview(data)
    return [
        bytes(text[first : first + size]) if good else None
        for first, size, good in zip(begin.tolist(), length.tolist(), plain.tolist(), strict=True)
    ]
