"""The few findings that a report shows in full, each with a witness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Row, SparkSession

from zonequake_analysis.checks import (
    claimed_order,
    diverged,
    list_prefixes,
    loss,
    repeated_values,
    sets,
)
from zonequake_analysis.checks.search.named_witness import witness_of
from zonequake_analysis.checks.search.witness import (
    Finding,
    Witness,
    operation,
)
from zonequake_analysis.inputs.shapes import INDEX_BITS, TERM_BITS
from zonequake_analysis.post_mortem.candidates import Sought, candidates
from zonequake_analysis.storage.location import Location

MOST_WITNESSES = 12
"""Most findings that get a witness: the first of each check and kind, on different keys."""

_WITNESSES_OF_A_KIND = 3
_TELLING = (
    diverged.CHECK,
    loss.CHECK,
    sets.CHECK,
    repeated_values.CHECK,
    list_prefixes.CHECK,
    claimed_order.CHECK,
)
"""Checks, those whose names explain a fault best first; several often find the same fault."""

_OF_ANY_KEY = ("session", "entry-twice")
"""Kinds whose operations may be on several keys of a partition, all at the finding's place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessedFinding:
    """A finding with its witness."""

    finding: Finding
    witness: Witness


def few_of_each_kind(rows: Sequence[Row]) -> list[Row]:
    """Returns the rows to show: of each kind a few keys, first those that no kind before has shown.

    One fault breaks many rules: after a diverged key, another stale key tells a reader more.
    """
    by_kind: dict[tuple[str, str], dict[int, Row]] = {}
    for row in sorted(rows, key=lambda row: _TELLING.index(row["check"])):
        by_kind.setdefault((row["check"], row["kind"]), {}).setdefault(row["key_id"], row)
    chosen: list[Row] = []
    seen: set[int] = set()
    for of_kind in by_kind.values():
        few = sorted(of_kind.values(), key=lambda row: row["key_id"] in seen)
        chosen += few[:_WITNESSES_OF_A_KIND]
        seen |= {row["key_id"] for row in few[:_WITNESSES_OF_A_KIND]}
    return chosen


def witnesses(
    spark: SparkSession,
    files: Sequence[Location],
    rows: Sequence[Row],
    *,
    of_two_places: tuple[str, str],
) -> list[WitnessedFinding]:
    """Returns names and witnesses for a few findings of each kind, on different keys.

    `files`: those of `tables/ops`. `of_two_places`: the check and kind that a write at two places
    counts as. Raises PySparkException.
    """
    chosen = few_of_each_kind(rows)[: 3 * MOST_WITNESSES]
    of_any_key = [
        number
        for number, row in enumerate(chosen)
        if row["kind"] in _OF_ANY_KEY and row["position"] is not None
    ]
    found = candidates(
        spark,
        files,
        [
            *(_sought(row) for row in chosen),
            *(replace(_sought(chosen[number]), key_id=None, copies=False) for number in of_any_key),
        ],
    )
    elsewhere = dict(zip(of_any_key, found[len(chosen) :], strict=True))
    shown: list[WitnessedFinding] = []
    for number, row in enumerate(chosen):
        of_key = found[number].rows()
        operations = [operation(one) for one in of_key]
        first = of_key[0] if of_key else None
        position, named = row["position"], (row["check"], row["kind"])
        check, kind_of = of_two_places if named == sets.TWO_PLACES else named
        finding = Finding(
            check=check,
            kind=kind_of,
            zone=first["zone"] if first else "",
            partition=first["partition"] if first else None,
            key=first["key"] if first else "",
            value=row["value"],
            op=next((o.op for o in operations if o.step.inv_ns == row["at_ns"]), ""),
            at_ns=row["at_ns"],
            position=None
            if position is None
            else (
                position >> (TERM_BITS + INDEX_BITS),
                position >> INDEX_BITS & ((1 << TERM_BITS) - 1),
                position & ((1 << INDEX_BITS) - 1),
            ),
            magnitude_ns=row["magnitude_ns"],
        )
        there = [operation(one) for one in elsewhere[number].rows()] if number in elsewhere else []
        witness = witness_of(operations, finding, there, whole=found[number].whole)
        shown.append(WitnessedFinding(finding=finding, witness=witness))
    return shown


def _sought(row: Row) -> Sought:
    return Sought(
        partition_id=row["partition_id"],
        key_id=row["key_id"],
        at_ns=row["at_ns"],
        values=frozenset(() if row["value"] is None else (row["value"],)),
        position=row["position"],
    )
