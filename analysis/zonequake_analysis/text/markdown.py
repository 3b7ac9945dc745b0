"""Text from outside within Markdown, as GitHub, GitLab and CommonMark read it. Pure.

A run's own words must look as they are: no table's cell ends early, nothing becomes a heading, a
link, a picture, a tag or a formula, a bare address is no link, and no account is mentioned.
"""

from __future__ import annotations

import re

from zonequake_analysis.text.untrusted_text import plain, visible

MOST_CHARACTERS = 600
"""Most characters of one cell or sentence."""

_READ_BY_MARKDOWN = re.compile(
    r"""[^\w\x80-\U0010ffff ,;:./%+()"'?=-]|(?<![^\W_])_|_(?![^\W_])"""
    r"|(?<=www)\.|:(?=//)|(?<=mailto):|(?<=xmpp):",
    re.IGNORECASE,
)
_REFERS = "@#!"
"""Signs that name a person, an issue or a merge request, also as references by number: a space
without width follows each."""
_BEGINS_A_BLOCK = re.compile(r"^(?:([+\-=:])|(\d{1,9})([.)]))")


def cell(text: str, most: int = MOST_CHARACTERS) -> str:
    """Returns text in one line, for a table's cell or the middle of a sentence.

    Characters that Markdown could read become references by number, which are never structure
    (CommonMark, "Entity and numeric character references"), or stand after a backslash.
    """
    return _READ_BY_MARKDOWN.sub(_as_text, plain(text, most))


def _as_text(found: re.Match[str]) -> str:
    sign = found[0]
    if sign == "`":
        return "\\`"  # our own sentences have many: their source stays readable
    return f"&#{ord(sign)};" + "&#8203;" * (sign in _REFERS)


def paragraph(text: str) -> str:
    """Returns text in one line, to begin a line with: it opens no list, rule or heading."""
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
