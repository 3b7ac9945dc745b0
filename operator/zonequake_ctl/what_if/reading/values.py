"""Values that several parts of a what-if file share: nodes, partition numbers, whole numbers."""

from __future__ import annotations

from zonequake_ctl.what_if.reading.located import MAX_WHOLE, TextPlace
from zonequake_ctl.what_if.reading.question import Attributes

MAX_TERM = 900_000_000
"""A term stands below a lineage's 10**9, and later elections count on from it."""


def read_nodes(place: TextPlace) -> dict[str, Attributes]:
    """Nodes by name, each with attributes or a list of tags. Raises WhatIfError."""
    nodes: dict[str, Attributes] = {}
    for name, inner in place.entries("a mapping of node names to attributes"):
        nodes[TextPlace(name, place.path or "topology").text("a node's name")] = _attributes(inner)
    return nodes


def _attributes(place: TextPlace) -> Attributes:
    expected = "attributes ({region: EU}) or a list of tags ([EU, SSD])"
    if place.value is None:
        return {}
    if isinstance(place.value, list):
        return {item.text("a tag"): "" for item in place.items(expected)}
    found: dict[str, str] = {}
    for key, inner in place.entries(expected):
        if isinstance(inner.value, dict | list):
            inner.refuse("an attribute's value, a text or a number")
        found[str(key)] = _attribute(inner.value)
    return found


def _attribute(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def read_number(place: TextPlace, partitions: int) -> int:
    """A partition's number, written as a number or as a text. Raises WhatIfError."""
    value = place.value
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < partitions:
        last = partitions - 1
        place.refuse("the partition 0" if last == 0 else f"a partition between 0 and {last}")
    return value


def read_whole(place: TextPlace | None, what: str, most: int = MAX_WHOLE) -> int:
    """A whole number, 0 if it isn't there. Raises WhatIfError."""
    return 0 if place is None else place.whole(f"{what}, a whole number (0 to {most})", most=most)


def read_term(place: TextPlace | None) -> int:
    """A term, 0 if it isn't there. Raises WhatIfError."""
    return read_whole(place, "a term", MAX_TERM)
