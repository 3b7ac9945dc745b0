"""Makes text from outside (names of runs, labels, errors) safe to show. Pure."""

from __future__ import annotations

import re

from zonequake_analysis.untrusted_text import one_line

MOST_CHARACTERS = 200
"""Most characters of one name; the rest is cut off."""

_SHOWN_AS_NUMBER = re.compile(r"[^\w ,;:./%+–—…→()-]|_|(?<=www)\.|:(?! )", re.ASCII)
_REFERS = {"@": "&#64;&#8203;", "#": "&#35;&#8203;"}
"""Signs that name a person or an issue on GitHub, with a zero-width space after each."""


def plain(text: str, most: int = MOST_CHARACTERS) -> str:
    """Returns one line in which a reader sees every character, cut off."""
    line = one_line(text)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def markdown(text: str, most: int = MOST_CHARACTERS) -> str:
    """Returns the text as Markdown that shows it and does nothing else.

    Characters that Markdown could read become references by number, which are never structure
    (CommonMark, "Entity and numeric character references"): no cell, link, tag, code, mention or
    bare address begins in it.
    """
    return _SHOWN_AS_NUMBER.sub(_as_reference, plain(text, most))


def _as_reference(match: re.Match[str]) -> str:
    character = match[0]
    return _REFERS.get(character, f"&#{ord(character)};")
