"""Text from outside (a run folder) that goes into reports and onto terminals.

A run's names, keys and errors come from the system under test. They may hold control characters,
ends of lines, half characters (surrogates) that no encoding has, and marks that turn the direction
of writing, so that a reader sees another text than what is there. Pure.
"""

from __future__ import annotations

import re

MOST_OF_A_NAME = 200
"""Most characters of one name; the rest is cut off."""

_CONTROL = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_DIRECTION = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_INVISIBLE = "\u00ad\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff"
_NO_TEXT = "\ud800-\udfff\ufffe\uffff"
_HIDDEN = re.compile(f"[{_CONTROL}{_DIRECTION}{_INVISIBLE}{_NO_TEXT}]")
_ENDS_A_LINE = re.compile("[\r\x0b\x0c\x1c-\x1e\u0085\u2028\u2029]")


def visible(text: str) -> str:
    """Returns text in which a reader sees every character; lines and tabs stay.

    "a\u202eb"  becomes  "a⟨U+202E⟩b"
    """
    return _HIDDEN.sub(_named, _ENDS_A_LINE.sub("\n", text.replace("\r\n", "\n")))


def one_line(text: str) -> str:
    """Returns the same in one line, with single spaces."""
    return visible(" ".join(text.split()))


def plain(text: str, most: int = MOST_OF_A_NAME) -> str:
    """Returns the same, cut off after `most` characters."""
    line = one_line(text)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _named(found: re.Match[str]) -> str:
    return f"⟨U+{ord(found.group()):04X}⟩"
