"""Lines of one form as columns: read as CSV, which takes half the time of a JSON reader.

A program writes its lines in one form: the same names in the same order. With a comma for each mark
between them, such lines are rows of one table:

    {"schema":1,"op":"3-20","found":null}   →   ,"schema",1,"op","3-20","found",null,

A line is taken only if its marks are those of an object without lists, its names are those of the
others, numbers stand where numbers belong, and texts are quoted, without a mark, a quote or a
backslash in them. So JSON would say the same of it; only zeros before a number, and numbers in
hexadecimal, are no JSON and taken all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
from numpy.typing import NDArray

from zonequake_analysis.inputs.shapes import LACKS, MAY_BE_NULL

Bools = NDArray[np.bool_]

_COMMAS = bytes.maketrans(b"{}:", b",,,")
_NO_MARKS = bytes(set(range(256)) - set(b"{}:,[]\\\n"))
_QUOTE, _SPACE = b'" '
_CACHED_BYTES = 1024 * 1024
"""Bytes that are read at once: they and their columns stay in a core's cache. A longer line is left
to another reader."""

_UNUSED = [pa.field("attempts", pa.int64()), pa.field("error", pa.string())]
"""Fields of a line that become no column."""


def text_of(lines: pa.Array) -> bytes:
    """Returns the lines' bytes, one line after the other."""
    if not len(lines):
        return b""
    offsets = np.frombuffer(lines.buffers()[1], np.int32)[lines.offset :][: len(lines) + 1]
    return bytes(lines.buffers()[2][int(offsets[0]) : int(offsets[-1])])


def even_columns(lines: pa.Array, shape: pa.Schema) -> tuple[dict[str, pa.Array], Bools] | None:
    """Returns the columns of the lines that have the commonest form, and which lines these are.

    `lines`: UTF-8, each with its end. `shape`: the columns, to which `LACKS` is added; one that the
    lines lack is null. None if another reader must look at all of them. Pure.
    """
    text = text_of(lines)
    marks = text.translate(None, _NO_MARKS).split(b"\n")[:-1]
    ((usual, count),) = Counter(marks).most_common(1) or [(b"", 0)]
    even = np.ones(len(lines), bool)
    if count < len(lines):
        even = np.fromiter(map(usual.__eq__, marks), bool, len(marks))
        if len(even) != len(lines):
            return None  # a line's end within a line
        text = text_of(lines.filter(pa.array(even)))
    fields = _fields(text[: text.find(b"\n")], shape)
    if fields is None or usual != b"{%b}" % b",".join([b":"] * len(fields)):
        return None
    if np.count_nonzero(np.frombuffer(text, np.uint8) < _SPACE) != count:
        return None  # a character that JSON wants escaped
    try:
        table = _table(text.translate(_COMMAS), fields)
    except pa.ArrowInvalid:
        return None
    columns = _columns(table, fields, shape)
    return None if columns is None else (columns, even)


def _fields(line: bytes, shape: pa.Schema) -> list[pa.Field] | None:
    """Returns the fields of a line in its order; None if one of them is unknown, or is a list."""
    try:
        names = list(msgspec.json.decode(line, type=dict))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    known = {field.name: field for field in (*shape, *_UNUSED)}
    fields = [known.get(name) for name in names]
    if any(field is None or pa.types.is_nested(field.type) for field in fields):
        return None
    return fields


def _table(rows: bytes, fields: Sequence[pa.Field]) -> pa.Table:
    """Returns the rows as columns: an empty one, each field's name and value, and an empty one.

    Raises ArrowInvalid for a value that is not of its field's type.
    """
    types = {"first": pa.string(), "last": pa.string()}
    types |= {f"name of {field.name}": pa.binary(len(_quoted(field))) for field in fields}
    types |= {field.name: field.type for field in fields}
    names = [name for field in fields for name in (f"name of {field.name}", field.name)]
    table = pcsv.read_csv(
        pa.BufferReader(rows),
        read_options=pcsv.ReadOptions(
            use_threads=False, block_size=_CACHED_BYTES, column_names=["first", *names, "last"]
        ),
        parse_options=pcsv.ParseOptions(quote_char=False),
        convert_options=pcsv.ConvertOptions(
            column_types=types,
            check_utf8=False,
            null_values=["null"],
            strings_can_be_null=True,
            true_values=["true"],
            false_values=["false"],
        ),
    )
    return table.combine_chunks()


def _columns(
    table: pa.Table, fields: Sequence[pa.Field], shape: pa.Schema
) -> dict[str, pa.Array] | None:
    """Returns the values as columns; None if a name is not its field's, or a text has no quotes."""
    rows = table.num_rows
    first, *pairs, last = (column.chunk(0) for column in table.columns)
    if _content(first).size or _content(last).size:
        return None  # there is text before the first mark or after the last one
    columns = {field.name: pa.nulls(rows, field.type) for field in shape}
    columns[LACKS] = pa.repeat(bits_of_lacking({field.name for field in fields}), rows)
    for field, name, value in zip(fields, pairs[::2], pairs[1::2], strict=True):
        if name.null_count or _content(name).tobytes() != _quoted(field) * rows:
            return None
        column = _unquoted(value) if pa.types.is_string(field.type) else value
        if column is None:
            return None
        if field.name in columns:
            columns[field.name] = column
    return columns


def bits_of_lacking(names: Collection[str]) -> pa.Scalar:
    """Returns what `LACKS` says of a line with fields of these names."""
    bits = sum(1 << bit for bit, name in enumerate(MAY_BE_NULL) if name not in names)
    return pa.scalar(bits or None, pa.int8())


def _quoted(field: pa.Field) -> bytes:
    return f'"{field.name}"'.encode()


def _unquoted(texts: pa.Array) -> pa.Array | None:
    """Returns texts without their quotes; None unless each has them at both ends, and no other."""
    offsets, content = _offsets(texts), _content(texts)
    there = np.diff(offsets) > 0  # a null has no content
    begins, ends = offsets[:-1][there], offsets[1:][there] - 1
    quotes = np.count_nonzero(content == _QUOTE)
    if (
        int(there.sum()) != len(texts) - texts.null_count
        or quotes != 2 * len(begins)
        or (begins == ends).any()
        or not (content[begins] == _QUOTE).all()
        or not (content[ends] == _QUOTE).all()
    ):
        return None
    shorter = np.zeros(len(offsets), np.int32)
    np.cumsum(there, out=shorter[1:])
    return pa.StringArray.from_buffers(
        len(texts),
        pa.py_buffer((offsets - 2 * shorter).astype(np.int32)),
        pa.py_buffer(content.tobytes().translate(None, b'"')),
        texts.buffers()[0],
        texts.null_count,
    )


def _offsets(texts: pa.Array) -> NDArray[np.int32]:
    return np.frombuffer(texts.buffers()[1], np.int32)[: len(texts) + 1]


def _content(values: pa.Array) -> NDArray[np.uint8]:
    """Returns the bytes of all values, one after the other."""
    content = np.frombuffer(values.buffers()[-1] or b"", np.uint8)
    if pa.types.is_string(values.type):
        return content[: _offsets(values)[-1]]
    return content[: len(values) * values.type.byte_width]
