"""Column files: what `kept_lines` yields of a range of history lines, made once and read often.

    history/load-0.jsonl            the lines of a range of bytes, from 0 on
    columns/load-0.jsonl.0.arrows   an Arrow stream, LZ4 | XXH3 of it, 16 bytes

The lines stay the truth. A column file is taken only if it is whole, and if the lines are those
that it was made of: they are read and hashed, which costs little beside parsing them. Of any other
range the lines are parsed, and a sentence says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import xxhash
from pyspark.sql.pandas.types import to_arrow_schema

from zonequake_analysis.errors import LocationError
from zonequake_analysis.inputs.lines import ByteRange, kept_lines
from zonequake_analysis.inputs.long_lines import until_line_end
from zonequake_analysis.inputs.shapes import LINES
from zonequake_analysis.storage.location import Location

FOLDER = "columns"
ENDING = ".arrows"
VERSION = "3"
"""Version of the files; it changes with what `kept_lines` yields of the same lines."""

_VERSION, _LINES = b"zonequake column file", b"zonequake lines"
_DIGEST_BYTES = 16
_BLOCK_BYTES = 4 * 1024 * 1024
"""Bytes that are read at once to be hashed: of a store each is a request."""

_WHOLE = to_arrow_schema(LINES)
_STORED = pa.schema([field for field in _WHOLE if field.name != "file"])
"""A file's number depends on the run's other files, so a column file can't hold it."""
_WRITE = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)


class _Refused(Exception):
    """A column file can't be used; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeRead:
    """The lines of a range, and why its column file was not used if it has one; empty if it was."""

    kept: list[pa.RecordBatch]
    unused: str = ""


def name_of(part: ByteRange) -> str:
    """Returns the name of the column file of a range."""
    return f"{part.path.name}.{part.start}{ENDING}"


def encoded(part: ByteRange) -> memoryview:
    """Returns the content of a range's column file."""
    # The digest comes first: of lines that are appended meanwhile it is another one.
    facts = {_VERSION: VERSION, _LINES: _lines_of(part)}
    kept = pa.Table.from_batches(list(kept_lines(part)), _WHOLE).select(_STORED.names)
    sink = pa.BufferOutputStream()
    shape = _STORED.with_metadata(facts)
    with pa.ipc.new_stream(sink, shape, options=_WRITE) as stream:
        stream.write_table(kept.combine_chunks())
    content = sink.getvalue()
    return memoryview(bytes(content) + xxhash.xxh3_128_digest(content))


def read_range(part: ByteRange, column_files: Mapping[str, Location]) -> RangeRead:
    """Returns what `kept_lines` yields of a range, from its column file if that can be used.

    `column_files`: those of the run, by name. Raises what `kept_lines` raises.
    """
    file = column_files.get(name_of(part))
    if file is None:
        return RangeRead(kept=list(kept_lines(part)))
    try:
        return RangeRead(kept=list(_decoded(part, file)))
    except _Refused as error:
        return RangeRead(kept=list(kept_lines(part)), unused=f"{FOLDER}/{file.name} {error}")


def _decoded(part: ByteRange, file: Location) -> Iterator[pa.RecordBatch]:
    """Yields the content of a column file, of the shape `LINES`. Raises _Refused before."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise _Refused(f"can't be read: {error.strerror}") from error
    except LocationError as error:
        if error.unreachable:  # nor are its lines there
            raise
        raise _Refused(f"can't be read: {error}") from error
    stream, digest = memoryview(content)[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if xxhash.xxh3_128_digest(stream) != digest:
        raise _Refused("is damaged, or no column file")
    try:
        with pa.ipc.open_stream(stream, options=_READ) as reader:
            facts = reader.schema.metadata or {}
            if (version := facts.get(_VERSION, b"none").decode(errors="replace")) != VERSION:
                raise _Refused(f"is of version {version}, expected {VERSION}")
            if facts.get(_LINES) != _lines_of(part).encode():
                raise _Refused("was made of other lines")
            batches = list(reader)
    except (pa.ArrowException, OSError) as error:
        raise _Refused("is no Arrow stream") from error
    if not reader.schema.equals(_STORED):
        raise _Refused("has other columns than its version")
    for batch in batches:
        columns = dict(zip(_STORED.names, batch.columns, strict=True))
        columns["file"] = pa.array(np.full(batch.num_rows, part.file, np.int32))
        yield pa.RecordBatch.from_arrays([columns[name] for name in _WHOLE.names], schema=_WHOLE)


def _lines_of(part: ByteRange) -> str:
    """Returns where the range is, and a digest of all that decides what `kept_lines` yields of it:
    its bytes with the one before, and the rest of its last line.
    """
    digest = xxhash.xxh3_128()
    with part.path.open() as file:
        at = max(0, part.start - 1)
        file.seek(at)
        last = b""
        while at < part.stop and (block := file.read(min(_BLOCK_BYTES, part.stop - at))):
            digest.update(block)
            at, last = at + len(block), block
        if not last.endswith(b"\n"):
            for block in until_line_end(file):
                digest.update(block)
    return f"{part.start}-{part.stop} {digest.hexdigest()}"
