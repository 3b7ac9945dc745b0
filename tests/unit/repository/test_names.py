"""A type's name leads to one type: no two classes or type aliases of the product share one."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.unit.repository.sources import statements
from tests.unit.repository.test_layout import ROOT, SOURCE_ROOTS

ALLOWED = {
    frozenset({"DumpEntry", "DumpHeader", "Expectations", "Function"}): (
        "Written by a part and read by the analysis, which knows the others only by what they "
        "write, so each side has a type of its own for the same thing."
    ),
    frozenset({"Entry", "Kind"}): (
        "JSON of the report's page, in the one module that builds it, beside the log's entry and "
        "the kind of a check."
    ),
}
"""Names that two types may have, each group with its reason."""

_PARAMETER = "a parameter of a command"
_ALIAS = re.compile(r"[A-Z]\w*[a-z]\w*")


def types_below(roots: Iterable[Path]) -> dict[str, dict[str, str]]:
    """Returns the meaning of each public class and type alias by its name and its place.

    A class means itself. An alias means its text, so that modules may repeat `Ints` with the same
    text; and what typer reads is a parameter, for commands may share an option whose help differs.
    """
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for root in roots:
        for path in sorted(root.rglob("*.py")):
            file, tree = path.relative_to(root.parent), ast.parse(path.read_bytes())
            for node in statements(tree):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    place = f"{file}:{node.lineno}"
                    found[node.name][place] = place
            for node in tree.body:
                if alias := _alias(node):
                    found[alias[0]][f"{file}:{node.lineno}"] = alias[1]
    return found


def _alias(node: ast.stmt) -> tuple[str, str] | None:
    """Returns the name and the meaning if the statement defines a public type alias."""
    target: ast.expr
    value: ast.expr | None
    if isinstance(node, ast.Assign):
        target, value = node.targets[0], node.value
    elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation).endswith("TypeAlias"):
        target, value = node.target, node.value
    else:
        return None
    if not isinstance(target, ast.Name) or not _ALIAS.fullmatch(target.id):
        return None
    if not isinstance(value, ast.BinOp | ast.Subscript | ast.Name | ast.Attribute | ast.Call):
        return None
    calls = {ast.unparse(each.func) for each in ast.walk(value) if isinstance(each, ast.Call)}
    if isinstance(value, ast.Call) and "NewType" not in calls:
        return None
    is_parameter = any(call.startswith("typer.") or call.endswith("_option") for call in calls)
    return target.id, _PARAMETER if is_parameter else ast.unparse(value)


def shared_names(roots: Iterable[Path]) -> dict[str, list[str]]:
    """Returns the places of each name that has more than one meaning."""
    found = types_below(roots).items()
    return {name: list(places) for name, places in found if len(set(places.values())) > 1}


def test_no_type_name_is_defined_twice_but_for_those_with_a_reason() -> None:
    allowed = frozenset[str]().union(*ALLOWED)
    shared = shared_names(ROOT / root for root in SOURCE_ROOTS)
    twice = [f"{name}: {', '.join(shared[name])}" for name in sorted(shared.keys() - allowed)]
    assert not twice, (
        f"found type names that stand twice: {'; '.join(twice)}; expected each once. Give one of "
        "the types a name that says in what it differs, or add both to ALLOWED with the reason"
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


def test_a_type_alias_that_shares_its_name_is_found_unless_its_meaning_is_the_same(
    tmp_path: Path,
) -> None:
    texts = {
        "a": (
            "Write: TypeAlias = int | str\nInts = list[int]\nItem = TypeVar('Item')\n"
            "Name = Annotated[str, typer.Option(help='of a zone')]\nId = NewType('Id', int)\n"
        ),
        "b": (
            "class Write: ...\nInts = list[int]\nclass Item: ...\nId = str\n"
            "Name = Annotated[str, typer.Option(help='of a key')]\nMOST = Least = 1\n"
        ),
    }
    for package, text in texts.items():
        (tmp_path / package).mkdir()
        (tmp_path / package / "module.py").write_text(text)
    found = shared_names([tmp_path / "a", tmp_path / "b"])
    assert found == {
        "Write": ["a/module.py:1", "b/module.py:1"],
        "Id": ["a/module.py:5", "b/module.py:4"],
    }
