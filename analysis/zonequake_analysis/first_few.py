"""Many words in one sentence: the first few of them, and how many more there are."""

from __future__ import annotations

from collections.abc import Sequence


def first_few(words: Sequence[str], most: int, *, separator: str = "; ") -> str:
    """Returns up to `most` of the words, as in "a; b; and 3 more"."""
    more = len(words) - most
    rest = [f"and {more} more"] if more > 0 else []
    return separator.join([*words[:most], *rest])
