"""Writes the tables of what a verdict rests on into a run's `tables/`.

    findings over operations ── Spark ──────────▶ tables/findings/part-….parquet
    findings of other checks ── pyarrow, driver ▶ tables/findings/of-checks.parquet
    windows, faults, … ──────── pyarrow, driver ▶ tables/<name>/all.parquet

`findings` comes first: a reader that finds all of the others finds all findings, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from zonequake_analysis.checks.exact_checks import AmongSuspects
from zonequake_analysis.inputs.run_folder import Dump, RecordedEvent
from zonequake_analysis.judgement.evidence import Evidence
from zonequake_analysis.measures.hidden_writes import held_values
from zonequake_analysis.metrics.table import write_table, written
from zonequake_analysis.storage.location import Location
from zonequake_analysis.tables.check_findings import (
    CheckFinding,
    check_findings,
    finding_rows,
)
from zonequake_analysis.tables.kinds import HIDDEN, CheckAndKind, named
from zonequake_analysis.tables.operation_findings import operation_findings
from zonequake_analysis.tables.rows import (
    Row,
    event_rows,
    fault_rows,
    probe_rows,
    rebalance_rows,
    window_rows,
)
from zonequake_analysis.tables.schemas import FINDINGS, OF_THE_VERDICT, arrow_schema
from zonequake_analysis.tables.unix_time import UnixTime
from zonequake_analysis.text.untrusted_text import visible
from zonequake_analysis.verdict import Check, verdicts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class OfOperations:
    """The findings over operations, `among` the suspects; None if there are none.

    `all_named`: whether each of them has its names already (`named_findings`). `lost`: those that
    are lost writes, each with its write (`lost_writes`); None if there are none. `of_two_places`:
    the check and the kind that a write at two places counts as.
    """

    among: AmongSuspects | None
    lost: DataFrame | None
    all_named: bool
    of_two_places: CheckAndKind
    dumps: Sequence[Dump]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFindings:
    """The rows of the table `findings` as they can be read again.

    `of_operations`: the table as Spark reads it, None if no check over operations found anything.
    It may be kept in memory: `unpersist` it. `of_checks`: the rows of the other checks.
    """

    of_operations: DataFrame | None
    of_checks: Sequence[CheckFinding]


def write_tables_of_verdict(
    spark: SparkSession,
    run: Path | Location,
    evidence: Evidence,
    checks: Sequence[Check],
    events: Sequence[RecordedEvent],
    of_operations: OfOperations,
    *,
    wall_offset_ns: int,
) -> WrittenFindings:
    """Writes all tables but `ops` and those of metrics. Raises OSError, LocationError."""
    unix = UnixTime(wall_offset_ns=wall_offset_ns)
    tables = Location.of(run).resolve() / "tables"
    findings = tables / "findings"
    findings.delete_folder()
    verdicts = verdicts_of(checks)
    in_table = None
    if (among := of_operations.among) is not None:
        rows = operation_findings(
            spark,
            among.ops,
            among.found,
            of_operations.lost,
            all_named=of_operations.all_named,
            kinds=sorted(evidence.found.counts),
            of_two_places=of_operations.of_two_places,
            held=held_values(of_operations.dumps),
            verdicts=verdicts,
            unix=unix,
        )
        in_table = written(spark, rows, findings, FINDINGS)
    named_checks = {named(pair)[0] for pair, count in evidence.found.counts.items() if count}
    if evidence.found.lost_on_replica:
        named_checks.add(HIDDEN)
    found = check_findings(evidence, checks, named_checks)
    findings.make_folder()  # which Spark has made, if it had anything to write
    write_rows(findings / "of-checks.parquet", "findings", finding_rows(found, verdicts, unix))

    spans = evidence.metrics.spans if evidence.metrics is not None else None
    small = {
        "windows": window_rows(evidence.availability.windows, spans, unix),
        "faults": fault_rows(evidence.faults, spans, unix),
        "rebalances": rebalance_rows(evidence.rebalances, unix),
        "events": event_rows(events, unix),
        "probes": probe_rows(evidence.availability, unix),
    }
    for name, of_table in small.items():
        (tables / name).empty_folder()
        write_rows(tables / name / "all.parquet", name, of_table)
    return WrittenFindings(of_operations=in_table, of_checks=found)


def write_rows(file: Location, table: str, rows: Sequence[Row]) -> None:
    """Writes one file of a table of `OF_THE_VERDICT`, which appears whole or not at all."""
    schema = arrow_schema(OF_THE_VERDICT[table])
    try:
        content = pa.Table.from_pylist(list(rows), schema=schema)
    except UnicodeEncodeError:  # half a character, of a file's name for instance
        readable = [{name: _readable(value) for name, value in row.items()} for row in rows]
        content = pa.Table.from_pylist(readable, schema=schema)
    write_table(file, content)


def _readable(value: object) -> object:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [_readable(inner) for inner in value]
    return value
