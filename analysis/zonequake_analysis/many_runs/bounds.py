"""Bounds beyond which a difference is a regression: `p99=1.5`, `window=500`, `rate=0.8`. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class BoundKind(StrEnum):
    """The way in which candidate and base are compared."""

    RATIO = "ratio"
    ADDED = "added"


KINDS = {
    "p50": BoundKind.RATIO,
    "p95": BoundKind.RATIO,
    "p99": BoundKind.RATIO,
    "p99_ratio": BoundKind.RATIO,
    "rate": BoundKind.RATIO,
    "window": BoundKind.ADDED,
    "windows": BoundKind.ADDED,
    "partitions": BoundKind.ADDED,
    "unexplained": BoundKind.ADDED,
    "resets": BoundKind.ADDED,
    "sacrificed": BoundKind.ADDED,
    "lost": BoundKind.ADDED,
    "stale": BoundKind.ADDED,
}
"""The kind of each family's bound: a ratio for latencies and rates, the difference for the rest."""

DEFAULTS: Mapping[str, float] = {
    "p50": 1.5,
    "p99": 1.5,
    "window": 500.0,
    "rate": 0.8,
    "lost": 0.0,
    "stale": 0.0,
}
"""Of what counts wrong answers not one more is allowed."""

ABOVE_MS = 10.0
"""A latency up to this is never a regression: if 2 ms become 4, the cause may be the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of one comparison by family; a family without one is shown and not judged."""

    by_family: Mapping[str, float]
    above_ms: float = ABOVE_MS


def parse_bounds(given: Sequence[str], above_ms: float = ABOVE_MS) -> Bounds:
    """Returns the defaults with `NAME=VALUE` set, or removed by `NAME=none`. Raises ValueError."""
    chosen = dict(DEFAULTS)
    if not above_ms >= 0:
        raise ValueError(f"found --above-ms {above_ms:g}, expected 0 or more")
    for text in given:
        name, _, value = text.partition("=")
        if name not in KINDS:
            raise ValueError(
                f"found --bound {text!r}, expected NAME=VALUE with one of the names "
                f"{', '.join(KINDS)}"
            )
        if value == "none":
            chosen.pop(name, None)
            continue
        chosen[name] = _number(text, name, value)
    return Bounds(by_family=chosen, above_ms=above_ms)


def _number(text: str, name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    lowest, highest, words = 0.0, math.inf, "0 or more, of what is added"
    if name == "rate":
        highest, words = 1.0, "a ratio from 0 to 1, for instance rate=0.8"
    elif KINDS[name] is BoundKind.RATIO:
        lowest, words = 1.0, f"a ratio of at least 1, for instance {name}=1.5"
    if not (lowest <= number <= highest and math.isfinite(number)):
        raise ValueError(f"found --bound {text!r}, expected {words}; {name}=none judges it not")
    return number
