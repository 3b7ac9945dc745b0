"""Pieces of histories are converted beside the run, and a run goes on without what does it."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.histories.synthesize import Shape, synthesize
from zonequake_analysis.inputs.column_files import __main__
from zonequake_analysis.inputs.column_files.conversion import column_files
from zonequake_analysis.inputs.column_files.one_range import read_range
from zonequake_analysis.inputs.lines import byte_ranges
from zonequake_analysis.storage.location import Location
from zonequake_chaos.load.column_files import PROGRAM, ColumnFiles
from zonequake_chaos.load.histories import HistoryCopy

STARTED = asyncio.create_subprocess_exec


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.subprocess.Process]:
    """The processes that were started."""
    found: list[asyncio.subprocess.Process] = []

    async def start(*arguments: str, **options: int) -> asyncio.subprocess.Process:
        found.append(await STARTED(*arguments, **options))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    return found


@pytest.mark.parametrize("loop", [asyncio.run, uvloop.run])
def test_each_piece_that_has_ended_has_its_column_file_when_the_run_ends(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    started: list[asyncio.subprocess.Process],
    loop: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    monkeypatch.setattr(f"{ColumnFiles.__module__}.WAIT_S", 3600.0)  # for a busy machine
    synthesize(tmp_path / "pod", Shape(operations=300, partitions=2, keys=8, files=1))
    content = (tmp_path / "pod" / "history" / "load-0.jsonl").read_bytes()
    run = tmp_path / "run"
    (run / "history").mkdir(parents=True)

    async def copied() -> None:
        async with ColumnFiles(run) as columns:
            copy = HistoryCopy(
                run / "history", "a.jsonl", piece_bytes=60_000, piece_ended=columns.piece_ended
            )
            for at in range(0, len(content), 10_000):
                copy.write(content[at : at + 10_000])
                await asyncio.sleep(0)

    loop(copied())
    pieces = sorted((run / "history").iterdir(), key=lambda file: (len(file.name), file.name))
    found = column_files(Location.of(run))
    assert len(pieces) > 3
    assert set(found) == {f"{piece.name}.0.arrows" for piece in pieces[:-1]}, "the last grows"
    assert not any(read_range(part, found).unused for part in byte_ranges(pieces))
    assert [process.returncode for process in started] == [0]


async def test_a_run_without_a_whole_piece_starts_no_process(
    tmp_path: Path, started: list[asyncio.subprocess.Process]
) -> None:
    async with ColumnFiles(tmp_path) as columns:
        HistoryCopy(tmp_path, "a.jsonl", piece_bytes=100, piece_ended=columns.piece_ended).write(
            b"one line\n"
        )
    assert started == []


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("import a_module_that_is_not_there", ""),
        ("import os; os.kill(os.getpid(), 9)", "their process ended with -9"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        (
            "import sys\nfor name in sys.stdin: print(name.strip(), 'torn', file=sys.stderr)\n"
            "sys.exit(1)",
            "a.19.jsonl torn",
        ),
        ("import sys; sys.stdin.read(); print('a warning', file=sys.stderr)", ""),
    ],
)
async def test_a_run_goes_on_when_nothing_converts_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, problem: str
) -> None:
    monkeypatch.setattr(f"{ColumnFiles.__module__}.PROGRAM", ("-c", program))
    async with ColumnFiles(tmp_path) as columns:
        for number in range(20):
            columns.piece_ended(f"a.{number}.jsonl")
            await asyncio.sleep(0.01)
    words = "not all column files were written, so that the analysis reads lines: "
    assert columns.problem == (words + problem if problem else "")


async def test_a_run_goes_on_when_no_process_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    async with ColumnFiles(tmp_path) as columns:
        columns.piece_ended("a.jsonl")
        await asyncio.sleep(0.01)
        columns.piece_ended("a.0001.jsonl")
    assert "No such file" in columns.problem


async def test_a_terminals_interrupt_of_the_run_does_not_reach_the_converter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "import os, sys; sys.stdin.read(); sys.exit(os.getpgrp() != os.getpid())"
    monkeypatch.setattr(f"{ColumnFiles.__module__}.PROGRAM", ("-c", program))
    async with ColumnFiles(tmp_path) as columns:
        columns.piece_ended("a.jsonl")
    assert columns.problem == ""


async def test_a_run_does_not_wait_longer_than_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[asyncio.subprocess.Process]
) -> None:
    monkeypatch.setattr(
        f"{ColumnFiles.__module__}.PROGRAM", ("-c", "import time; time.sleep(3600)")
    )
    monkeypatch.setattr(f"{ColumnFiles.__module__}.WAIT_S", 0.05)
    async with ColumnFiles(tmp_path) as columns:
        columns.piece_ended("a.jsonl")
    assert [process.returncode for process in started] == [-signal.SIGKILL]
    assert columns.problem == ""


def test_an_error_of_one_piece_is_told_and_the_next_one_is_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def convert(history: Location, _: Location) -> int:
        asked.append(history.name)
        raise ValueError("no number")

    monkeypatch.setattr(__main__, "convert", convert)
    monkeypatch.setattr(os, "nice", lambda _: 0)
    monkeypatch.setattr(sys, "stdin", io.StringIO("a.jsonl\nb.jsonl\n"))
    assert __main__.main(Location.of(tmp_path)) == 1
    assert asked == ["a.jsonl", "b.jsonl"]
    assert capsys.readouterr().err.splitlines()[0] == "a.jsonl: ValueError: no number"


async def test_the_converter_ends_when_its_harness_is_killed_and_tells_of_what_it_can_not(
    tmp_path: Path,
) -> None:
    read, write = os.pipe()
    converter = await STARTED(
        sys.executable,
        *PROGRAM,
        str(tmp_path),
        stdin=read,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(read)
    os.write(write, b"missing.jsonl\n")
    os.close(write)  # as the kernel does for a process that was killed
    _, told = await converter.communicate()
    assert converter.returncode == 1
    assert told.startswith(b"missing.jsonl: ")
    assert b"No such file" in told
