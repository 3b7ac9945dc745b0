"""Some findings with the operations around them, so that a report shows what happened there.

Of each kind one comes first, then one of each kind and partition, then more over the whole time;
the most severe ones first. A report names the query for those that it leaves out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zonequake_analysis.checks.search.witness import WitnessOperation
from zonequake_analysis.post_mortem.cells import FindingCell
from zonequake_analysis.tables.check_findings import FOUND_BY, CheckFinding

MOST_EXAMPLES = 160


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


def examples_of_operations(findings: DataFrame, cells: Sequence[FindingCell]) -> list[Example]:
    """Returns the first finding of each of `cells` from the table `findings`."""
    if not cells:
        return []
    moments = sorted({cell.first_ns for cell in cells})
    wanted = {(*cell.series, cell.first_ns): cell for cell in cells}
    kept: dict[tuple[object, ...], Example] = {}
    rows = (
        findings.where((F.col("found_by") != FOUND_BY) & F.col("at_ns").isin(moments))
        .limit(20 * MOST_EXAMPLES)
        .collect()
    )
    for row in sorted(rows, key=lambda row: row["key"] or ""):
        zone = row["zone"] or ""
        series = (row["check"], row["kind"], row["found_by"], zone, row["partition"])
        place = (*series, row["at_ns"])
        if place in wanted:
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
