"""All findings of a run over time, with examples: what the report needs of them.

tables/findings ──▶ cells (all) ──▶ chosen cells ──▶ their first findings ──▶ operations around
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from zonequake_analysis.post_mortem.examples import (
    Example,
    chosen,
    examples_of_checks,
    examples_of_operations,
)
from zonequake_analysis.post_mortem.finding_cells import (
    FindingCell,
    cells_of_checks,
    cells_of_operations,
    coarse,
    without_time,
)
from zonequake_analysis.post_mortem.operations_around import around
from zonequake_analysis.storage.location import Location
from zonequake_analysis.tables.check_findings import CheckFinding
from zonequake_analysis.verdict import Check


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingsOverTime:
    """`cells`: all findings with a time; `timeless`: those without one; `examples`: of some cells
    the first finding, the most important first.
    """

    cells: Sequence[FindingCell] = ()
    timeless: Sequence[CheckFinding] = ()
    examples: Sequence[Example] = ()


def findings_over_time(
    spark: SparkSession,
    *,
    of_operations: DataFrame | None,
    of_checks: Sequence[CheckFinding],
    operations: Sequence[Location],
    checks: Sequence[Check],
    start_ns: int,
    end_ns: int,
    kinds: int,
    partitions: int,
) -> FindingsOverTime:
    """Reads the table `findings` (`of_operations`) and the operations around some of its rows.

    `of_checks`: the findings that need no operations. `operations`: the files of `tables/ops`.
    `checks`: in the order of severity. A run without findings that have a time costs nothing.
    """
    cells = cells_of_checks(of_checks)
    if of_operations is not None:
        cells += cells_of_operations(
            of_operations, start_ns=start_ns, end_ns=end_ns, kinds=kinds, partitions=partitions
        )
    cells = coarse(cells)
    picked = chosen(cells, {check.name: number for number, check in enumerate(checks)})
    examples = examples_of_checks(of_checks, picked)
    if of_operations is not None:
        examples += examples_of_operations(of_operations, picked)
    order = {(*cell.series, cell.first_ns): number for number, cell in enumerate(picked)}
    examples.sort(key=lambda one: order[(*one.cell.series, one.cell.first_ns)])
    near = around(spark, operations, examples)
    return FindingsOverTime(
        cells=cells,
        timeless=without_time(of_checks),
        examples=[
            replace(one, around=tuple(near.get(number, ()))) for number, one in enumerate(examples)
        ],
    )
