"""The questions of docs/tables.md, as a reader copies them from there."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tables.md"


def other_queries() -> list[str]:
    """The queries in quotes, of the page's commands and of its example in Python."""
    above = PAGE.read_text().partition("## Five questions\n")[0]
    return re.findall(r"""(?:--query '|spark\.sql\(")(SELECT [^\n]+?)(?:'|"\))(?=\s)""", above)


def questions() -> dict[str, str]:
    """The queries of the page by their headings."""
    section = PAGE.read_text().partition("## Five questions\n")[2].partition("\n## ")[0]
    found = re.findall(r"^### (.+)\n\n((?:    .*\n)+)", section, flags=re.MULTILINE)
    return {heading: textwrap.dedent(query) for heading, query in found}
