"""Compiles a foreign program once per content of its sources, below the checkout's `.zonequake`."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from zonequake_cluster.machine.locks import lock_folder
from zonequake_cluster.supply.toolchain import WITHOUT_DEBUGGING, find_go

_CACHE = Path(__file__).resolve().parents[2] / ".zonequake" / "foreign"
_LOCK_WAIT_S = 1200.0
"""Another process may be at the same build, which takes minutes at worst."""


def go_program(sources: Path, package: str) -> Path:
    """The program of a Go package, at the version that the module in `sources` names."""
    return go_programs(sources, package) / package.rpartition("/")[2]


def go_programs(sources: Path, *packages: str) -> Path:
    """The folder with the programs of these packages, of one module. Raises BuildFailed without Go,
    CalledProcessError otherwise."""

    def build(folder: Path) -> None:
        flags = [*WITHOUT_DEBUGGING, "-ldflags=-s -w"]
        subprocess.run(
            [find_go(print), "build", *flags, "-o", f"{folder}/", *packages],
            cwd=sources,
            env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"},
            check=True,
        )

    return built_once(sources, suffixes=(".mod", ".sum"), build=build)


def built_once(sources: Path, *, suffixes: tuple[str, ...], build: Callable[[Path], None]) -> Path:
    """The folder of what `build` makes of `sources`; it is called if their content has changed.

    `build` gets an empty folder to fill. `suffixes` are those of the files that count as sources.
    Raises TimeoutError if another process holds the build for too long.
    """
    target = _CACHE / f"{sources.name}-{_digest(sources, suffixes)}"
    if target.is_dir():
        return target
    with lock_folder(_CACHE / "locks" / sources.name, wait_s=_LOCK_WAIT_S) as held:
        if not held:
            raise TimeoutError(
                f"another build of {sources} runs since {_LOCK_WAIT_S:.0f} s: end it"
            )
        if not target.is_dir():
            for old in _CACHE.glob(f"{sources.name}-*"):
                shutil.rmtree(old)
            with tempfile.TemporaryDirectory(dir=_CACHE, prefix="building-") as unfinished:
                build(Path(unfinished))
                shutil.copytree(unfinished, f"{unfinished}-done")
                Path(f"{unfinished}-done").replace(target)
    return target


def _digest(sources: Path, suffixes: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for path in sorted(sources.rglob("*")):
        if path.suffix in suffixes:
            digest.update(f"{path.relative_to(sources)}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
