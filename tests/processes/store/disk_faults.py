"""Disks that misbehave under a real node: a C library put before libc, and raw damage of files."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb
import pytest

from tests.processes.store.local_node import Node

SOURCE = Path(__file__).with_suffix(".c")


def built(folder: Path) -> Path:
    """The library, compiled. Fails, never skips: scripts/setup.sh installs a compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.fail("there is no C compiler to build the disk faults; run scripts/setup.sh")
    library = folder / "disk_faults.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, SOURCE, "-ldl"],
        check=True,
    )
    return library


class FaultyDisk:
    """The disk of one node. It behaves until one of the faults begins; call before the start."""

    def __init__(self, node: Node, library: Path) -> None:
        self._control = node.directory.parent / f"{node.name}.faults"
        self._control.touch()
        node.environment |= {"LD_PRELOAD": str(library), "ZQ_DISK_FAULTS": str(self._control)}

    def behave(self) -> None:
        self._say("")

    def fail_syncs(self, environment: str) -> None:
        self._say(f"sync-eio /{environment}/data.mdb 0\n")

    def fill(self) -> None:
        """No file of the node grows any more; what it has it may use again."""
        self._say(f"full /{self._control.stem}/ 0\n")

    def take_all(self) -> None:
        """No page finds room, as on a file system that never writes in place."""
        self._say(f"taken /{self._control.stem}/ 0\n")

    def fail_metas(self, environment: str) -> None:
        """Pages find room, but not the one that says which of them count."""
        self._say(f"head /{environment}/data.mdb 0\n")

    def slow_syncs(self, environment: str, milliseconds: int) -> None:
        self._say(f"slow /{environment}/data.mdb {milliseconds}\n")

    def _say(self, faults: str) -> None:
        fresh = self._control.with_suffix(".fresh")
        fresh.write_text(faults)
        fresh.replace(self._control)


def flip_bit(file: Path, at: int) -> None:
    """Flip one bit of a file; a process that maps it sees it at once."""
    with file.open("r+b") as raw:
        raw.seek(at)
        byte = raw.read(1)[0]
        raw.seek(at)
        raw.write(bytes([byte ^ 0x10]))


def places(file: Path, content: bytes) -> list[int]:
    """Where these bytes are in a file."""
    raw = file.read_bytes()
    found, at = [], raw.find(content)
    while at >= 0:
        found.append(at)
        at = raw.find(content, at + 1)
    return found


@contextmanager
def between_commits(file: Path) -> Iterator[None]:
    """Hold LMDB's lock for those who write, so that in no process a commit is half done."""
    with lmdb.open(str(file.parent), map_size=1 << 30) as environment:
        transaction = environment.begin(write=True)
        try:
            yield
        finally:
            transaction.abort()
