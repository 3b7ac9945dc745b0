"""Runs on their way into a store: a recorded one, the command that makes one, what has arrived."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import yaml

from zonequake_chaos.record.run_folder import RunFolder


def made(folder: Path, name: str) -> RunFolder:
    """A run that has ended, with files of several folders."""
    run = RunFolder.create(folder)
    line = '{"schema":1,"type":"invoke","f":"read","process":1,"op":"1-1"}\n'
    (folder / "history" / "load-0.jsonl").write_text(line * 100)
    (folder / "dumps" / "0-zq-0.jsonl").write_text("{}\n")
    (folder / "events.jsonl").write_text("{}\n" * 10)
    (folder / "run.yaml").write_text(yaml.safe_dump({"run": name, "files": run.files()}))
    return run


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder; of a bucket, those that are there for a reader of objects."""
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


async def zonequake(
    *words: str, folder: Path, environment: dict[str, str], program: tuple[str, ...] = ()
) -> tuple[int | None, str]:
    """The exit code of the command, and what it said."""
    called = program or ("-c", "from zonequake_chaos.commands.cli import main; main()")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *called, *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
        env={**os.environ, **environment, "SPARK_LOCAL_IP": "127.0.0.1", "COLUMNS": "300"},
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()
