"""The exact checks over the operations that the screens did not clear."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zonequake_analysis.checks import (
    claimed_order,
    diverged,
    list_prefixes,
    loss,
    over_files,
    register_zones,
    sets,
)
from zonequake_analysis.checks.named_findings import NAMES
from zonequake_analysis.metrics.small_tables import small_table
from zonequake_analysis.spark_pass.bucket import Suspects
from zonequake_analysis.spark_pass.settings import runs_locally
from zonequake_analysis.storage.location import Location

FEW_LINES = 200_000
"""Of so many lines the findings take less time than their plan, which Spark goes through again
for each query, and each task gets.
"""

_NO_NAMES = [
    f"CAST(NULL AS {kind}) AS {name}"
    for name, kind in (column.split(" ") for column in NAMES.split(", "))
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AmongSuspects:
    """The operations of everything that may have a finding, and what was `found` in them."""

    ops: DataFrame
    found: DataFrame


def among_suspects(
    ops: DataFrame, suspects: Sequence[Suspects], *, unplaced: int, folder: Location
) -> AmongSuspects | None:
    """Runs the exact checks over the suspects; None if there are none."""
    found = findings_of_suspects(ops, suspects, unplaced=unplaced, folder=folder)
    return None if found is None else AmongSuspects(ops=_near(ops, suspects), found=found)


def findings_of_suspects(
    ops: DataFrame, suspects: Sequence[Suspects], *, unplaced: int, folder: Location
) -> DataFrame | None:
    """Returns what the checks over operations find among the suspects; None if there are none.

    Over all operations they find the same rows. The columns are `NAMED`; those of names are null
    in what SQL finds. `folder`: that of the files of `ops`.
    """

    def of_partitions(check: str) -> DataFrame | None:
        ids = [number for s in suspects for number in getattr(s, check)]
        return _named(ops, "partition_id", ids) if ids else None

    # Those keys alone, however many there are: the others are judged by arrays.
    unclear = _of_these(ops, "key_id", (key for s in suspects for key in s.unclear))
    found = [
        check(rows)
        for check, rows in (
            (lambda rows: diverged.diverged(rows, unplaced=unplaced), unclear),
            (sets.sets, unclear),
            (loss.missed, unclear),
            (loss.sessions, of_partitions("split_sessions")),
            (lambda rows: claimed_order.replay(rows, unplaced=unplaced), unclear),
            (lambda rows: claimed_order.real_time(rows, unplaced=unplaced), unclear),
            (lambda rows: claimed_order.entries(rows, unplaced=unplaced), of_partitions("entries")),
            (register_zones.zones, unclear),
            (list_prefixes.prefixes, unclear),
        )
        if rows is not None
    ]
    unnamed = [rows.selectExpr("*", *_NO_NAMES) for rows in found]
    in_files = over_files.found_in_files(ops.sparkSession, folder, suspects)
    named = [] if in_files is None else [in_files]
    return reduce(DataFrame.unionByName, [*named, *unnamed]) if named or unnamed else None


def kept(found: DataFrame, at_end: ExitStack, *, few: bool) -> DataFrame:
    """Returns findings that are looked for once and kept until `at_end`.

    `few`: they are kept without their plan, in as many partitions as there are cores. They can't be
    found again then, so only where no executor can be lost: on a local master.
    """
    spark = found.sparkSession
    if few and runs_locally(spark):
        # Spark frees it once no reference to it is left.
        return found.coalesce(spark.sparkContext.defaultParallelism).localCheckpoint()
    at_end.callback(found.persist().unpersist)
    return found


def _near(ops: DataFrame, suspects: Sequence[Suspects]) -> DataFrame:
    """Selects the operations of everything that may have a finding, and maybe others."""
    whole = {number for s in suspects for number in (*s.sessions, *s.split_sessions, *s.entries)}
    keys = {key for s in suspects for key in s.keys}
    if len(whole) + len(keys) > over_files.MOST_NAMED:
        return ops
    return ops.where(F.col("partition_id").isin(sorted(whole)) | F.col("key_id").isin(sorted(keys)))


def _named(ops: DataFrame, column: str, ids: Iterable[int]) -> DataFrame:
    wanted = sorted(set(ids))
    return ops if len(wanted) > over_files.MOST_NAMED else ops.where(F.col(column).isin(wanted))


def _of_these(ops: DataFrame, column: str, ids: Iterable[int]) -> DataFrame | None:
    """Returns the operations with these ids and no others; None if there are no ids."""
    wanted = sorted(set(ids))
    if not wanted:
        return None
    if len(wanted) <= over_files.MOST_NAMED:
        return ops.where(F.col(column).isin(wanted))
    these = small_table(ops.sparkSession, [(one,) for one in wanted], f"{column} bigint")
    return ops.join(F.broadcast(these), column, "left_semi").select(*ops.columns)
