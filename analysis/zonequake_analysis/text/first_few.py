"""Many words in one sentence: the first few of them, and how many more there are."""

from __future__ import annotations

from collections.abc import Sequence


def first_few(
    words: Sequence[str], most: int, *, separator: str = "; ", count: int | None = None
) -> str:
    """Returns up to `most` of the words, as in "a; b; and 3 more".

    `count`: how many there are, if `words` are only the first ones.
    """
    more = (len(words) if count is None else count) - len(words[:most])
    rest = [f"and {more} more"] if more > 0 else []
    return separator.join([*words[:most], *rest])
