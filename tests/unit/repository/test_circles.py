"""No module of the product imports itself by way of others, also not for types or in a function."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from importlib.util import resolve_name
from pathlib import Path

import pytest

from tests.unit.repository.sources import statements
from tests.unit.repository.test_layout import ROOT, SOURCE_ROOTS
from zonequake_store import raft

Graph = dict[str, set[str]]

ALLOWED = frozenset(
    f"zonequake_store.raft.{name}"
    for name in ("handover", "leader", "reads", "reconfigure", "state")
)
"""One state machine; the package's docstring says why."""


def imported(path: Path, package: str) -> Iterator[str]:
    """Full names of all that a module imports: `from a import b` is `a.b`."""
    for node in statements(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def imports_below(roots: Iterable[Path]) -> Graph:
    """Which modules of the packages in these folders each of them imports.

    A name that is no module counts as an import of the package or module that has it.
    """
    paths: dict[str, Path] = {}
    for root in roots:
        for path in root.rglob("*.py"):
            parts = path.relative_to(root).with_suffix("").parts
            paths[".".join(parts).removesuffix(".__init__")] = path
    graph: Graph = {module: set() for module in paths}
    for module, path in paths.items():
        is_package = path.name == "__init__.py"
        for name in imported(path, module if is_package else module.rpartition(".")[0]):
            while name and name not in paths:
                name = name.rpartition(".")[0]
            graph[module].add(name)
        graph[module] -= {module, ""}
    return graph


def circles(graph: Graph) -> set[frozenset[str]]:
    """The strongly connected components of more than one module."""

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        ahead = [start]
        while ahead:
            new = graph[ahead.pop()] - found
            found |= new
            ahead += new
        return found

    reach = {module: reached(module) for module in graph}
    return {
        frozenset(other for other in reach[module] if module in reach[other])
        for module in graph
        if module in reach[module]
    }


def refuse_circles(graph: Graph, *, allowed: frozenset[str]) -> None:
    """Raises AssertionError that names the modules of each circle."""
    found = [", ".join(sorted(circle)) for circle in circles(graph) - {allowed}]
    assert not found, f"modules import each other in a circle: {'; '.join(sorted(found))}"


def test_only_rafts_state_machine_is_a_circle_of_imports() -> None:
    graph = imports_below(ROOT / root for root in SOURCE_ROOTS)
    refuse_circles(graph, allowed=ALLOWED)
    assert ALLOWED in circles(graph), "it is none any more: allow none"


def test_that_circle_says_why() -> None:
    reason = raft.__doc__ or ""
    assert "one state machine" in reason
    assert [name for name in ALLOWED if f"`{name.rpartition('.')[2]}`" not in reason] == []


@pytest.mark.parametrize(
    "back",
    [
        "from planted.first import NAME",
        "from planted import first",
        "import planted.first",
        "from .first import NAME",
        "if TYPE_CHECKING:\n    import planted.first",
        "try:\n    import os\nexcept ImportError:\n    import planted.first",
        "class Late:\n    def late(self):\n        import planted.first",
    ],
)
def test_a_planted_circle_is_found_and_named(tmp_path: Path, back: str) -> None:
    package = tmp_path / "planted"
    package.mkdir()
    (package / "__init__.py").write_text("from planted.first import NAME\n")
    (package / "first.py").write_text("from planted import second, under\n\nNAME = 1\n")
    (package / "second.py").write_text("import json\n\nfrom planted import under\n")
    (package / "under.py").write_text("VALUE = 1\n")
    assert circles(imports_below([tmp_path])) == set()

    (package / "second.py").write_text(back)
    with pytest.raises(AssertionError, match=r"circle: planted\.first, planted\.second\n"):
        refuse_circles(imports_below([tmp_path]), allowed=ALLOWED)


def test_a_name_out_of_a_package_is_an_import_of_the_package(tmp_path: Path) -> None:
    package = tmp_path / "planted"
    package.mkdir()
    (package / "__init__.py").write_text("from planted.first import NAME\n")
    (package / "first.py").write_text("from planted import VALUE\n\nNAME = 1\n")
    assert circles(imports_below([tmp_path])) == {frozenset({"planted", "planted.first"})}
