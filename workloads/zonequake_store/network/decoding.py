"""Decodes frames of either protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from zonequake_store.errors import ProtocolError

FrameBytes = bytes | memoryview
Decoded = TypeVar("Decoded")


def checked(decode: Callable[[FrameBytes], Decoded]) -> Callable[[FrameBytes], Decoded]:
    """`decode` of a msgspec decoder; what is not of the protocol raises ProtocolError."""

    def decoded(frame: FrameBytes) -> Decoded:
        try:
            return decode(frame)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"{len(frame)} bytes are not of the protocol: {error}") from error

    return decoded
