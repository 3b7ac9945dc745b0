"""The repository's Python files, each parsed once in a process however many tests read it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """Returns a file that no test writes."""
    return ast.parse(path.read_bytes())


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements in it, however deep; much faster than `ast.walk`."""
    ahead = [tree]
    while ahead:
        node = ahead.pop()
        yield node
        for block in ("body", "orelse", "handlers", "finalbody", "cases"):
            ahead += getattr(node, block, ())


@cache
def imported(path: Path) -> tuple[tuple[str, str | None], ...]:
    """Full names of all that a module imports, and what it calls each instead: `from a import b`
    is `a.b`. Relative imports are left out. For files that no test writes."""
    names: list[tuple[str, str | None]] = []
    for node in statements(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names += [(alias.name, alias.asname) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += [(f"{node.module}.{alias.name}", alias.asname) for alias in node.names]
    return tuple(names)
