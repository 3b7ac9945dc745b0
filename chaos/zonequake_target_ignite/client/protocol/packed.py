"""MessagePack values one after another, as Ignite's client protocol writes its messages. Pure.

`msgspec` decodes one value and refuses what follows it; a message is many, and only those before
say how many.
"""

from __future__ import annotations

import struct
from typing import Final, TypeVar

import msgspec

_ENCODER = msgspec.msgpack.Encoder()
_NIL: Final = b"\xc0"
_T = TypeVar("_T")


class Malformed(Exception):
    """The bytes are not what the protocol says."""


def packed(*values: object) -> bytes:
    """Encodes values one after another; `bytes` are binaries, None is nil."""
    return b"".join(map(_ENCODER.encode, values))


class Unpacker:
    """Reads values in their order. Raises Malformed."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def nil(self) -> bool:
        """Returns whether the next value is nil, and passes it if it is."""
        if self._data[self._at : self._at + 1] != _NIL:
            return False
        self._at += 1
        return True

    def text(self) -> str:
        return self._expected(str)

    def text_or_none(self) -> str | None:
        return None if self.nil() else self.text()

    def number(self) -> int:
        return self._expected(int)

    def flag(self) -> bool:
        return self._expected(bool)

    def binary(self) -> bytes:
        return self._expected(bytes)

    def skip(self) -> None:
        """Passes one value of any type but an array or a map."""
        self._next()

    def _expected(self, kind: type[_T]) -> _T:
        value = self._next()
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise Malformed(f"found {value!r} at byte {self._at}, expected {kind.__name__}")
        return value

    def _next(self) -> object:
        code = self._take(1)[0]
        if code <= 0x7F:
            return code
        if code >= 0xE0:
            return code - 0x100
        if 0xA0 <= code <= 0xBF:
            return self._decoded(code & 0x1F)
        if code in _CONSTANTS:
            return _CONSTANTS[code]
        if code in _NUMBERS:
            form = _NUMBERS[code]
            return struct.unpack(form, self._take(struct.calcsize(form)))[0]
        if code in _LENGTHS:
            kind, width = _LENGTHS[code]
            length = int.from_bytes(self._take(width), "big")
            return self._decoded(length) if kind == "text" else self._take(length + (kind == "ext"))
        if code in _FIXED_EXTENSIONS:
            return self._take(_FIXED_EXTENSIONS[code] + 1)
        raise Malformed(f"found the code {code:#x} at byte {self._at - 1}, which begins no value")

    def _decoded(self, length: int) -> str:
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise Malformed(f"found a text that is no UTF-8: {error}") from None

    def _take(self, length: int) -> bytes:
        end = self._at + length
        if end > len(self._data):
            raise Malformed(f"found {len(self._data)} bytes, expected {end} and more")
        taken, self._at = self._data[self._at : end], end
        return taken


_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
    0xCA: ">f",
    0xCB: ">d",
}
_LENGTHS = {
    0xD9: ("text", 1),
    0xDA: ("text", 2),
    0xDB: ("text", 4),
    0xC4: ("binary", 1),
    0xC5: ("binary", 2),
    0xC6: ("binary", 4),
    0xC7: ("ext", 1),
    0xC8: ("ext", 2),
    0xC9: ("ext", 4),
}
_FIXED_EXTENSIONS = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
