"""The links of the network that a fault cuts: (from, to), by the names of places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zonequake_simulation.scenario import FaultKind

Link = tuple[str, str]


def around(place: str, others: Sequence[str], kind: FaultKind) -> list[Link]:
    """Returns links between a place and the others: DEAF cuts those to it, MUTE those from it, any
    other kind both.
    """
    to = [(other, place) for other in others]
    away = [(place, other) for other in others]
    match kind:
        case FaultKind.DEAF:
            return to
        case FaultKind.MUTE:
            return away
        case _:
            return to + away


def between_halves(places: Iterable[str], choice: int, kind: FaultKind) -> list[Link]:
    """Returns links between two halves, as the bits of `choice` say; with LEAK one half still hears
    the other.
    """
    sides = {place: choice >> number & 1 for number, place in enumerate(places)}
    return [
        (a, b)
        for a in sides
        for b in sides
        if sides[a] != sides[b] and (kind is FaultKind.SPLIT or sides[a])
    ]


def between(inside: Iterable[str], outside: Sequence[str]) -> list[Link]:
    """Returns all links between those inside and those outside, in both directions."""
    links = [(a, b) for a in sorted(inside) for b in outside]
    return links + [(b, a) for a, b in links]
