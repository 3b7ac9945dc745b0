"""A docstring names what there is, and begins with what its function does."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.unit.repository.sources import parsed
from tests.unit.repository.test_layout import ROOT, SOURCE_ROOTS, tracked_files

FOREIGN = {
    "Accounts": "a zone in SQL",
    "BasicExecutorFeatureStep": "Spark",
    "CheckPoint.redo": "PostgreSQL",
    "EtcdRequest": "etcd's robustness tests",
    "IGNI": "Ignite's protocol",
    "InternalTableImpl": "Ignite",
    "M_MMAP_THRESHOLD": "glibc",
    "MaybeEtcdResponse": "etcd's robustness tests",
    "PageHeaderData.pd_lsn": "PostgreSQL",
    "SSLSocket.getpeercert": "the standard library",
    "String.hashCode()": "Java",
    "_CLIENT": "the end of a name",
    "_ns": "the end of a name",
    "addedNodes": "the document rebalance",
    "clientId": "Porcupine's log",
    "db.schema.zone1": "a zone in SQL",
    "ddmin": "an algorithm",
    "exceptionAllowsImplicitTxRetry": "Ignite",
    "kubepods": "the kubelet",
    "metastoreInvoke": "the document rebalance",
    "mov": "an instruction",
    "my_zone": "a zone in SQL",
    "org.apache.spark.unsafe.hash.Murmur3_x86_32.hashLong": "Spark",
    "quotaApplierV3.Put": "etcd",
    "zonequake_store_catch_up": "the family of a metric",
    "zonequake_store_catch_up_sent_bytes": "a metric, put together of two parts",
}
"""Names of docstrings that aren't ours, and whose they are."""

NAME = re.compile(r"(?<!`)`([A-Za-z_][\w.]*(?:\(\))?)`(?!`)")
BY_OTHERS = (".c", ".go", ".j2", ".js", ".json", ".tla", ".toml", ".tpl", ".yaml", ".yml", ".sh")
"""Ends of files whose words docstrings may name, too."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def modules() -> dict[Path, ast.Module]:
    return {
        path: parsed(path) for root in SOURCE_ROOTS for path in sorted((ROOT / root).rglob("*.py"))
    }


def names_in(tree: ast.Module) -> Iterator[str]:
    """All names of a module, and the words of its texts that are no docstrings."""
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name
            case ast.AsyncFunctionDef(name=name) | ast.arg(arg=name) | ast.Name(id=name):
                yield name
            case ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.alias(name=name):
                yield from name.split(".")
            case ast.Constant(value=str(text)) if id(node) not in told:
                yield from re.findall(r"\w+", text)


@cache
def known() -> frozenset[str]:
    names = set(dir(builtins))
    for path, tree in modules().items():
        names.update(path.with_suffix("").parts, names_in(tree))
    for path in tracked_files():
        if path.suffix == ".py":
            names.add(path.stem)
        elif path.suffix in BY_OTHERS or path.name.startswith("Dockerfile"):
            names.update(re.findall(r"\w+", path.read_text()))
    return frozenset(names)


def unknown(text: str) -> list[str]:
    """Returns the names in backticks that stand nowhere in the code."""
    found = NAME.findall(text)
    return [name for name in found if not {*name.rstrip("()").split(".")} - {""} <= known()]


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text


def test_a_name_in_a_docstring_is_one_of_the_code_or_has_an_owner() -> None:
    wrong = {
        name: f"{path.relative_to(ROOT)}:{line}"
        for path, tree in modules().items()
        for line, text in docstrings(tree)
        for name in unknown(text)
    }
    assert {name: place for name, place in wrong.items() if name not in FOREIGN} == {}
    assert FOREIGN.keys() - wrong.keys() == set(), "no docstring names them any more"


def test_a_name_that_was_renamed_is_noticed() -> None:
    assert unknown("as `zonequake_store.storage.last_gasp` and `OrderStatus` say") == [
        "zonequake_store.storage.last_gasp"
    ]


def contradiction(function: Function) -> str | None:
    """Returns how the first word of a docstring contradicts what the function returns.

    `Made` is the analysis's name for an iterator of rows; a `Column` may be one of truths.
    """
    told = ast.get_docstring(function) or ""
    returned = ast.unparse(function.returns) if function.returns else ""
    if told.startswith("Yields ") and not re.search("Iter|Generator|Made", returned):
        return f"{function.name} yields nothing, it returns {returned}"
    if re.match(r"Returns (?!at once|when|only|early|if\b)", told) and returned == "None":
        return f"{function.name} returns nothing"
    if told.startswith("Returns whether ") and not re.search(
        "bool|ndarray|column", returned.lower()
    ):
        return f"{function.name} returns {returned}, which is neither true nor false"
    return None


def test_a_docstring_begins_with_what_its_function_does() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{node.lineno}: {found}"
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, Function) and (found := contradiction(node)) is not None
    ] == []


@pytest.mark.parametrize(
    ("source", "is_wrong"),
    [
        ('def f() -> list[int]:\n    """Yields numbers."""', True),
        ('def f() -> Iterator[int]:\n    """Yields numbers."""', False),
        ('def f() -> None:\n    """Returns a number."""', True),
        ('def f() -> None:\n    """Returns at once."""', False),
        ('def f() -> str:\n    """Returns whether it is so."""', True),
        ('def f() -> bool:\n    """Returns whether it is so."""', False),
    ],
)
def test_a_wrong_beginning_is_noticed(source: str, is_wrong: bool) -> None:
    (function,) = ast.parse(source).body
    assert isinstance(function, Function)
    assert (contradiction(function) is not None) == is_wrong
