"""Whole lines of a range of bytes, in pieces of some megabytes, however long a line is.

    range ── 8 MB ── 8 MB ──┐ the last line begins here and ends far after the range:
                            └─ blocks of 1 MB until its end

A file is read only in blocks, never byte by byte: a line of 50 MB costs as many reads as 50 MB of
short lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from zonequake_analysis.storage.location import Location
from zonequake_analysis.text.strange_bytes import MARK

_PIECE_BYTES = 8 * 1024 * 1024
BLOCK_BYTES = 1024 * 1024
"""Bytes read at once while only the end of a line is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinePiece:
    """Whole lines, each with its end. `at`: the first line's place in the file; `torn`: the last
    line has no end in the file, and got one here.
    """

    content: bytes | memoryview
    at: int
    torn: bool = False


def pieces(path: Location, start: int, stop: int) -> Iterator[LinePiece]:
    """Yields the lines of a file that begin in [start, stop), without a byte order mark."""
    for piece in _pieces(path, start, stop):
        if piece.at == 0 and bytes(piece.content[: len(MARK)]) == MARK:
            yield replace(piece, content=piece.content[len(MARK) :], at=len(MARK))
        else:
            yield piece


def _pieces(path: Location, start: int, stop: int) -> Iterator[LinePiece]:
    with path.open() as stream:
        at = start
        if at > 0:
            stream.seek(at - 1)
            at += sum(map(len, until_line_end(stream))) - 1
            stream.seek(at)
        while at < stop:
            piece = stream.read(min(_PIECE_BYTES, stop - at))
            if not piece:
                return
            end = piece.rfind(b"\n") + 1
            if end == len(piece):
                yield LinePiece(content=piece, at=at)
            elif end and at + len(piece) < stop:
                # The line begun here is read again: that is cheaper than to copy all the others.
                yield LinePiece(content=memoryview(piece)[:end], at=at)
                stream.seek(at + end)
            else:
                piece = b"".join([piece, *until_line_end(stream)])
                end = len(piece)
                torn = not piece.endswith(b"\n")
                yield LinePiece(content=piece + b"\n" if torn else piece, at=at, torn=torn)
                stream.seek(at + end)
            at += end


def until_line_end(stream: BinaryIO) -> Iterator[bytes]:
    """Yields the bytes from here through the next line's end, or to the file's own end."""
    while block := stream.read(BLOCK_BYTES):
        end = block.find(b"\n") + 1
        if end:
            yield block[:end]
            return
        yield block
