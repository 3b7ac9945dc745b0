"""Some findings with the operations around them, so that a report shows what happened there.

Of each kind one comes first, then one of each kind and partition, then more over the whole time;
the most severe ones first. A report names the query for those that it leaves out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from zonequake_analysis.checks.search.witness import WitnessOperation
from zonequake_analysis.post_mortem.finding_cells import FindingCell
from zonequake_analysis.tables.check_findings import FOUND_BY, CheckFinding

MOST_EXAMPLES = 160

_PLACE = ("check", "kind", "found_by", "zone", "partition", "at_ns")
_RANK = ("key", "value", "write_op")
"""Columns that choose one finding of a place, where a read that misses many appends has many."""

_Place = tuple[object, ...]
_Rank = tuple[str, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """The first finding of a cell. Times in ns of the run's own clock.

    `named`: the operations that the finding itself names; `around`: they and those near them.
    """

    cell: FindingCell
    text: str
    key: str | None = None
    node: str | None = None
    value: int | None = None
    magnitude_ns: int | None = None
    named: tuple[str, ...] = ()
    around: tuple[WitnessOperation, ...] = ()


def chosen(cells: Sequence[FindingCell], severity: dict[str, int]) -> list[FindingCell]:
    """Returns the cells whose first finding becomes an example, the most important first.

    `severity`: the place of each check, 0 for the most severe.
    """
    by_series: dict[tuple[object, ...], list[FindingCell]] = defaultdict(list)
    for cell in sorted(cells, key=lambda cell: cell.first_ns):
        by_series[cell.series].append(cell)
    worst = sorted(
        by_series.values(),
        key=lambda some: (severity.get(some[0].check, len(severity)), some[0].first_ns),
    )
    seen: set[tuple[str, str]] = set()
    first_of_kind: list[FindingCell] = []
    others: list[FindingCell] = []
    rest: list[list[FindingCell]] = []
    for some in worst:
        kind = (some[0].check, some[0].kind)
        (others if kind in seen else first_of_kind).append(some[0])
        seen.add(kind)
        rest.append(some[1:])
    kept = [*first_of_kind, *others][:MOST_EXAMPLES]
    left = MOST_EXAMPLES - len(kept)
    more = [cell for some in rest for cell in some]
    if len(more) > left:  # over the whole time, not the first ones only
        more = [more[i * len(more) // left] for i in range(left)] if left else []
    return kept + more


def examples_of_checks(
    found: Sequence[CheckFinding], cells: Sequence[FindingCell]
) -> list[Example]:
    """Returns the examples among findings of checks that need no operations."""
    wanted: dict[tuple[object, ...], FindingCell] = {
        (*cell.series, cell.first_ns): cell for cell in cells
    }
    kept: dict[tuple[object, ...], Example] = {}
    for one in found:
        place = (one.check, one.kind, FOUND_BY, one.zone or "", one.partition, one.at_ns)
        cell = wanted.get(place)
        if cell is not None:
            text = one.text
            kept.setdefault(
                place, Example(cell=cell, text=text, node=one.node, magnitude_ns=one.magnitude_ns)
            )
    return list(kept.values())


def one_of_each(
    places: Collection[_Place], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yields a row of `findings` for each of these places that has any: of many always the same."""
    kept: dict[_Place, dict[str, Any]] = {}
    shape = None
    for batch in batches:
        shape = batch.schema
        first: dict[_Place, tuple[_Rank, int]] = {}
        for number, row in enumerate(batch.select([*_PLACE, *_RANK]).to_pylist()):
            if (place := _place(row)) in places:
                first[place] = min(first.get(place, (_rank(row), number)), (_rank(row), number))
        for place, (rank, number) in first.items():
            if place not in kept or rank < _rank(kept[place]):
                kept[place] = batch.slice(number, 1).to_pylist()[0]
    if kept:
        yield pa.RecordBatch.from_pylist(list(kept.values()), schema=shape)


def _place(row: Mapping[str, Any] | Row) -> _Place:
    check, kind, found_by, zone, partition, at_ns = (row[name] for name in _PLACE)
    return (check, kind, found_by, zone or "", partition, at_ns)


def _rank(row: Mapping[str, Any] | Row) -> _Rank:
    return (row["key"] or "", row["value"] or 0, row["write_op"] or "")


def examples_of_operations(findings: DataFrame, cells: Sequence[FindingCell]) -> list[Example]:
    """Returns the first finding of each of `cells` from the table `findings`."""
    if not cells:
        return []
    moments = sorted({cell.first_ns for cell in cells})
    wanted: dict[_Place, FindingCell] = {(*cell.series, cell.first_ns): cell for cell in cells}
    places = frozenset(wanted)

    def few(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return one_of_each(places, batches)

    rows = (
        findings.where((F.col("found_by") != FOUND_BY) & F.col("at_ns").isin(moments))
        .mapInArrow(few, findings.schema)
        .collect()
    )
    kept: dict[_Place, Example] = {}
    for row in sorted(rows, key=_rank):
        place = _place(row)
        named = [*row["ops"], *([row["write_op"]] if row["write_op"] else [])]
        kept.setdefault(
            place,
            Example(
                cell=wanted[place],
                text=row["text"],
                key=row["key"],
                node=row["node"],
                value=row["value"],
                magnitude_ns=row["magnitude_ns"],
                named=tuple(named),
            ),
        )
    return list(kept.values())
