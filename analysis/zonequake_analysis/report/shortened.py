"""Long lists and long texts of a run, shortened: a report stays small whatever the run holds."""

from __future__ import annotations

from collections.abc import Sequence

MOST_ELEMENTS = 12
"""Elements of a list that a report shows, and two or three beside one that it is about."""

_AT_EACH_END = 4
_MOST_TEXT = 120


def ends_of(elements: Sequence[int], about: int | None = None) -> list[int | None]:
    """Returns the first and the last elements, and those around `about`; None where some are left
    out.
    """
    if len(elements) <= MOST_ELEMENTS:
        return list(elements)
    last = len(elements) - _AT_EACH_END
    places = {*range(_AT_EACH_END), *range(last, len(elements))}
    if about is not None and about in elements:
        place = elements.index(about)
        places |= {place - 1, place, place + 1} & set(range(len(elements)))
    shown: list[int | None] = []
    before = -1
    for place in sorted(places):
        if place != before + 1:
            shown.append(None)
        shown.append(elements[place])
        before = place
    return shown


def brief(text: str) -> str:
    """Returns the text, or the beginning of a long one."""
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 1]}…"
