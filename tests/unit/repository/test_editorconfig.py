"""What .editorconfig tells editors is how the files are."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from configparser import ConfigParser
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.unit.repository.test_layout import ROOT, tracked_files

STEPPED = {".js", ".json", ".sh", ".toml", ".tpl", ".txt", ".yaml", ".yml"}
"""Ends of files in which every line is indented by whole steps."""


def names_of(pattern: str) -> list[str]:
    """Returns the patterns that one with alternatives in braces stands for."""
    pieces = re.split(r"\{([^}]*)\}", pattern)
    choices = [each.split(",") if number % 2 else [each] for number, each in enumerate(pieces)]
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def sections() -> list[tuple[list[str], dict[str, str]]]:
    parser = ConfigParser()
    parser.read_string("[the whole]\n" + (ROOT / ".editorconfig").read_text())
    return [(names_of(name), dict(parser[name])) for name in parser.sections()[1:]]


def wanted(name: str) -> dict[str, str]:
    """Returns the settings of a file: those of later sections come before those of earlier ones."""
    found: dict[str, str] = {}
    for patterns, settings in sections():
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            found |= settings
    return found


def texts() -> Iterator[tuple[Path, str]]:
    for path in tracked_files():
        content = b"" if path.is_symlink() else path.read_bytes()
        if content and b"\0" not in content:
            yield path, content.decode()


def otherwise(path: Path, text: str, settings: dict[str, str]) -> Iterator[str]:
    """Yields how a file differs from its settings."""
    if "\r" in text:
        yield "lines don't end with a line feed alone"
    if settings["insert_final_newline"] == "true" and not text.endswith("\n"):
        yield "the last line has no end"
    if settings["trim_trailing_whitespace"] == "true" and re.search(r"[ \t]$", text, re.MULTILINE):
        yield "spaces at the end of a line"
    is_tabbed = bool(re.search(r"^\t", text, re.MULTILINE))
    if settings["indent_style"] == "tab" and re.search(r"^ +\S", text, re.MULTILINE):
        yield "spaces instead of tabs"
    if settings["indent_style"] == "space" and is_tabbed:
        yield "tabs instead of spaces"
    size = settings["indent_size"]
    depths = [len(spaces) for spaces in re.findall(r"^( +)\S", text, re.MULTILINE)]
    if path.suffix in STEPPED and size.isdigit() and depths and min(depths) != int(size):
        yield f"steps of {min(depths)} spaces instead of {size}"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.go", "func f() {\n    x()\n}\n", ["spaces instead of tabs"]),
        ("a.yaml", "a:\n    b: 1\n", ["steps of 4 spaces instead of 2"]),
        ("a.sh", "if x; then\n\ty\nfi\n", ["tabs instead of spaces"]),
        ("a.md", "a \nb", ["the last line has no end", "spaces at the end of a line"]),
        ("a.sum", "a ", []),
    ],
)
def test_a_file_that_differs_is_noticed(name: str, text: str, says: list[str]) -> None:
    assert list(otherwise(Path(name), text, wanted(name))) == says


def test_every_file_is_as_its_editor_is_told() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {what}"
        for path, text in texts()
        for what in otherwise(path, text, wanted(path.name))
    ]
    assert found == []


def test_every_section_is_that_of_a_file() -> None:
    names = {path.name for path in tracked_files()}
    unused = [
        pattern
        for patterns, _ in sections()
        for pattern in patterns
        if not any(fnmatchcase(name, pattern) for name in names)
    ]
    assert unused == []
