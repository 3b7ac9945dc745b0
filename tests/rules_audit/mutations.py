"""Mutations of the rules' functions, in two files, and what they make of a source."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
import yaml

from tests.rules_audit.rules_table import ROOT, Row, place, unit_tests

TABLES = tuple(Path(__file__).with_name(name) for name in ("mutations.yaml", "verdicts.yaml"))
"""Those of docs/rules.md, and those of docs/verdict-rules.md."""
_NAME = re.compile(r"^([\w-]+):", re.MULTILINE)


class Mutation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One wrong idea about one function: a text in it that is replaced, or what it always returns.

    A text of several lines is written as if its first line stood at the left margin.
    """

    function: str
    replace: str = ""
    by: str = ""
    returns: str = ""


def load(*paths: Path) -> dict[str, Mutation]:
    """The mutations by name, of these files or of all.

    Raises:
        msgspec.ValidationError: a file holds something else.
        ValueError: a name stands there twice; YAML would take the last.
    """
    files = paths or TABLES
    text = "\n".join(path.read_text() for path in files)
    twice = [name for name, count in Counter(_NAME.findall(text)).items() if count > 1]
    if twice:
        names = " or ".join(path.name for path in files)
        raise ValueError(f"{names}: found {', '.join(twice)} twice, expected each name once")
    return msgspec.convert(yaml.safe_load(text), dict[str, Mutation])


def apply(mutation: Mutation) -> str:
    """The source of the function's whole module with the mutation.

    Raises:
        ValueError: the function isn't there, or its text isn't there exactly once.
    """
    where = place(mutation.function)
    lines = where.path.read_text().splitlines(keepends=True)
    first, last = where.lines
    if mutation.returns:
        at = where.body - 1
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        return "".join([*lines[:at], f"{indent}return {mutation.returns}\n", *lines[at:]])
    text = "".join(lines[first - 1 : last])
    return "".join([*lines[: first - 1], _replaced(text, mutation), *lines[last:]])


def _replaced(text: str, mutation: Mutation) -> str:
    head = mutation.replace.partition("\n")[0]
    found = []
    for match in re.finditer(re.escape(head), text) if head else ():
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        indent = "\n" + (line if not line.strip() else "")
        sought = mutation.replace.replace("\n", indent)
        if text.startswith(sought, match.start()):
            found.append((match.start(), sought, mutation.by.replace("\n", indent)))
    if len(found) != 1:
        raise ValueError(
            f"{mutation.function}: found {len(found)} times, expected once: {mutation.replace!r}"
        )
    ((start, sought, by),) = found
    return text[:start] + by + text[start + len(sought) :]


def problems(rows: Iterable[Row], mutations: Mapping[str, Mutation]) -> list[str]:
    """What is wrong with the table and its mutations, as far as it shows without running tests."""
    rows = list(rows)
    found = [problem for row in rows for problem in _of_row(row, mutations)]
    used = {name for row in rows for name in row.mutations}
    found += [f"no row names the mutation {name}" for name in mutations if name not in used]
    for name, mutation in mutations.items():
        try:
            compile(apply(mutation), f"<{name}>", "exec")
        except (ValueError, SyntaxError) as error:
            found.append(f"the mutation {name} doesn't apply: {error}")
    return found


def _of_row(row: Row, mutations: Mapping[str, Mutation]) -> list[str]:
    found = []
    if not (row.functions and row.tests and row.mutations):
        found.append(f"{row.rule}: a cell names nothing")
    for function in row.functions:
        try:
            place(function)
        except ValueError as error:
            found.append(f"{row.rule}: {error}")
        if not any(mutations[m].function == function for m in row.mutations if m in mutations):
            found.append(f"{row.rule}: no mutation of {function}")
    for name in row.mutations:
        if name not in mutations:
            found.append(f"{row.rule}: {TABLES[0].parent.relative_to(ROOT)} has no mutation {name}")
        elif mutations[name].function not in row.functions:
            found.append(f"{row.rule}: {name} is a mutation of {mutations[name].function}")
    found += [
        f"{row.rule}: not one unit test is called {name}"
        for name in row.tests
        if name not in unit_tests()
    ]
    return found
