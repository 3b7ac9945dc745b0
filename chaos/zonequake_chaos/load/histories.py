"""Copies of the load's histories, which grow in their pods, as files that have an end.

    in the pod    zq-load-z-0-17-load.jsonl   ───────────────────────────────────────▶ grows
    here          zq-load-z-0-17-load.jsonl | zq-load-z-0-17-load.0001.jsonl | ….0002.jsonl

In a store nothing can be appended to a file, so what has been sent must not grow any more; and a
piece that has ended can be converted while the run goes on. The analysis reads all pieces as one
history.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

PIECE_BYTES = 16 * 1024 * 1024
"""Bytes after which a piece ends, at the next line's end: until then it is sent again and again."""

PieceEnded = Callable[[str], None]
"""Takes the name of a piece that has ended."""

FOLLOW_S = 3.0
"""Pause between two looks for what histories have grown by."""

_ENDING = ".jsonl"


class HistoryCopy:
    """The copy of one history file, as far as it goes."""

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        piece_bytes: int,
        piece_ended: PieceEnded = lambda _: None,
    ) -> None:
        """`piece_bytes`: where pieces end."""
        self._folder = folder
        self._stem = name.removesuffix(_ENDING)
        self._piece_bytes = piece_bytes
        self._piece_ended = piece_ended
        self._number = 0
        self._in_piece = 0
        self._ended = False
        self.size_bytes = 0
        """Bytes of all pieces together."""

    def write(self, content: bytes) -> None:
        """Appends what follows the first `size_bytes` bytes of the history.

        Raises OSError; `size_bytes` then says from where to go on, in the same piece.
        """
        while content:
            if self._ended:
                self._number, self._in_piece, self._ended = self._number + 1, 0, False
            part = content[: self._left(content)]
            self._append(part)
            content = content[len(part) :]

    def _left(self, content: bytes) -> int:
        """Returns how many of these bytes belong to the present piece, which ends with a line."""
        ends = content.find(b"\n", max(0, self._piece_bytes - self._in_piece - 1))
        return len(content) if ends < 0 else ends + 1

    def _append(self, part: bytes) -> None:
        with self._file().open("r+b" if self._in_piece else "wb") as file:
            file.seek(self._in_piece)  # a write that failed may have left a part of it
            file.write(part)
            file.truncate()
        self._in_piece += len(part)
        self.size_bytes += len(part)
        long = self._in_piece >= self._piece_bytes
        self._ended = long and part.endswith(b"\n")
        if self._ended:
            self._piece_ended(self._file().name)

    def _file(self) -> Path:
        number = f".{self._number:04}" if self._number else ""
        return self._folder / f"{self._stem}{number}{_ENDING}"


class HasHistories(Protocol):
    """Load pods, as they are followed."""

    async def follow(self, folder: Path) -> None: ...


class Followed:
    """Brings the histories up to date every few seconds, from its entry to `stop`.

    A pod or an API server that doesn't answer is asked again: at the end `collect` brings the rest.
    """

    def __init__(self, loads: Sequence[HasHistories], folder: Path) -> None:
        self._loads = loads
        self._folder = folder
        self._ended = asyncio.Event()
        self._work: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._work = asyncio.create_task(self._follow())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Ends it, and waits until nothing is written any more; does nothing a second time."""
        self._ended.set()
        if self._work is not None:
            await self._work

    async def _follow(self) -> None:
        while not self._ended.is_set():
            for load in self._loads:
                with contextlib.suppress(OSError):  # a full disk: `collect` reports it
                    await load.follow(self._folder)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), FOLLOW_S)
