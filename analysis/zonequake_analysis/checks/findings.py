"""The one shape of the findings of all checks over operations."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def is_of(check: str, kind: str) -> Column:
    """Returns the condition that a finding is of this check and kind."""
    return (F.col("check") == check) & (F.col("kind") == kind)


def findings(
    rows: DataFrame,
    *,
    check: str,
    kind: str | Column,
    value: Column | str | None = None,
    position: Column | str | None = None,
    magnitude_ns: Column | None = None,
) -> DataFrame:
    """Returns rows of operations, or of keys, as findings.

    `rows` has partition_id, key_id and at_ns, the invoke of the operation that shows it. `value`
    is the element concerned, `position` the place in the claimed order that should have been seen,
    `magnitude_ns` how far apart in time the two sides are. Names are looked up afterwards, for the
    few keys that have findings: strings would slow every sort.
    """

    def long(column: Column | str | None) -> Column:
        found = F.col(column) if isinstance(column, str) else column
        return (F.lit(None) if found is None else found).cast("bigint")

    return rows.select(
        F.lit(check).alias("check"),
        (F.lit(kind) if isinstance(kind, str) else kind).alias("kind"),
        "partition_id",
        "key_id",
        long(value).alias("value"),
        F.col("at_ns").cast("bigint").alias("at_ns"),
        long(position).alias("position"),
        long(magnitude_ns).alias("magnitude_ns"),
    )
