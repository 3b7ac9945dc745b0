"""History lines as columns, read by ranges of bytes, one range to a task.

Lines of one form are read as CSV (`even_lines`), all others as JSON. Spark's own reader spends most
of a run's time on JSON; Arrow's is several times as fast. What Arrow refuses because of a torn or
strange line is read line by line.

Half of all lines are invokes that their completions repeat. They are recognized by the bytes that
the writer puts at the beginning of each line, and dropped before they are parsed, if a completion
names their operation:

    {"schema":1,"type":"invoke",…,"op":"3-20",…}    dropped: its completion is in this range
    {"schema":1,"type":"ok",…,"op":"3-20",…}        kept, `paired`

All other lines are kept and not `paired`: lines with other spacing, torn ones, an invoke whose
completion is in the next range, or nowhere. `ingest` pairs those by their fields.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from numpy.typing import NDArray
from pyspark.sql.pandas.types import to_arrow_schema

from zonequake_analysis.inputs.defects.repeats import COMPARED, Invokes, same, windows
from zonequake_analysis.inputs.even_lines import bits_of_lacking, even_columns, text_of
from zonequake_analysis.inputs.long_lines import LinePiece, pieces
from zonequake_analysis.inputs.shapes import CORRUPT, LACKS, LINES, MAY_BE_NULL, TORN
from zonequake_analysis.inputs.transactions.steps import MARK, transactions_in
from zonequake_analysis.storage.location import Location
from zonequake_analysis.text.strange_bytes import strange_bytes

RANGE_BYTES = 64 * 1024 * 1024
_CACHED_BYTES = 128 * 1024
"""Bytes that are compared at once: a result of this size stays in a core's cache."""

_INVOKE = '{"schema":1,"type":"invoke",'
_OP = '"op":"'
_MOST_OP_BYTES = 32
_VALUE_LIST, _LIST = b'"value":[', b'"list":['
"""Within a JSON string the quotes would follow backslashes, so these bytes are always fields."""

_OWN_LIST = re.compile(rb'"list"\s*:')
"""A field of that name in the lines: none of the history's, and Arrow would read it as a value."""

_WITHIN = np.where(np.tri(_MOST_OP_BYTES, _MOST_OP_BYTES, -1), 255, 0).astype(np.uint8)
"""Bytes that leave as many of a name's letters as the row has."""

_NEWLINE, _BRACE, _QUOTE, _BACKSLASH = b'\n}"\\'
_WHITE = np.frombuffer(b"\r \t", np.uint8)
_RETURNS = (
    "found lines that end with a carriage return alone, expected line feeds: convert the file, for "
    "instance by `tr '\\r' '\\n'`"
)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A part of a file: the lines that begin in [start, stop). `file` is its number."""

    path: Location
    file: int
    start: int
    stop: int


def byte_ranges(files: Sequence[Path | Location], size: int = RANGE_BYTES) -> list[ByteRange]:
    """Returns all bytes of all files, in ranges of at most `size`."""
    return [
        ByteRange(location.resolve(), number, start, min(start + size, length))
        for number, location in enumerate(map(Location.of, files))
        for length in [location.size_bytes()]
        for start in range(0, length, size)
    ]


def kept_lines(part: ByteRange) -> Iterator[pa.RecordBatch]:
    """Yields the lines of one range that are kept, piece by piece, of the shape `LINES`."""
    open_invokes: dict[bytes, tuple[bytes, int]] = {}
    for piece in pieces(part.path, part.start, part.stop):
        lines, starts, torn = _split(piece)
        invoke = pc.starts_with(lines, _INVOKE).to_numpy(zero_copy_only=False) & _whole(lines)
        if torn:
            invoke[-1] = False
        asked, others = lines.filter(pa.array(invoke)), lines.filter(pa.array(~invoke))
        begun = starts[invoke]
        asked_ops = _ops(asked)
        asks = {op: row for row, op in enumerate(asked_ops) if op is not None}
        twice = _named_twice(asked_ops, asks, open_invokes)
        for op in twice:
            asks.pop(op, None)
        known = (
            _Known(asks, Invokes.of(piece.content, begun - piece.at, asked)),
            _Known.of({op: text for op, (text, _) in open_invokes.items() if op not in twice}),
        )
        answered: set[bytes | None] = set()
        unlike: set[bytes] = set()
        for columns, begins in _parsed(others, starts[~invoke], torn=torn):
            completions = _completions(columns)
            paired, different = _paired(completions, columns, piece, begins, known)
            yield _batch(columns, part.file, begins, paired)
            answered.update(completions)
            unlike.update(different)
        for op in (open_invokes.keys() & answered) - twice - unlike:
            del open_invokes[op]
        for op in asks.keys() - answered:
            open_invokes[op] = (text_of(asked.slice(asks[op], 1)), int(begun[asks[op]]))
        unlike |= twice
        kept = [
            row
            for row, op in enumerate(asked_ops if unlike or None in asked_ops else [])
            if op is None or op in unlike
        ]
        if kept:
            yield from _unpaired(asked.take(pa.array(kept, pa.int64())), part.file, begun[kept])
    if open_invokes:
        texts, places = zip(*open_invokes.values(), strict=True)
        invokes = pa.array(texts, pa.binary())
        yield from _unpaired(invokes, part.file, np.array(places, np.int64))


def _named_twice(
    names: Sequence[bytes | None],
    asks: Mapping[bytes, int],
    open_invokes: Mapping[bytes, object],
) -> set[bytes]:
    """Returns the operations that several invokes name: none of these may be dropped unparsed."""
    known = len(names) - names.count(None)
    if known == len(asks) and open_invokes.keys().isdisjoint(asks):
        return set()
    counted = Counter(name for name in names if name is not None)
    return {name for name, count in counted.items() if count > 1 or name in open_invokes}


@dataclass(frozen=True, slots=True)
class _Known:
    """Invokes that may be dropped, and the place of each among them by its operation's name."""

    places: Mapping[bytes, int]
    invokes: Invokes

    @classmethod
    def of(cls, lines: Mapping[bytes, bytes]) -> _Known:
        """Returns these lines, by their operations' names, as one text."""
        texts = pa.array(lines.values(), pa.binary())
        begins = np.cumsum([0, *map(len, lines.values())], dtype=np.int64)[:-1]
        places = {op: place for place, op in enumerate(lines)}
        return cls(places, Invokes.of(b"".join(lines.values()), begins, texts))


def _paired(
    completions: Sequence[bytes | None],
    columns: dict[str, pa.Array],
    piece: LinePiece,
    begins: NDArray[np.int64],
    known: Iterable[_Known],
) -> tuple[NDArray[np.bool_], set[bytes]]:
    """Returns which lines complete one of the `known` invokes and repeat it, and the operations
    whose lines don't, or may not.
    """
    paired = np.zeros(len(completions), bool)
    unlike: set[bytes] = set()
    left = np.arange(len(completions))
    for one in known:
        names = completions
        if len(left) < len(paired):
            names = [completions[row] for row in left.tolist()]
        found_at = map(one.places.get, names, repeat(-1))  # type: ignore[arg-type]
        places = np.fromiter(found_at, np.int64, len(names))
        found, left = left[places >= 0], left[places < 0]
        if not len(found):
            continue
        of_found = columns
        if len(found) < len(paired):
            of_found = {n: columns[n].take(pa.array(found)) for n in COMPARED}
        paired[found] = same(
            one.invokes.at(places[places >= 0]), piece.content, begins[found] - piece.at, of_found
        )
        unlike.update(op for row in found[~paired[found]].tolist() if (op := completions[row]))
    return paired, unlike


def _completions(columns: dict[str, pa.Array]) -> list[bytes | None]:
    """Returns the name of each line's operation if it completes one, else None."""
    ends = pc.not_equal(columns["type"], "invoke")
    names = pc.if_else(ends, columns["op"], pa.scalar(None, pa.string()))
    result: list[bytes | None] = names.cast(pa.binary()).to_pylist()
    return result


def _unpaired(lines: pa.Array, file: int, starts: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
    for columns, begins in _parsed(lines, starts):
        yield _batch(columns, file, begins, np.zeros(len(begins), bool))


def _batch(
    columns: dict[str, pa.Array], file: int, starts: NDArray[np.int64], paired: NDArray[np.bool_]
) -> pa.RecordBatch:
    """Returns parsed lines with their file's number and first byte, in the shape `LINES`."""
    columns["file"] = pa.array(np.full(len(paired), file, np.int32))
    columns["at"] = pa.array(starts, pa.int64())
    columns["paired"] = pa.array(paired, pa.bool_())
    for name in ("step", LACKS):
        columns.setdefault(name, pa.nulls(len(paired), pa.int8()))
    return pa.RecordBatch.from_arrays([columns[field.name] for field in _ARROW], schema=_ARROW)


def _parsed(
    lines: pa.Array, starts: NDArray[np.int64], *, torn: bool = False
) -> Iterator[tuple[dict[str, pa.Array], NDArray[np.int64]]]:
    """Yields lines as columns with their `starts`: steps of transactions, those of one form, then
    all others.

    `torn`: the last line has no end in the file.
    """
    text = text_of(lines)
    if MARK in text:
        steps = transactions_in(lines, torn=torn)
        taken = steps.taken
        if steps.rows:
            yield _columns(steps.rows), starts[steps.of_line]
        torn = torn and not bool(taken[-1])
        lines, starts = lines.filter(pa.array(~taken)), starts[~taken]
        text = text_of(lines)
    if not len(lines):
        return
    taken = np.zeros(len(lines), bool)
    if _is_text(text):
        found = even_columns(lines, _PARSED)
        if found is not None:
            columns, taken = found
            none = pa.nulls(int(taken.sum()), pa.string())
            yield {CORRUPT: none} | columns, starts[taken]
    if not taken.all():
        rest = lines.filter(pa.array(~taken)) if taken.any() else lines
        yield _from_json(rest, torn=torn and not taken[-1]), starts[~taken]


def _from_json(lines: pa.Array, *, torn: bool = False) -> dict[str, pa.Array]:
    """Returns lines as columns; `torn`: the last one has no end in the file."""
    text = text_of(lines)
    if text and _is_text(text) and _OWN_LIST.search(text) is None:
        try:
            table = pj.read_json(
                pa.BufferReader(text.replace(_VALUE_LIST, _LIST)),
                read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
                parse_options=pj.ParseOptions(
                    explicit_schema=_PARSED, unexpected_field_behavior="ignore"
                ),
            )
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return _one_by_one(text, torn=torn)
        if table.num_rows == len(lines):
            none = pa.nulls(len(lines), pa.string())
            return {CORRUPT: none, LACKS: _lacking(text, len(lines))} | {
                name: table.column(name).combine_chunks() for name in _PARSED.names
            }
    return _one_by_one(text, torn=torn)


def _lacking(text: bytes, count: int) -> pa.Array:
    """Returns `LACKS` of as many lines, which Arrow has read: so no field of a line stands twice.

    Arrow shows a field that isn't there as null.
    """
    # Without objects within the lines, what has a field's quotes and colon is a field of its line.
    if text.count(b"{") == count and all(text.count(name) == count for name in _MAY_BE_NULL):
        return pa.nulls(count, pa.int8())
    found = map(_names, text.split(b"\n")[:-1])
    return pa.array([bits_of_lacking(names).as_py() for names in found], pa.int8())


def _is_text(content: bytes) -> bool:
    """Returns whether it is UTF-8: Arrow's JSON reader accepts any other bytes, too."""
    if content.isascii():
        return True
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _one_by_one(text: bytes, *, torn: bool) -> dict[str, pa.Array]:
    """Returns what `_from_json` gives, where not every line is an object of the schema."""
    rows: list[dict[str, object]] = []
    for line in text.split(b"\n")[:-1]:
        try:
            row = msgspec.to_builtins(_decode(line))
            row[LACKS] = bits_of_lacking(row).as_py()
            if isinstance(row.get("value"), list):
                row["list"], row["value"] = row["value"], None
            if (name := _twice_in(line)) is not None:
                row = {CORRUPT: f"it stands twice - at `$.{name}`"}
        except RecursionError:
            row = {CORRUPT: "JSON that nests too deep"}
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            row = {CORRUPT: _why_not(line, error)}
        rows.append(row)
    if torn and rows and rows[-1].get(CORRUPT) not in (None, _RETURNS):
        rows[-1] = {CORRUPT: TORN}
    return _columns(rows)


def _why_not(line: bytes, error: Exception) -> str:
    """Returns why a line can't be read, in words."""
    strange = strange_bytes(line)
    if strange is not None:
        return strange[1]
    return _RETURNS if b"}\r{" in line else str(error)


def _columns(rows: Sequence[Mapping[str, object]]) -> dict[str, pa.Array]:
    """Returns rows by the names of the shape's columns as columns."""
    shape = [field for field in _ARROW if field.name not in _OF_THE_READER]
    return {
        field.name: pa.array([row.get(field.name) for row in rows], field.type) for field in shape
    }


def _twice_in(line: bytes) -> str | None:
    """Returns a field that stands twice in a line; Arrow refuses it, and msgspec takes the last."""
    counted: Counter[str] = Counter()

    def count(pairs: list[tuple[str, object]]) -> None:
        counted.clear()  # the outermost object is the last one
        counted.update(name for name, _ in pairs)

    json.loads(line, object_pairs_hook=count, parse_int=str)  # however many digits
    return next((name for name, times in counted.items() if times > 1), None)


_ARROW = to_arrow_schema(LINES)
_OF_THE_READER = ("file", "at", "paired")
_PARSED = pa.schema([f for f in _ARROW if f.name not in (*_OF_THE_READER, "step", LACKS, CORRUPT)])
_Int = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Short = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_TYPES = {pa.int64(): _Int, pa.int32(): _Short, pa.string(): str, pa.bool_(): bool}
_Line = msgspec.defstruct(
    "_Line",
    [
        (field.name, _TYPES[field.type] | None, None)
        for field in _PARSED
        if field.name not in ("list", *MAY_BE_NULL)
    ]
    + [
        (name, _TYPES[pa.int64()] | kind | None | msgspec.UnsetType, msgspec.UNSET)
        for name, kind in (("value", list[_Int]), ("expected", None), ("found", None))
    ],
)
_decode = msgspec.json.Decoder(_Line).decode
_names = msgspec.json.Decoder(dict[str, object]).decode
_MAY_BE_NULL = [f'"{name}":'.encode() for name in MAY_BE_NULL]


def _split(piece: LinePiece) -> tuple[pa.Array, NDArray[np.int64], bool]:
    """Returns the lines of a piece with their ends, without copying, where each begins in the file,
    and whether the last one is torn.

    Blank lines are left out: those with nothing before their end, or one sign of white space.
    """
    letters = np.frombuffer(piece.content, np.uint8)
    ends = [
        np.flatnonzero(letters[at : at + _CACHED_BYTES] == _NEWLINE) + (at + 1)
        for at in range(0, len(letters), _CACHED_BYTES)
    ]
    offsets = np.concatenate([[0], *ends]).astype(np.int32)
    lines = pa.StringArray.from_buffers(
        len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(piece.content)
    )
    starts = offsets[:-1].astype(np.int64) + piece.at
    blank = np.diff(offsets) < 3
    if not blank.any():
        return lines, starts, piece.torn
    short = np.flatnonzero(blank)
    first, whole = letters[offsets[short]], offsets[short + 1] - offsets[short] == 1
    blank[short] = whole | np.isin(first, _WHITE)
    return lines.filter(pa.array(~blank)), starts[~blank], piece.torn and not blank[-1]


def _whole(lines: pa.Array) -> np.ndarray:
    """Returns whether each line ends as a JSON object does."""
    offsets = np.frombuffer(lines.buffers()[1], np.int32)[lines.offset :][: len(lines) + 1]
    data = np.frombuffer(lines.buffers()[2], np.uint8)
    return np.asarray(data[np.maximum(offsets[1:] - 2, 0)] == _BRACE)


def _ops(lines: pa.Array) -> list[bytes | None]:
    """Returns the name of each line's operation, None if it has none, or a long or strange one."""
    if not len(lines):
        return []
    offsets = np.frombuffer(lines.buffers()[1], np.int32)[lines.offset :][: len(lines)]
    text = lines.buffers()[2]
    found = pc.find_substring(lines, _OP).to_numpy()
    begin = offsets.astype(np.int64) + found + len(_OP)
    if int(begin.max()) + _MOST_OP_BYTES > len(text):
        text = bytes(text) + bytes(_MOST_OP_BYTES)
    letters = windows(text, begin, _MOST_OP_BYTES).view(np.uint8).reshape(len(lines), -1)
    ends = letters == _QUOTE
    for mark in (_BACKSLASH, _NEWLINE):
        ends |= letters == mark
    length = ends.argmax(axis=1)
    plain = (found >= 0) & (letters[np.arange(len(lines)), length] == _QUOTE)
    letters &= _WITHIN[length]
    names: list[bytes | None] = letters.view(f"S{_MOST_OP_BYTES}")[:, 0].tolist()
    if plain.all():
        return names
    return [name if good else None for name, good in zip(names, plain.tolist(), strict=True)]
