"""Transactions over lists, as the checks of transactions take them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from zonequake_analysis.inputs.shapes import NEVER_NS, OutcomeCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransaction:
    """Appends and reads of lists that are done together or not at all, each key at most once.

    A single append or read is a transaction of one step. `appends`: the element by key; `reads`:
    the list that was read, by key, of an answered one alone. `fin_ns` is NEVER_NS without an
    answer. `position`: its place in the claimed order, None if it claims none.
    """

    op: str
    inv_ns: int
    fin_ns: int = NEVER_NS
    outcome: OutcomeCode = OutcomeCode.OK
    position: int | None = None
    appends: Mapping[str, int] = field(default_factory=dict)
    reads: Mapping[str, Sequence[int]] = field(default_factory=dict)


Element = tuple[str, int]
"""A key, and a value that was appended to it."""


def happened(transactions: Sequence[ListTransaction]) -> list[ListTransaction]:
    """Returns those that certainly took effect: answered, or open with an append that was read."""
    shown: set[Element] = {
        (key, value)
        for one in transactions
        if one.outcome is OutcomeCode.OK
        for key, values in one.reads.items()
        for value in values
    }
    return [
        one
        for one in transactions
        if one.outcome is OutcomeCode.OK
        or (one.outcome is OutcomeCode.INFO and not shown.isdisjoint(one.appends.items()))
    ]
