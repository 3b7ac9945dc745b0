"""Runs of scenarios through the command, each kept as a line of a file when it was judged."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from zonequake_kube.errors import ChaosError

ROOT = Path(__file__).resolve().parents[2]
EVIDENCE = ROOT / "docs" / "evidence"
JUDGED = range(4)
"""Exit codes of runs with a verdict on the system; others did not reach their end."""

_Line = TypeVar("_Line", bound=msgspec.Struct)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One run: its scenario, by name or file, and what else the command is given. `python_path`: a
    folder of packages that stand before the installed ones, if any.
    """

    scenario: str
    seed: int
    out: Path
    target: str
    image: str = ""
    overrides: Sequence[str] = ()
    python_path: str = ""

    @property
    def command(self) -> list[str]:
        found = [program(), "run", self.scenario, "--seed", str(self.seed), "--out", str(self.out)]
        found += ["--target", self.target]
        found += ["--image", self.image] if self.image else []
        return [*found, *(f"--set={override}" for override in self.overrides)]

    @property
    def environment(self) -> dict[str, str]:
        own = {"PYTHONPATH": self.python_path} if self.python_path else {}
        return {**os.environ, **own}


def judged(
    asked: Asked, beside: AbstractContextManager[None] | None = None
) -> tuple[dict[str, Any], float]:
    """Makes a run, with work beside it; returns its verdict.json, and the seconds that it took.

    A folder that was left by a run that was broken off is put aside. Raises ChaosError if the run
    could not be judged.
    """
    out = asked.out
    if out.exists():
        zonequake("clean", "--all")
        shutil.move(out, out.with_name(f"{out.name}-broken-off-{time.time_ns()}"))
    out.parent.mkdir(parents=True, exist_ok=True)
    begun_s = time.monotonic()
    log = out.with_name(f"{out.name}.log")
    with (
        log.open("w") as file,
        subprocess.Popen(
            asked.command, stdout=file, stderr=subprocess.STDOUT, env=asked.environment
        ) as process,
        beside or nullcontext(),
    ):
        code = process.wait()
    if code not in JUDGED:
        command = " ".join(asked.command)
        raise ChaosError(f"{command} ended with {code}: {log.read_text()[-600:]}")
    return json.loads((out / "verdict.json").read_text()), time.monotonic() - begun_s


def keep(done: object, file: Path) -> None:
    """Appends a run, on disk when it returns; a half line that a crash left is ended first."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab+") as out:
        if out.tell():
            out.seek(-1, os.SEEK_END)
            if out.read(1) != b"\n":
                out.write(b"\n")
        out.write(msgspec.json.encode(done) + b"\n")
        out.flush()
        os.fsync(out.fileno())


def read_lines(file: Path, kind: type[_Line]) -> list[_Line]:
    """Reads the runs so far; a line that a crash cut short counts as not done."""
    found = []
    for line in file.read_bytes().splitlines() if file.exists() else []:
        try:
            found.append(msgspec.json.decode(line, type=kind))
        except msgspec.MsgspecError:
            continue
    return found


def check_names(names: Sequence[str]) -> None:
    """Raises ValueError if a name is there twice."""
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"found the name {name!r} twice: each row needs one of its own")


def program() -> str:
    return str(Path(sys.executable).parent / "zonequake")


def zonequake(*arguments: str) -> None:
    subprocess.run([program(), *arguments], check=True)
