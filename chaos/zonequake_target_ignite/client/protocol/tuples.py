"""Ignite's binary tuples, as far as texts, binaries and whole numbers need them. Pure.

flags, one byte    the lowest two bits: 0, 1, 2 for offsets of 1, 2, 4 bytes
offsets            where each element ends, in the area of values; an empty element is null
values             numbers with as few bytes as they need, little-endian, signed; a text that
                   is empty or begins with 0x80 has a byte 0x80 before it
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

from zonequake_target_ignite.client.protocol.packed import Malformed

_EMPTY = 0x80
_WIDTHS = (1, 2, 4)
_SIZES = (1, 2, 4, 8)
_WIDTH_BITS = 0b11

ColumnValue = str | int | bytes | bool | None


class ColumnType(IntEnum):
    """Ignite's numbers of column types."""

    BOOLEAN = 1
    INT8 = 2
    INT16 = 3
    INT32 = 4
    INT64 = 5
    STRING = 15
    BYTE_ARRAY = 16


def encoded(elements: Sequence[bytes | None]) -> bytes:
    """Returns the tuple of elements that are encoded already."""
    values = b"".join(each or b"" for each in elements)
    order = next(i for i, width in enumerate(_WIDTHS) if len(values) < 1 << 8 * width)
    offsets, end = [], 0
    for each in elements:
        end += len(each or b"")
        offsets.append(end.to_bytes(_WIDTHS[order], "little"))
    return bytes([order]) + b"".join(offsets) + values


def arguments(values: Iterable[str | int | bytes]) -> bytes:
    """Returns the tuple of a statement's arguments: of each its type, its scale and itself."""
    elements: list[bytes | None] = []
    for value in values:
        if isinstance(value, int):
            elements += [_number(ColumnType.INT64), _number(0), _number(value)]
        elif isinstance(value, str):
            elements += [_number(ColumnType.STRING), _number(0), _bytes(value.encode())]
        else:
            elements += [_number(ColumnType.BYTE_ARRAY), _number(0), _bytes(value)]
    return encoded(elements)


def row(values: Iterable[str | bytes | None]) -> bytes:
    """Returns the tuple of a row, or of its key."""
    return encoded(
        [
            None if value is None else _bytes(value.encode() if isinstance(value, str) else value)
            for value in values
        ]
    )


def cells(data: bytes, types: Sequence[int]) -> list[ColumnValue]:
    """Returns the elements of a row with these types of columns. Raises Malformed."""
    if not data or data[0] & _WIDTH_BITS >= len(_WIDTHS):
        raise Malformed(f"found a row that begins with {data[:1]!r}")
    width = _WIDTHS[data[0] & _WIDTH_BITS]
    base = 1 + width * len(types)
    found: list[ColumnValue] = []
    start = 0
    for number, kind in enumerate(types):
        at = 1 + width * number
        end = int.from_bytes(data[at : at + width], "little")
        if end < start or base + end > len(data):
            raise Malformed(
                f"found a row of {len(data)} bytes whose element {number} ends at {end}"
            )
        found.append(_cell(data[base + start : base + end], kind))
        start = end
    return found


def _cell(raw: bytes, kind: int) -> ColumnValue:
    if not raw:
        return None
    if kind == ColumnType.BOOLEAN:
        return raw != b"\0"
    if kind in (ColumnType.STRING, ColumnType.BYTE_ARRAY):
        raw = raw[1:] if raw[0] == _EMPTY else raw
        return raw.decode(errors="replace") if kind == ColumnType.STRING else raw
    if ColumnType.INT8 <= kind <= ColumnType.INT64:
        return int.from_bytes(raw, "little", signed=True)
    raise Malformed(f"found a column of type {kind}, expected texts and whole numbers")


def _number(value: int) -> bytes:
    size = next(each for each in _SIZES if -(1 << 8 * each - 1) <= value < 1 << 8 * each - 1)
    return value.to_bytes(size, "little", signed=True)


def _bytes(raw: bytes) -> bytes:
    return raw if raw and raw[0] != _EMPTY else bytes([_EMPTY]) + raw
