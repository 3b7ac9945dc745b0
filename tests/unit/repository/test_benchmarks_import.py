"""Benchmarks run seldom: what they import must still be there."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OURS = ("zonequake_", "tests.", "benchmarks.")
FILES = sorted((ROOT / "benchmarks").rglob("*.py"))


def taken(file: Path) -> Iterator[tuple[str, str]]:
    """Each name that a file imports from this repository, with its module."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(OURS):
            assert node.module is not None
            for name in node.names:
                yield node.module, name.name


@pytest.mark.parametrize("file", FILES, ids=[str(f.relative_to(ROOT)) for f in FILES])
def test_what_a_benchmark_imports_is_there(file: Path) -> None:
    for module, name in taken(file):
        if not hasattr(importlib.import_module(module), name):
            importlib.import_module(f"{module}.{name}")  # or it is a module
