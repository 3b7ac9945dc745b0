"""No part of the harness and no check knows a target by its name; a planted name is found."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.unit.repository.test_layout import ROOT
from zonequake_chaos.kit.entries import target_names
from zonequake_chaos.kit.registry import find_target

BLIND = (
    "chaos/zonequake_chaos",
    "workloads/zonequake_load",
    "analysis/zonequake_analysis",
)
"""Packages that work for any target."""

FORMATS = "analysis/zonequake_analysis/importing"
"""Reads other tools' histories, whose formats have names of stores."""

OWN = find_target("").name
"""Our store has the name of the whole: only a comparison with it knows a target."""


def compared(tree: ast.AST) -> Iterator[str]:
    """The texts that a module compares something with, and the names of what it compares."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        else:
            continue
        for part in parts:
            for one in part.elts if isinstance(part, ast.Tuple | ast.List | ast.Set) else [part]:
                match one:
                    case ast.Constant(value=str(text)):
                        yield text
                    case ast.Name(id=name) | ast.Attribute(attr=name):
                        yield f"={name}"


def constants(tree: ast.AST) -> set[str]:
    """The names that a module binds to the name of our store."""
    return {
        f"={target.id}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and node.value.value == OWN
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def names_of_targets(text: str, *, python: bool, bound: frozenset[str]) -> Iterator[str]:
    small = text.lower()
    for name in target_names():
        if name != OWN and name in small and re.search(rf"\b{re.escape(name)}\b", small):
            yield name
    words = (f'"{OWN}"', *(name.removeprefix("=") for name in bound))
    is_read = python and any(word in text for word in words)
    if is_read and {OWN, *bound} & set(compared(ast.parse(text))):
        yield OWN


def knowing(folders: Iterable[Path]) -> list[str]:
    """The files that name a target, each with the name."""
    texts = {
        path: path.read_text()
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".py", ".yaml") and not path.is_relative_to(ROOT / FORMATS)
    }
    naming = [text for path, text in texts.items() if path.suffix == ".py" and f'"{OWN}"' in text]
    bound = frozenset[str]().union(*(constants(ast.parse(text)) for text in naming))
    return [
        f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name}: {name}"
        for path, text in texts.items()
        for name in names_of_targets(text, python=path.suffix == ".py", bound=bound)
    ]


def test_no_part_of_the_harness_names_a_target() -> None:
    assert "etcd" in target_names()
    assert knowing(ROOT / folder for folder in BLIND) == []


@pytest.mark.parametrize(
    ("file", "text", "name"),
    [
        ("a.py", 'if target == "zonequake":\n    pass\n', "zonequake"),
        ("a.py", 'if "zonequake" in (target,):\n    pass\n', "zonequake"),
        ("a.py", 'if target in ("other", "zonequake"):\n    pass\n', "zonequake"),
        ("a.py", 'match target:\n    case "zonequake":\n        pass\n', "zonequake"),
        ("a.py", 'OURS = "zonequake"\nforeign = target != OURS\n', "zonequake"),
        ("a.py", '"""Works around a bug of etcd."""\n', "etcd"),
        ("a.yaml", "target: {name: etcd}\n", "etcd"),
    ],
)
def test_a_planted_name_is_found(tmp_path: Path, file: str, text: str, name: str) -> None:
    (tmp_path / file).write_text(text)
    assert knowing([tmp_path]) == [f"{file}: {name}"]


def test_the_name_of_the_harness_is_none() -> None:
    text = 'NAME = "zonequake"\nimport zonequake_load\n'
    assert list(names_of_targets(text, python=True, bound=frozenset({"=NAME"}))) == []
