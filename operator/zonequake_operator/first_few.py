"""Many things in one sentence: the first few of them, and how many more there are."""

from __future__ import annotations

from collections.abc import Sequence

MAX_NAMED = 5
"""Partitions or nodes named in one message; the rest is counted."""


def few(items: Sequence[object]) -> str:
    """Lists the first few by name, and counts the rest."""
    names = ", ".join(str(item) for item in list(items)[:MAX_NAMED])
    more = len(items) - MAX_NAMED
    return f"{names} and {more} more" if more > 0 else names
