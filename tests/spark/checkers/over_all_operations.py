"""The exact checks over all operations, which the analysis runs over the suspects alone."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame

from zonequake_analysis.checks import (
    claimed_order,
    diverged,
    list_prefixes,
    loss,
    register_zones,
    sets,
)


def findings_of(ops: DataFrame, *, unplaced: int) -> DataFrame:
    """Returns everything that the checks over operations find, in one frame."""
    found = [
        diverged.diverged(ops, unplaced=unplaced),
        sets.sets(ops),
        loss.missed(ops),
        loss.sessions(ops),
        claimed_order.replay(ops, unplaced=unplaced),
        claimed_order.real_time(ops, unplaced=unplaced),
        claimed_order.entries(ops, unplaced=unplaced),
        register_zones.zones(ops),
        list_prefixes.prefixes(ops),
    ]
    return reduce(DataFrame.unionByName, found)
