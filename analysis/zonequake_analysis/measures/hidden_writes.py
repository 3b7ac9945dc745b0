"""Lost writes, each with the write that is missing; and those that a replica still holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zonequake_analysis.checks import loss
from zonequake_analysis.checks.findings import is_of
from zonequake_analysis.inputs.run_folder import Dump
from zonequake_analysis.inputs.shapes import Function, OutcomeCode

HeldValue = tuple[str, int, str, int]
"""Zone, partition and key, and a value that a dump shows there."""

LOST = (loss.CHECK, "lost")
"""Check and kind of the finding that an acknowledged write is missing."""

_KEY = ["partition_id", "key_id"]


def count_hidden(ops: DataFrame, lost: DataFrame, dumps: Sequence[Dump]) -> int:
    """Returns how many of the `lost_writes` are in a dump of their partition."""
    if not dumps:
        return 0
    held = held_values(dumps)
    names = (
        ops.join(lost.select("key_id").distinct(), "key_id", "left_semi")
        .select("key_id", "zone", "partition", "key")
        .distinct()
    )
    writes = lost.select("key_id", "write_value").join(names, "key_id")
    rows = writes.select("zone", "partition", "key", "write_value").collect()
    return sum(
        (row["zone"] or "", row["partition"], row["key"], row["write_value"]) in held
        for row in rows
    )


def held_values(dumps: Iterable[Dump]) -> set[HeldValue]:
    """Every value that a dump shows."""
    held: set[HeldValue] = set()
    for dump in dumps:
        for entry in dump.entries.values():
            values = entry.value if isinstance(entry.value, list) else [entry.value]
            held.update(
                (dump.zone, dump.partition, entry.key, value)
                for value in values
                if isinstance(value, int)
            )
    return held


def lost_writes(ops: DataFrame, findings: DataFrame) -> DataFrame:
    """Returns the findings of lost writes, with the acknowledged write that each is about.

    `write_op`, `write_value`, `write_ns`: its name, what it wrote, and when it was acknowledged;
    null where no acknowledged write has the finding's place. Of a list a finding names the value,
    of a register, where `value` is what was read in its place, the place alone.
    """
    by_place = F.col("position").isNotNull()
    sought = F.struct(by_place.alias("by_place"), F.coalesce("position", "value").alias("number"))
    f = F.col("f")
    is_write = f.isin(Function.WRITE.value, Function.APPEND.value) | (
        (f == Function.CAS.value) & F.col("applied")
    )
    place, element = (
        F.struct(F.lit(is_place).alias("by_place"), F.col(name).alias("number"))
        for is_place, name in ((True, "position"), (False, "value"))
    )
    writes = (
        ops.where((F.col("outcome") == OutcomeCode.OK.value) & is_write)
        .select(
            *_KEY, "op", "fin", F.col("value").alias("wrote"), F.array(place, element).alias("as")
        )
        .select(*_KEY, "op", "fin", "wrote", F.explode("as").alias("sought"))
        .groupBy(*_KEY, "sought")
        .agg(
            F.min_by("op", "fin").alias("write_op"),
            F.min_by("wrote", "fin").alias("write_value"),
            F.min("fin").alias("write_ns"),
        )
    )
    return (
        findings.where(is_of(*LOST))
        .withColumn("sought", sought)
        .join(writes, [*_KEY, "sought"], "left")
        .drop("sought")
    )
