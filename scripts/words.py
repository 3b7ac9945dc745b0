"""Finds words that docs/style.md replaces, in pages, docstrings, comments, texts and help, and
docstrings that begin without a verb or a noun, or are a question; and words for people in comments,
docstrings and texts of Python, charts, workflows, scripts, Makefile and Dockerfiles.

    scripts/words.py [FILE...]     these files; without any, all that the repository has

Prints file, line, what was found and what to write instead; ends with 1 if there was anything.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

INSTEAD = {
    r"anew": '"again"; of something that begins empty: "starts over"',
    r"for ever": '"forever"',
    r"wrong (?:words|usage)": '"usage error", or what is wrong with them',
    r"half is let go": '"is discarded"',
    r"whose error it is": '"tells … from …"',
    r"nobody (?:knows|expected|reads)": "the passive, or the process that does not",
    r"somebody else's (?:process|connection|request)": '"another process\'s", "another client\'s"',
    r"it is told of": '"is reported"',
    r"lays? hands on": '"uses", "writes"',
    r"behind (?:its|the) proof": '"after …"',
    r"analys(?:e|ed|er|ers|ing)": '"analyze", as the command',
    r"needn't": '"need not"',
    r"oughtn't|shan't": '"must not"',
    r"lest|thereof|wherein|hereof|whence|thence": "a sentence of its own",
}
"""Pattern of whole words, and what to write in its place."""

_WORDS = (rf"(?<![\w`-])(?P<w{i}>{words})(?![\w`-])" for i, words in enumerate(INSTEAD))
_ANY = re.compile("|".join(_WORDS), re.IGNORECASE)
_INSTEAD_OF = {f"w{i}": instead for i, instead in enumerate(INSTEAD.values())}
_READ = re.compile(r"\.(?:md|py|yaml|yml|sh|j2|tpl|txt)$|^(?:Makefile|Dockerfile[^/]*)$")
_NOT_READ = ("CHANGELOG.md", "docs/style.md", "requirements/", "scripts/words.py", "tests/")


def findings(text: str) -> Iterator[tuple[int, str, str]]:
    """Line number from 1, what was found there, and what to write instead."""
    for number, line in enumerate(text.splitlines(), 1):
        for match in _ANY.finditer(line):
            yield number, match.group(), _INSTEAD_OF[str(match.lastgroup)]


_NO_SUBJECT = re.compile(
    r"(?:What|Who(?:m|se|ever)?|Of|Where|How|Somebody|Someone|Nobody|Anybody|Those|By|Have|Would)\b"
)
_NO_ACTION = re.compile(
    rf"{_NO_SUBJECT.pattern}|(?:These|Until|From|Let|It|Are|Was|Must|May|Can|Could|Not|With|As)\b"
)
_ARTICLE = re.compile(r"(?:The|A|An)\b(?=\s)")
_QUESTION = re.compile(r"[A-Z][^.?]*\?")
_PEOPLE = re.compile(
    r"(?:\b|(?<=\\n))(?:whoever|(?:no|any|some|every)body|(?:some|every)one)\b", re.IGNORECASE
)
_NO_PERSON = "the node, process, client or person that it is"
_PRODUCT = ("operator/", "chaos/", "workloads/", "analysis/", "/")
"""Where docstrings are judged: in the product, and in a file outside of the repository."""
_NAMES_ONLY = (".md", "benchmarks/evidence_ignite/rules.yaml")
"""Where people-words may stand: in pages, and in the names of rules, which a page has."""


def riddles(source: str) -> Iterator[tuple[int, str, str]]:
    """Yields line from 1, words and advice for docstrings of functions, classes and modules that
    begin without a subject or are a question, and for those of functions but properties that begin
    with an article.
    """
    tree = ast.parse(source)
    verb, noun = 'a verb first, as "Returns"', 'a noun first, as "The …" or "A …"'
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found = _first(node, _NO_ACTION) or _first(node, _QUESTION)
            if found is None and not _is_property(node):
                found = _first(node, _ARTICLE)
            advice = verb
        elif isinstance(node, ast.ClassDef | ast.Module):
            found, advice = _first(node, _NO_SUBJECT) or _first(node, _QUESTION), noun
        else:
            continue
        if found is not None:
            yield node.body[0].lineno, found, advice


def people(text: str) -> Iterator[tuple[int, str, str]]:
    """Yields line from 1, word and advice for each people-word."""
    for number, line in enumerate(text.splitlines(), 1):
        for person in _PEOPLE.finditer(line):
            yield number, person.group(), _NO_PERSON


def people_of_python(source: str) -> Iterator[tuple[int, str, str]]:
    """Yields those in comments, docstrings and texts, not in names. Most files have none."""
    if not _PEOPLE.search(source):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.NAME:
            for number, word, instead in people(token.string):
                yield token.start[0] + number - 1, word, instead


def _people_of(name: str, text: str) -> Iterator[tuple[int, str, str]]:
    if name.endswith(_NAMES_ONLY):
        return iter(())
    return people_of_python(text) if name.endswith(".py") else people(text)


def _first(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module, words: re.Pattern[str]
) -> str | None:
    match = words.match(ast.get_docstring(node) or "")
    return match.group() if match else None


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Returns whether the function is read as an attribute, whose docstring may name its value."""
    names = (ast.unparse(each).rpartition(".")[2] for each in node.decorator_list)
    return any(name in ("property", "cached_property") for name in names)


def tracked() -> list[str]:
    """The files that are looked at, from the root: also those that are not added yet."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    return [name for name in listed if _READ.search(name) and not name.startswith(_NOT_READ)]


def main(names: list[str]) -> int:
    """Prints all findings; the exit code."""
    found = 0
    for name in names or tracked():
        path = ROOT / name
        if not path.exists():  # deleted, and not committed yet
            continue
        text = path.read_text()
        is_product = name.endswith(".py") and name.startswith(_PRODUCT)
        for line, words, instead in [
            *findings(text),
            *(riddles(text) if is_product else ()),
            *_people_of(name, text),
        ]:
            found += 1
            print(f"{name}:{line}: {words!r}: write {instead}")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
