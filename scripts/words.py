"""Finds words that docs/style.md replaces, in pages, docstrings, comments, texts and help, and
docstrings that begin without a verb or a noun, or are a question.

    scripts/words.py [FILE...]     these files; without any, all that the repository has

Prints file, line, what was found and what to write instead; ends with 1 if there was anything.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
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
_READ = (".md", ".py", ".yaml", ".yml", ".sh", ".j2", ".tpl", ".txt")
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
_PERSON = re.compile(r"\b(?:whoever|somebody|someone)\b", re.IGNORECASE)
_PERSON_SEEN = re.compile(rf"{_PERSON.pattern}|\b(?:nobody|anybody|everybody)\b", re.IGNORECASE)
"""In texts that users see."""
_NO_PERSON = "the node, process, client or person that it is"
_TOLD = re.compile(r"\.j2$|(?:^|/)scenarios/[^/]+\.yaml$|^charts/zonequake/files/alerts\.yml$")
"""Files whose text users see: pages, descriptions of scenarios, alerts."""
_PRODUCT = ("operator/", "chaos/", "workloads/", "analysis/", "/")
"""Where docstrings are read: in the product, and in a file outside of the repository."""


def riddles(source: str) -> Iterator[tuple[int, str, str]]:
    """Yields line from 1, words and advice for docstrings of functions, classes and modules that
    begin without a subject or are a question, for those of functions but properties that begin with
    an article, and for people-words in docstrings and, some more of them, in texts.
    """
    tree = ast.parse(source)
    unseen = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
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
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                persons = _PERSON if id(node) in unseen else _PERSON_SEEN
                for person in persons.finditer(node.value):
                    line = node.lineno + node.value.count("\n", 0, person.start())
                    yield line, person.group(), _NO_PERSON
            continue
        if found is not None:
            yield node.body[0].lineno, found, advice


def people_seen(template: str) -> Iterator[tuple[int, str, str]]:
    """Yields line from 1, word and advice for people-words in a text that users see."""
    for number, line in enumerate(template.splitlines(), 1):
        for person in _PERSON_SEEN.finditer(line):
            yield number, person.group(), _NO_PERSON


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
    """The files that are looked at, from the root: also those that nobody has added yet."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    return [name for name in listed if name.endswith(_READ) and not name.startswith(_NOT_READ)]


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
            *(people_seen(text) if _TOLD.search(name) else ()),
        ]:
            found += 1
            print(f"{name}:{line}: {words!r}: write {instead}")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
