"""Which tests may alter `sys.path` (docs/testing.md, "Where modules are found")."""

from __future__ import annotations

import ast
import re

import pytest

from tests.unit.repository.sources import parsed
from tests.unit.repository.test_layout import ROOT, tracked_files

ALTERED_IN = {"tests/rules_audit/audit.py", "tests/warm_processes.py"}
"""Both do it in a process of its own, which ends with it."""

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


def test_only_two_programs_of_tests_alter_the_path_and_the_page_names_them() -> None:
    altered_in = {
        str(path.relative_to(ROOT))
        for path in tracked_files()
        if path.suffix == ".py"
        and path.is_relative_to(ROOT / "tests")
        and "sys" in path.read_text()
        and alters_the_path(parsed(path))
    }
    assert altered_in == ALTERED_IN
    page = (ROOT / "docs" / "testing.md").read_text()
    section = page.partition("## Where modules are found\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(tests/\S+\.py)`", section)) == ALTERED_IN
