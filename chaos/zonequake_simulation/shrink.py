"""Reduces a list of causes to those needed for the failure (delta debugging).

Source: Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input" (2002), `ddmin`.
The result is 1-minimal: without any single one of its elements there is no failure.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TypeVar

Cause = TypeVar("Cause")


class NothingToShrink(ValueError):
    """The whole list doesn't fail, so that no part of it can explain a failure."""


def shrink(
    causes: Sequence[Cause],
    fails: Callable[[tuple[Cause, ...]], bool],
    *,
    progress: Callable[[int, int], None] = lambda left, runs: None,
) -> tuple[Cause, ...]:
    """Returns the fewest of `causes`, in their order, for which `fails` is still true.

    `fails` must be deterministic. `progress` gets the number of
    causes left and of runs so far. Raises NothingToShrink if all causes together don't fail.
    """
    runs = 0
    tried: dict[tuple[int, ...], bool] = {}

    def still_fails(places: tuple[int, ...]) -> bool:
        nonlocal runs
        if places not in tried:
            runs += 1
            tried[places] = fails(tuple(causes[place] for place in places))
        return tried[places]

    left = tuple(range(len(causes)))
    if not still_fails(left):
        raise NothingToShrink(f"the whole list of {len(causes)} doesn't fail")
    if still_fails(()):
        return ()
    parts = 2
    while len(left) >= 2:
        chunks = _split(left, parts)
        smaller = _reduce(chunks, still_fails)
        if smaller is not None:
            # A chunk alone is searched coarsely; the remainder without one, as finely as before.
            parts = 2 if smaller in chunks else max(parts - 1, 2)
            left = smaller
            progress(len(left), runs)
        elif parts < len(left):
            parts = min(2 * parts, len(left))
        else:
            break
    return tuple(causes[place] for place in left)


def _reduce(
    chunks: list[tuple[int, ...]], fails: Callable[[tuple[int, ...]], bool]
) -> tuple[int, ...] | None:
    """Returns a chunk that fails alone, or a remainder that fails without one."""
    for chunk in chunks:
        if fails(chunk):
            return chunk
    if len(chunks) == 2:
        return None  # each one's complement is the other
    for number in range(len(chunks)):
        rest = tuple(
            place for other, chunk in enumerate(chunks) if other != number for place in chunk
        )
        if fails(rest):
            return rest
    return None


def _split(places: tuple[int, ...], parts: int) -> list[tuple[int, ...]]:
    """Splits places into `parts` ≤ len(places) chunks whose sizes differ by one at most."""
    ends = [len(places) * part // parts for part in range(parts + 1)]
    return [places[start:end] for start, end in itertools.pairwise(ends)]
