"""The exact checks over operations: on all of them, or on those that the screens did not clear."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zonequake_analysis.checks import (
    claimed_order,
    diverged,
    list_prefixes,
    loss,
    register_zones,
    sets,
)
from zonequake_analysis.spark_pass.bucket import Suspects

MOST_NAMED = 2000
"""Most ids in one condition; with more, the checks read more than the suspects and find the same.
"""


def findings_of(ops: DataFrame, *, unplaced: int) -> DataFrame:
    """Returns everything that the checks over operations find, in one frame."""
    found = [
        diverged.diverged(ops, unplaced=unplaced),
        sets.sets(ops),
        loss.loss(ops),
        claimed_order.claimed_order(ops, unplaced=unplaced),
        register_zones.zones(ops),
        list_prefixes.prefixes(ops),
    ]
    return reduce(DataFrame.unionByName, found)


def findings_of_suspects(
    ops: DataFrame, suspects: Sequence[Suspects], *, unplaced: int
) -> DataFrame | None:
    """Returns the same rows as `findings_of`, from the suspects alone; None if there are none."""

    def of_keys(check: str) -> DataFrame | None:
        with_any = [s for s in suspects if getattr(s, check)]
        if not with_any:
            return None
        near = _named(ops, "partition_id", (p for s in with_any for p in s.partitions))
        return _named(near, "key_id", (key for s in with_any for key in getattr(s, check)))

    def of_partitions(check: str) -> DataFrame | None:
        ids = [number for s in suspects for number in getattr(s, check)]
        return _named(ops, "partition_id", ids) if ids else None

    found = [
        check(rows)
        for check, rows in (
            (lambda rows: diverged.diverged(rows, unplaced=unplaced), of_keys("claimed")),
            (sets.sets, of_keys("sets")),
            (loss.missed, of_keys("loss")),
            (loss.sessions, of_partitions("sessions")),
            (lambda rows: claimed_order.by_rank(rows, unplaced=unplaced), of_keys("claimed")),
            (lambda rows: claimed_order.entries(rows, unplaced=unplaced), of_partitions("entries")),
            (register_zones.zones, of_keys("registers")),
            (list_prefixes.prefixes, of_keys("lists")),
        )
        if rows is not None
    ]
    return reduce(DataFrame.unionByName, found) if found else None


def near_suspects(ops: DataFrame, suspects: Sequence[Suspects]) -> DataFrame:
    """The operations of everything that may have a finding, and maybe others."""
    whole = {number for s in suspects for number in (*s.sessions, *s.entries)}
    keys = {key for s in suspects for key in (*s.sets, *s.loss, *s.claimed, *s.registers, *s.lists)}
    if len(whole) + len(keys) > MOST_NAMED:
        return ops
    return ops.where(F.col("partition_id").isin(sorted(whole)) | F.col("key_id").isin(sorted(keys)))


def _named(ops: DataFrame, column: str, ids: Iterable[int]) -> DataFrame:
    wanted = sorted(set(ids))
    return ops if len(wanted) > MOST_NAMED else ops.where(F.col(column).isin(wanted))
