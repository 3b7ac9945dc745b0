"""Acknowledged operations on one list, each at its place (lineage, term, index)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.histories.synthesize import SyntheticOperation
from zonequake_analysis.inputs.shapes import Function

SECOND = 1_000_000_000
Location = tuple[int, int, int]


def append(value: int, at_s: float, place: Location, **changes: Any) -> SyntheticOperation:
    lineage, term, index = place
    made = SyntheticOperation(
        f=Function.APPEND,
        key="list",
        partition=0,
        process=value,
        inv_ns=int(at_s * SECOND),
        fin_ns=int(at_s * SECOND) + 1000,
        value=value,
        lineage=lineage,
        term=term,
        index=index,
    )
    return replace(made, **changes)


def read(values: list[int], at_s: float, place: Location, **changes: Any) -> SyntheticOperation:
    process = int(1000 + at_s * 10)
    made = replace(append(0, at_s, place), f=Function.READ, value=values, process=process)
    return replace(made, **changes)
