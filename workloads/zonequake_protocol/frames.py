"""Frames on a TCP connection: a 4-byte big-endian length, then that many bytes.

Peers, clients and data nodes all speak so; see docs/interfaces.md.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""A longer frame closes the connection: nothing legal comes near, a filler is at most 1 MiB."""

_LENGTH = struct.Struct(">I")

header: Callable[[int], bytes] = _LENGTH.pack
"""The bytes before a frame of this length."""


class FrameTooLong(Exception):
    """A frame is announced that is longer than `MAX_FRAME_BYTES`."""


def split(received: bytearray, take: Callable[[memoryview], None]) -> int:
    """Gives each whole frame in `received` to `take`, and removes them; returns their bytes.

    A view is valid during its call only. If anything is raised, `received` is left as it is.

    Raises:
        FrameTooLong: names the size.
    """
    position, available = 0, len(received)
    view = memoryview(received)
    try:
        while available - position >= 4:
            length = _LENGTH.unpack_from(received, position)[0]
            if length > MAX_FRAME_BYTES:
                raise FrameTooLong(f"a frame of {length} bytes")
            end = position + 4 + length
            if end > available:
                break
            frame = view[position + 4 : end]
            try:
                take(frame)
            finally:
                frame.release()
            position = end
    finally:
        view.release()
    if position:
        del received[:position]
    return position
