"""A file of a store as a stream of Python, whose errors name its location.

It knows by itself where it is, and asks the store only when it reads: Google's client sends a
request for each move, and one to the end of a file is refused.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from zonequake_analysis.storage.causes import Named, in_words, patiently

if TYPE_CHECKING:
    from pyarrow import NativeFile


class StoredFile(io.RawIOBase):
    """A file of a store, to be read with Python's own buffers. Raises LocationError."""

    def __init__(self, stream: NativeFile, location: Named) -> None:
        self._stream = stream
        self._location = location
        self._at = 0
        with in_words(location):
            self._size = int(stream.size())

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # mypy: Buffer
        wanted = min(len(buffer), self._size - self._at)
        if wanted <= 0:
            return 0
        with in_words(self._location):
            content = patiently(lambda: self._stream.read_at(wanted, self._at))
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)

    def seek(self, offset: int, start: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[start]
        if base + offset < 0:
            raise ValueError(f"found the offset {base + offset}, expected one from 0 on")
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()
