"""Compiles tikv's Raft as an extension module, and loads it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType

from tests.foreign.built_once import built_once

NO_RUST = "no Rust of version 1.85 or newer, neither on the PATH nor in ~/.cargo/bin"
"""Why tests are skipped; stands in docs/testing.md."""

_SOURCES = Path(__file__).parent / "raft_rs"
_MODULE = "zonequake_raft_rs"
_OLDEST_RUST = (1, 85)


def find_cargo() -> str | None:
    """The machine's cargo, if it has one that is new enough."""
    for candidate in (shutil.which("cargo"), str(Path("~/.cargo/bin/cargo").expanduser())):
        if candidate is not None and _version(candidate) >= _OLDEST_RUST:
            return candidate
    return None


def _version(cargo: str) -> tuple[int, int]:
    try:
        done = subprocess.run([cargo, "--version"], check=False, capture_output=True, text=True)
    except OSError:
        return (0, 0)
    match = re.match(r"cargo (\d+)\.(\d+)", done.stdout)
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def load_raft_rs(cargo: str) -> ModuleType:
    """The extension module, compiled if need be. Raises CalledProcessError if that fails."""

    def build(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as target:
            subprocess.run(
                [cargo, "build", "--release", "--locked", "--quiet", "--target-dir", target],
                cwd=_SOURCES,
                env={**os.environ, "PYO3_PYTHON": sys.executable},
                check=True,
            )
            shutil.copy(Path(target, "release", f"lib{_MODULE}.so"), folder / f"{_MODULE}.so")

    folder = built_once(_SOURCES, suffixes=(".rs", ".toml", ".lock"), build=build)
    loader = ExtensionFileLoader(_MODULE, str(folder / f"{_MODULE}.so"))
    spec = importlib.util.spec_from_loader(_MODULE, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
