"""Has the pieces of histories converted into column files, in a process of low priority.

    HistoryCopy ── the name of a piece that has ended ──▶ zonequake_analysis.inputs.column_files

The analysis reads a piece without its column file from its lines, so nothing depends on it: it may
be missing, be killed, or come too late.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

PROGRAM = ("-m", "zonequake_analysis.inputs.column_files")
WAIT_S = 60.0
"""Longest time that the run's end waits for pieces that have no column file yet."""


class ColumnFiles:
    """Converts the pieces of one run, from its entry to its exit."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._ended: asyncio.Queue[str | None] = asyncio.Queue()
        self._work: asyncio.Task[None] | None = None

    def piece_ended(self, name: str) -> None:
        """Takes the name of a history file that doesn't grow any more."""
        self._ended.put_nowait(name)

    async def __aenter__(self) -> Self:
        self._work = asyncio.create_task(self._convert())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Waits until all pieces are converted, or for `WAIT_S`."""
        assert self._work is not None
        self._ended.put_nowait(None)
        await self._work

    async def _convert(self) -> None:
        process: Process | None = None
        with suppress(OSError):  # it can't be started, was killed, or has no pyarrow
            while (name := await self._ended.get()) is not None:
                process = process or await self._started()
                assert process.stdin is not None
                process.stdin.write(f"{name}\n".encode())
                await process.stdin.drain()
        if process is not None:
            await _ended(process)

    async def _started(self) -> Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, *PROGRAM, str(self._run), stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL
        )


async def _ended(process: Process) -> None:
    """Lets it end what it has been told to do, or kills it."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), WAIT_S)
    except TimeoutError:
        process.kill()
        await process.wait()
