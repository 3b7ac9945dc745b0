"""docs/glossary.md: one line for each term, in order, and each term stands in the code.

A term stands in the code as a name (`switch_reduce`, `switchReduce` and `switch-reduce` are all
"switch reduce"), as a field of a custom resource, or in a docstring. Comments and sentences of
messages don't count: they use words, and define none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import pytest

from tests.unit.repository.sources import parsed
from zonequake_analysis.checks.transactions.cycles import CycleKind
from zonequake_analysis.verdict import Verdict
from zonequake_load.pod.control import Loop
from zonequake_operator.resources.model import PartitionState
from zonequake_protocol.admin import OrderStatus, ReplicaRole, Stage

ROOT = Path(__file__).resolve().parents[3]
SOURCE_ROOTS = ("operator", "chaos", "workloads", "analysis")
ENTRY = re.compile(r"^- \*\*(.+?)\*\*: \S.*\.$")


def entries() -> list[str]:
    """The terms of the page, in its order."""
    lines = (ROOT / "docs" / "glossary.md").read_text().splitlines()
    terms = []
    for line in lines:
        if line.startswith(("- ", "* ")):
            found = ENTRY.match(line)
            assert found, f"found {line!r}, expected - **term**: one sentence."
            terms.append(found[1])
    return terms


def words(name: str) -> str:
    """The words of a name or a text, in lower case with single blanks."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return " ".join(re.findall(r"[a-z0-9]+", apart.lower()))


def named_and_told(tree: ast.Module) -> Iterator[str]:
    """All names and docstrings of a module."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name
            case ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name) | ast.Attribute(attr=name):
                yield name
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text  # docstrings, also those behind a constant or a field
            case ast.Constant(value=str(text)) if re.fullmatch(r"[\w-]+", text):
                yield text  # names that users see, such as those of checks


def vocabulary() -> str:
    """Everything that counts as code, as lines of words between blanks."""
    told: set[str] = set()
    for root in SOURCE_ROOTS:
        for path in (ROOT / root).rglob("*.py"):
            told.add(path.stem)
            told.update(named_and_told(parsed(path)))
    for crd in (ROOT / "charts" / "zonequake" / "templates" / "crds").glob("*.yaml"):
        told.update(re.findall(r"^ +([a-zA-Z]+):", crd.read_text(), flags=re.MULTILINE))
    return "\n".join(f" {words(each)} " for each in told)


def missing(terms: list[str], code: str) -> list[str]:
    """Those terms that stand nowhere in the code, in the singular or the plural."""
    return [term for term in terms if not re.search(rf" {re.escape(words(term))}(s|es)? ", code)]


@pytest.fixture(scope="module")
def code() -> str:
    return vocabulary()


def test_every_term_of_the_glossary_stands_in_the_code(code: str) -> None:
    assert missing(entries(), code) == []


def test_an_invented_term_is_noticed(code: str) -> None:
    # The parts of the second stand in the code, and the whole doesn't.
    invented = ["quorumlet", "pending survivor lock"]
    assert missing([*invented, "pending lock"], code) == invented


def test_the_glossary_is_in_order_and_names_no_term_twice() -> None:
    terms = [term.casefold() for term in entries()]
    assert terms == sorted(set(terms))


def test_every_key_of_a_partition_has_its_line() -> None:
    keys = {"stable", "pending", "planned", "switchReduce", "switchAppend", "pendingLock"}
    keys |= {"change trigger revision", "resetRevision", "configuration token"}
    assert keys - set(entries()) == set()


WORDS_OF_OUTPUT: tuple[type[StrEnum], ...] = (
    CycleKind,
    OrderStatus,
    PartitionState,
    ReplicaRole,
    Stage,
    Verdict,
)


def test_the_words_by_which_states_and_results_are_told_have_their_lines() -> None:
    told = {words(value) for each in WORDS_OF_OUTPUT for value in each}
    told |= {f"{words(loop)} loop" for loop in Loop}
    told -= {"none", "stable"}  # NONE: no change; STABLE: it is done
    assert told - {words(term) for term in entries()} == set()
