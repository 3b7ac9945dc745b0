"""docs/rules.md names code and tests that exist, and every hole of the design."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OPERATOR = ROOT / "operator" / "zonequake_operator"
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\|)\|(?!\|)", line)[1:-1]]
    for line in (ROOT / "docs" / "rules.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| ---", "| rule", "| hole |"))
]


@cache
def defined(path: Path) -> frozenset[str]:
    """Names of functions and classes of a module, also those inside classes."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    tree = ast.parse(path.read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


@cache
def named_tests() -> frozenset[str]:
    found = (defined(path) for path in (ROOT / "tests" / "unit").rglob("test_*.py"))
    return frozenset[str]().union(*found)


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:60])
def test_a_rule_has_code_and_a_test_that_exist(row: list[str]) -> None:
    assert len(row) == 3
    assert quoted(row[1])
    assert quoted(row[2])
    for name in quoted(row[1]):
        module, _, function = name.partition(".")
        assert function in defined(OPERATOR / f"{module}.py"), name
    for name in quoted(row[2]):
        assert name in named_tests(), name


def test_every_hole_has_a_row() -> None:
    holes = {int(row[0].split()[0]) for row in ROWS if row[0].split()[0].isdigit()}
    assert holes == set(range(1, 16))
