"""All findings of a run over time, few enough to draw: counts by check, kind, partition and time.

    table `findings` ── Spark: (check, kind, partition, bin of time) ──▶ count, first, last

However many findings there are, the driver gets a bounded number of cells; none is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zonequake_analysis.tables.check_findings import FOUND_BY, SUMMARY, CheckFinding

MOST_CELLS = 24_000
"""Most cells that a report holds: about 30 bytes each."""

_MOST_BINS = 600
_FEWEST_BINS = 32
_COLLECTED = 3
"""Times `MOST_CELLS` that Spark may return: most series have findings in few bins."""

SeriesKey = tuple[str, str, str, str, int | None]
"""Check, kind and found_by, zone and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingCell:
    """Findings of one check and kind in one partition that began close together.

    `first_ns`, `last_ns`: when the first and the last of them began, by the run's own clock.
    """

    check: str
    kind: str
    found_by: str
    zone: str
    partition: int | None
    first_ns: int
    last_ns: int
    count: int

    @property
    def series(self) -> SeriesKey:
        """The fields that all cells of one row over time share."""
        return (self.check, self.kind, self.found_by, self.zone, self.partition)


def cells_of_operations(
    findings: DataFrame, *, start_ns: int, end_ns: int, kinds: int, partitions: int
) -> list[FindingCell]:
    """Returns the findings over operations as cells.

    `findings`: the table. `kinds`, `partitions`: about how many of them have findings; the more,
    the wider the bins.
    """
    wanted = MOST_CELLS * _COLLECTED // max(1, kinds * partitions)
    bins = min(_MOST_BINS, max(_FEWEST_BINS, wanted))
    width_ns = max(1, -(-(end_ns - start_ns) // bins))
    number = F.call_function("div", F.col("at_ns") - F.lit(start_ns), F.lit(width_ns))
    rows = (
        findings.where((F.col("found_by") != FOUND_BY) & F.col("at_ns").isNotNull())
        .groupBy("check", "kind", "found_by", "zone", "partition", number.alias("bin"))
        .agg(
            F.min("at_ns").alias("first_ns"),
            F.max("at_ns").alias("last_ns"),
            F.sum("count").alias("count"),
        )
        .collect()
    )
    return [
        FindingCell(
            check=row["check"],
            kind=row["kind"],
            found_by=row["found_by"],
            zone=row["zone"] or "",
            partition=row["partition"],
            first_ns=row["first_ns"],
            last_ns=row["last_ns"],
            count=row["count"],
        )
        for row in rows
    ]


def cells_of_checks(found: Iterable[CheckFinding]) -> list[FindingCell]:
    """Returns those findings of other checks that have a time."""
    return [
        FindingCell(
            check=one.check,
            kind=one.kind,
            found_by=FOUND_BY,
            zone=one.zone or "",
            partition=one.partition,
            first_ns=one.at_ns,
            last_ns=one.at_ns,
            count=one.count,
        )
        for one in found
        if one.at_ns is not None
    ]


def without_time(found: Iterable[CheckFinding]) -> list[CheckFinding]:
    """Returns the others, which stand at no place of a time axis; no summaries of checks."""
    return [one for one in found if one.at_ns is None and one.kind != SUMMARY]


def coarse(cells: Iterable[FindingCell], *, most: int = MOST_CELLS) -> list[FindingCell]:
    """Returns at most about `most` cells, by time: neighbours of one series become one cell.

    Nothing is left out: each series keeps a cell at least, and the counts add up as before.
    """
    kept = sorted(cells, key=lambda cell: cell.first_ns)
    if len(kept) <= most:
        return kept
    span_ns = max(1, kept[-1].first_ns - kept[0].first_ns)
    width_ns = max(1, span_ns // _MOST_BINS)
    while len(kept) > most and width_ns <= 2 * span_ns:
        kept = _merged(kept, kept[0].first_ns, width_ns)
        width_ns *= 2
    return kept


def _merged(cells: Sequence[FindingCell], start_ns: int, width_ns: int) -> list[FindingCell]:
    together: dict[tuple[SeriesKey, int], FindingCell] = {}
    for cell in cells:
        place = (cell.series, (cell.first_ns - start_ns) // width_ns)
        before = together.get(place)
        together[place] = (
            cell
            if before is None
            else replace(
                before,
                last_ns=max(before.last_ns, cell.last_ns),
                count=before.count + cell.count,
            )
        )
    return list(together.values())
