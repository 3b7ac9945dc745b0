"""Has the pieces of histories converted into column files, in a process of low priority.

    HistoryCopy ── the name of a piece that has ended ──▶ zonequake_analysis.inputs.column_files

The analysis reads a piece without its column file from its lines, so nothing depends on it: it may
be missing, be killed, or come too late. What it could not convert is told, and judges nothing.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import StreamReader
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path
from types import TracebackType
from typing import Self

PROGRAM = ("-m", "zonequake_analysis.inputs.column_files")
WAIT_S = 60.0
"""Longest time that the run's end waits for pieces that have no column file yet."""

_READ_BYTES = 4096
_NOT_WRITTEN = "not all column files were written, so that the analysis reads lines"
_NOT_INSTALLED = "ModuleNotFoundError: "
"""Where the analysis isn't installed there are no column files, as documented."""


class ColumnFiles:
    """Converts the pieces of one run, from its entry to its exit."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._ended: asyncio.Queue[str | None] = asyncio.Queue()
        self._work: asyncio.Task[None] | None = None
        self.problem = ""
        """Why not all pieces were converted, in words; empty if they were, or had no time."""

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
        last_line: asyncio.Task[str] | None = None
        try:
            while (name := await self._ended.get()) is not None:
                if process is None:
                    process = await self._started()
                    assert process.stderr is not None
                    last_line = asyncio.create_task(_last_line(process.stderr))
                assert process.stdin is not None
                process.stdin.write(f"{name}\n".encode())
                await process.stdin.drain()
        except OSError as error:  # it can't be started, was killed, or has no pyarrow
            self.problem = f"{_NOT_WRITTEN}: {error}"
        if process is not None and last_line is not None:
            in_time = await _ended(process)
            why = _problem(await last_line, process.returncode)
            self.problem = why if in_time else ""

    async def _started(self) -> Process:
        """In a session of its own: Ctrl-C ends the run, which still collects and converts."""
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *PROGRAM,
            str(self._run),
            stdin=PIPE,
            stdout=DEVNULL,
            stderr=PIPE,
            start_new_session=True,
        )


async def _last_line(stream: StreamReader) -> str:
    """Reads a stream to its end; returns its last line, or the end of it."""
    kept = b""
    while block := await stream.read(_READ_BYTES):
        kept = (kept + block)[-_READ_BYTES:]
    return kept.decode(errors="replace").strip().rpartition("\n")[2]


def _problem(last_line: str, code: int | None) -> str:
    """Returns why not all pieces were converted; empty if they were, or nothing can convert."""
    if not code or last_line.startswith(_NOT_INSTALLED):
        return ""
    return f"{_NOT_WRITTEN}: {last_line or f'their process ended with {code}'}"


async def _ended(process: Process) -> bool:
    """Lets it end what it has been told to do, or kills it; returns whether it ended itself."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), WAIT_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        return False
    return True
