"""Reads the tables of docs/rules.md and docs/verdict-rules.md: one row for each rule."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "rules.md"
VERDICTS_PAGE = ROOT / "docs" / "verdict-rules.md"
"""Its functions are those of the analysis."""
TESTS = ROOT / "tests" / "unit"
PACKAGES = {
    "zonequake_analysis": ROOT / "analysis" / "zonequake_analysis",
    "zonequake_operator": ROOT / "operator" / "zonequake_operator",
    "zonequake_store": ROOT / "workloads" / "zonequake_store",
}
STORE_SECTIONS = ("update-counters", "Elections")
"""Sections whose functions are the data node's; those of all others of PAGE are the operator's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One rule: functions that decide it, tests that fail without it, mutations that show it."""

    section: str
    rule: str
    functions: tuple[str, ...]
    tests: tuple[str, ...]
    mutations: tuple[str, ...]


def all_rows() -> list[Row]:
    """The rows of both pages."""
    return [
        *rows(PAGE.read_text()),
        *rows(VERDICTS_PAGE.read_text(), package="zonequake_analysis"),
    ]


def rows(page: str, *, package: str = "") -> list[Row]:
    """The rows of all tables of the page, with their functions as `package.module.function`.

    `package`: that of all sections, if they don't have their own.

    Raises:
        ValueError: a row doesn't have the four columns.
    """
    return [row for section in page.split("\n## ")[1:] for row in _rows_of(section, package)]


def _rows_of(section: str, package: str) -> Iterator[Row]:
    title = section.partition("\n")[0].strip("`")
    if not package:
        package = "zonequake_store" if title in STORE_SECTIONS else "zonequake_operator"
    for line in section.splitlines():
        if not line.startswith("| ") or line.startswith(("| ---", "| rule |", "| hole |")):
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\|)\|(?!\|)", line)[1:-1]]
        if len(cells) != 4:
            raise ValueError(
                f"found {len(cells)} cells, expected rule, code, test, mutations: {line}"
            )
        yield Row(
            section=title,
            rule=cells[0],
            functions=tuple(f"{package}.{name}" for name in _quoted(cells[1])),
            tests=_quoted(cells[2]),
            mutations=_quoted(cells[3]),
        )


def _quoted(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", cell))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a function or class stands; `lines`: the first and the last, from 1."""

    package: str
    path: Path
    lines: tuple[int, int]
    body: int
    """The line of its first statement behind the docstring."""


def place(function: str) -> Place:
    """Where `package.module.function` stands.

    Raises:
        ValueError: there is no such module, or not one such function in it.
    """
    package, *inner, module, name = function.split(".")
    path = PACKAGES[package].joinpath(*inner, f"{module}.py")
    if not path.is_file():
        raise ValueError(f"{function}: there is no {path.relative_to(ROOT)}")
    nodes = [node for node in _definitions(path) if node.name == name]
    if len(nodes) != 1:
        raise ValueError(f"{function}: {path.relative_to(ROOT)} defines {name} {len(nodes)} times")
    node = nodes[0]
    first = node.body[1] if ast.get_docstring(node) is not None and node.body[1:] else node.body[0]
    assert node.end_lineno is not None
    return Place(
        package=package, path=path, lines=(node.lineno, node.end_lineno), body=first.lineno
    )


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@cache
def _definitions(path: Path) -> tuple[Definition, ...]:
    return tuple(
        node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, Definition)
    )


@cache
def unit_tests() -> dict[str, Path]:
    """The file of each unit test, by the test's name. One that two files have is left out."""
    files: dict[str, list[Path]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, Definition) and node.name.startswith("test_"):
                files.setdefault(node.name, []).append(path)
    return {name: paths[0] for name, paths in files.items() if len(paths) == 1}
