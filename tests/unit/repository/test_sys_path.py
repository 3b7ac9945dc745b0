"""No test alters `sys.path` (docs/testing.md, "Where modules are found")."""

from __future__ import annotations

import ast

import pytest

from tests.unit.repository.sources import parsed
from tests.unit.repository.test_layout import ROOT, tracked_files

_READS = {"copy", "count", "index"}


def is_path(node: ast.AST) -> bool:
    """Returns whether it is `sys.path`, or a part of it."""
    if isinstance(node, ast.Subscript):
        node = node.value
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "path"
        and isinstance(node.value, ast.Name)
        and node.value.id == "sys"
    )


def alters_the_path(tree: ast.AST) -> bool:
    """Returns whether the source assigns `sys.path`, deletes of it, or calls what changes it."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                if any(is_path(part) for target in targets for part in ast.walk(target)):
                    return True
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target) if is_path(target):
                return True
            case ast.Call(func=ast.Attribute(value=value, attr=verb)):
                if is_path(value) and verb not in _READS:
                    return True
            case ast.ImportFrom(module="sys", names=names):
                if any(alias.name == "path" for alias in names):
                    return True
    return False


@pytest.mark.parametrize(
    ("source", "alters"),
    [
        ("sys.path.insert(0, folder)", True),
        ("sys.path[:0] = [folder]", True),
        ("sys.path = [folder, *sys.path]", True),
        ("sys.path += [folder]", True),
        ("del sys.path[0]", True),
        ("from sys import path", True),
        ("before = [*sys.path]", False),
        ("found = sys.path.index(folder)", False),
        ("monkeypatch.syspath_prepend(folder)", False),
        ("os.path.join(folder)", False),
    ],
)
def test_what_alters_the_path_is_noticed(source: str, alters: bool) -> None:
    assert alters_the_path(ast.parse(source)) is alters


def test_no_test_alters_the_path() -> None:
    altered_in = [
        str(path.relative_to(ROOT))
        for path in tracked_files()
        if path.suffix == ".py"
        and path.is_relative_to(ROOT / "tests")
        and "sys" in path.read_text()
        and alters_the_path(parsed(path))
    ]
    assert not altered_in, (
        f"found {altered_in}, expected none: take `monkeypatch.syspath_prepend`, or give a process "
        "of its own its PYTHONPATH"
    )
