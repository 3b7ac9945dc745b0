"""Local paths as Spark takes them: as they are, and only where it reads escaped."""

from __future__ import annotations

from pathlib import Path

import pytest

from zonequake_analysis.storage.spark_paths import in_sql, read_at, written_at


@pytest.mark.parametrize(
    ("path", "read"),
    [
        ("/a/b", "file:///a/b"),
        ("/a b/c+d%20", "file:///a b/c+d%20"),
        ("/a[1]/{b}*?", r"file:///a\[1\]/\{b\}\*\?"),
        ("/a\\b", r"file:///a\\b"),
    ],
)
def test_only_characters_of_patterns_are_escaped(path: str, read: str) -> None:
    assert written_at(Path(path)) == f"file://{path}"
    assert read_at(Path(path)) == read


def test_a_text_is_a_literal_of_sql() -> None:
    assert in_sql(r"a'b\c") == r"'a\'b\\c'"
