"""Local paths as Spark takes them. Pure.

Spark decodes no URI: of `file:///a%20b` it makes a folder `a%20b`. And it looks for all that match
what it reads, if there are characters of a pattern in it.
"""

from __future__ import annotations

import re
from pathlib import Path

_OF_PATTERNS = re.compile(r"[\\{}\[\]*?]")


def written_at(path: Path) -> str:
    """Returns an absolute path as the place of files that Spark writes."""
    return f"file://{path}"


def read_at(path: Path) -> str:
    """Returns an absolute path as the place of files that Spark reads: that one, and no other."""
    return _OF_PATTERNS.sub(r"\\\g<0>", written_at(path))


def in_sql(text: str) -> str:
    """Returns a text as a literal of Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
