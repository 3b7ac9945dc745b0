"""Text from outside within Markdown, as GitHub, GitLab and CommonMark read it. Pure.

A run's own words must look as they are: no table's cell ends early, nothing becomes a heading, a
link, a picture, a tag or a formula, and nobody is mentioned.
"""

from __future__ import annotations

import re

from zonequake_analysis.untrusted_text import one_line, visible

MOST_CHARACTERS = 600
"""Most characters of one cell or sentence."""

_MARKS = re.compile(r"[\\`*\[\]|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_ENTITY = re.compile(r"&(?=[#A-Za-z])")
_MENTION = re.compile(r"(?<![A-Za-z0-9])@(?=[A-Za-z0-9])")
_BEGINS_A_BLOCK = re.compile(r"^(?:([#+\-=:])|(\d{1,9})([.)]))")


def cell(text: str, most: int = MOST_CHARACTERS) -> str:
    """Returns text in one line, for a table's cell or the middle of a sentence."""
    line = one_line(text)
    if len(line) > most:
        line = f"{line[: most - 1]}…"
    line = _MARKS.sub(lambda found: f"\\{found.group()}", line)
    line = _ENTITY.sub("&amp;", line).replace("<", "&lt;").replace(">", "&gt;")
    return _MENTION.sub("@<!-- -->", line)


def paragraph(text: str) -> str:
    """Returns text in one line, to begin a line with: it opens no heading, list or rule."""
    return _BEGINS_A_BLOCK.sub(
        lambda found: (
            f"\\{found.group(1)}" if found.group(1) else f"{found.group(2)}\\{found.group(3)}"
        ),
        cell(text),
    )


def fenced(text: str) -> str:
    """Returns lines as code, in a fence that none of the lines closes."""
    shown = visible(text)
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{shown}\n{fence}\n"
