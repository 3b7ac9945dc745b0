"""A command's module can be imported with the extras that its error names."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.unit.repository.sources import parsed
from tests.unit.repository.test_dependencies import MODULES
from tests.unit.repository.test_layout import ROOT, SOURCE_ROOTS
from zonequake_chaos.commands.mounted import _COMMANDS, MOUNTED

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {name: extras for name, _, extras, *_ in _COMMANDS}
"""The extras that each command needs, separated by commas, by the commands' names."""


@cache
def paths() -> dict[str, Path]:
    """The product's modules by their names."""
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for root in (ROOT / name for name in SOURCE_ROOTS)
        for path in root.rglob("*.py")
    }


def run_on_import(tree: ast.AST) -> Iterator[ast.stmt]:
    """The statements that run when the module is imported; none of functions or for types."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, ast.stmt | ast.ExceptHandler):
            yield from run_on_import(node)


@cache
def imports(module: str) -> frozenset[str]:
    """Full names of all that an import of the module imports, and of the packages around them."""
    names: set[str] = set()
    for node in run_on_import(parsed(paths()[module])):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            assert not node.level, f"{module}: found a relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(name.rsplit(".", up)[0] for name in names for up in range(name.count(".") + 1))


def closure(module: str) -> frozenset[str]:
    """Names of all modules, ours and others', that an import of this one imports."""
    reached: set[str] = set()
    ahead = [module]
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead += imports(name) if name in paths() else ()
    return frozenset(reached)


def brought(wanted: list[str]) -> set[str]:
    """Modules that these requirements bring."""
    names = {re.match(r"[A-Za-z0-9._-]+", each).group() for each in wanted}  # type: ignore[union-attr]
    return {MODULES.get(name, name.replace("-", "_")) for name in names}


def lacking(module: str, extras: list[str]) -> set[str]:
    """Modules of dependencies that the import needs and that are in none of the extras."""
    optional = PROJECT["optional-dependencies"]
    every = [each for name, extra in optional.items() if name != "all" for each in extra]
    has = brought(PROJECT["dependencies"] + [each for name in extras for each in optional[name]])
    return set(closure(module)) & brought(every) - has


@pytest.mark.parametrize("command", MOUNTED)
def test_a_command_is_loaded_with_the_extras_that_its_error_names(command: str) -> None:
    # The program itself, zonequake_chaos.commands.cli, needs `chaos`.
    extras = ["chaos", *EXTRAS[command].split(",")]
    assert lacking(MOUNTED[command], extras) == set()


def test_an_extra_that_is_not_named_is_noticed() -> None:
    assert lacking("zonequake_simulation.command", ["chaos", "store", "analysis"]) == {
        "lark",
        "re2",
    }


def test_all_that_is_imported_belongs_to_us_to_python_or_to_an_extra() -> None:
    optional = PROJECT["optional-dependencies"]
    every = brought(
        PROJECT["dependencies"]
        + [each for name, extra in optional.items() if name != "all" for each in extra]
    )
    roots = {name.partition(".")[0] for name in every | paths().keys()}
    found = {name.partition(".")[0] for module in MOUNTED.values() for name in closure(module)}
    assert found - roots - sys.stdlib_module_names == set()


def test_what_the_programs_need_is_in_the_extras_of_their_errors() -> None:
    assert lacking("zonequake_chaos.commands.cli", ["chaos"]) == set()
    assert lacking("zonequake_ctl.zq.cli", ["chaos", "operator"]) == set()


def test_the_page_about_installation_explains_every_extra() -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    (told,) = re.findall(
        r"^To install only a part, choose extras\.(.+?)\n\n", page, re.MULTILINE | re.DOTALL
    )
    assert [name for name in PROJECT["optional-dependencies"] if f"`{name}`" not in told] == ["all"]
