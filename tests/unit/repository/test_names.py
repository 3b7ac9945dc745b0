"""A class name leads to one class: no two classes of the product share one."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.unit.repository.test_circles import statements
from tests.unit.repository.test_layout import ROOT, SOURCE_ROOTS

ALLOWED = {
    frozenset({"DumpEntry", "DumpHeader", "Expectations", "Function"}): (
        "Written by a part and read by the analysis, which knows the others only by what they "
        "write, so each side has a type of its own for the same thing."
    ),
    frozenset({"Found"}): "What a bucket found, and the same of all buckets as evidence.",
}
"""Names that two classes may have, each group with its reason."""


def classes_below(roots: Iterable[Path]) -> dict[str, list[str]]:
    """Returns the places of each class by its name; a private name is its module's own affair."""
    places: dict[str, list[str]] = defaultdict(list)
    for root in roots:
        for path in sorted(root.rglob("*.py")):
            for node in statements(ast.parse(path.read_bytes())):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(f"{path.relative_to(root.parent)}:{node.lineno}")
    return places


def shared_names(roots: Iterable[Path]) -> dict[str, list[str]]:
    """Returns the places of each name that more than one class has."""
    return {name: found for name, found in classes_below(roots).items() if len(found) > 1}


def test_no_class_name_is_defined_twice_but_for_those_with_a_reason() -> None:
    allowed = frozenset[str]().union(*ALLOWED)
    shared = shared_names(ROOT / root for root in SOURCE_ROOTS)
    twice = [f"{name}: {', '.join(shared[name])}" for name in sorted(shared.keys() - allowed)]
    assert not twice, (
        f"found class names that stand twice: {'; '.join(twice)}; expected each once. Give one of "
        "the classes a name that says in what it differs, or add both to ALLOWED with the reason"
    )
    stale = sorted(allowed - shared.keys())
    assert not stale, f"{stale} are no longer shared: take them off ALLOWED"


def test_a_class_name_that_is_defined_twice_is_found_with_both_places(tmp_path: Path) -> None:
    for package, text in (
        ("a", "class Session: ...\nclass _Line: ...\n"),
        ("b", "class Other: ...\n\n\nclass Session: ...\nclass _Line: ...\n"),
    ):
        (tmp_path / package).mkdir()
        (tmp_path / package / "module.py").write_text(text)
    found = shared_names([tmp_path / "a", tmp_path / "b"])
    assert found == {"Session": ["a/module.py:1", "b/module.py:4"]}
