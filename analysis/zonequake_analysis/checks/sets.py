"""Sets: what was attempted, acknowledged and observed (docs/analysis.md, "Checks").

    phantom        a value was read that no operation attempted to write
    aborted        a value was read whose every attempt certainly never happened
    duplicate      a list holds an element twice
    applied-twice  a member showed a value, before it acknowledged its write, at a place before
                   that of the acknowledgement: the request was applied at two entries of its log
    two-places     the same, but another member acknowledged the value than showed it: it was
                   applied twice if they share one log, and else their places say nothing about
                   each other
    wrong-refusal  a cas was refused though it found what it expected

Bounded reads count here too: they may be old, but not invented.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from zonequake_analysis.checks.findings import findings
from zonequake_analysis.inputs.shapes import Function, OutcomeCode

CHECK = "sets"

TWO_PLACES = (CHECK, "two-places")
"""Check and kind of a finding whose meaning depends on whether two members share a log."""

_KEY = ["partition_id", "key_id"]


def sets(ops: DataFrame) -> DataFrame:
    """Returns phantoms, aborted reads and duplicates, as findings."""
    f = F.col("f")
    ok = F.col("outcome") == OutcomeCode.OK.value
    read, cas = f == Function.READ.value, f == Function.CAS.value
    refused = cas & ok & ~F.col("applied")
    attempted = F.array(F.struct(F.col("value").alias("element"), F.lit(True).alias("attempt")))

    def seen(column: str) -> Column:
        return F.array(F.struct(F.col(column).alias("element"), F.lit(False).alias("attempt")))

    mentions = (
        F.when(
            F.col("list").isNotNull(),
            F.transform(
                "list", lambda x: F.struct(x.alias("element"), F.lit(False).alias("attempt"))
            ),
        )
        .when(read, seen("value"))
        .when(refused, F.concat(attempted, seen("found")))
        .when(cas & ok, F.concat(attempted, seen("expected")))
        .otherwise(attempted)
    )
    of_value = Window.partitionBy(*_KEY, "m.element")
    acked = F.col("m.attempt") & F.col("acked")
    # An operation that began after the acknowledgement saw that write, whatever place it claims.
    early = ~F.col("m.attempt") & (F.col("inv") < F.col("acknowledged_at"))
    of_node = (
        ops.where(ok | ~read)
        .select(
            *_KEY,
            "inv",
            "position",
            "node",
            "fin",
            (ok & ~refused).alias("acked"),
            ((F.col("outcome") != OutcomeCode.FAIL.value) & ~refused).alias("possible"),
            F.explode(mentions).alias("m"),
        )
        .where("m.element is not null")
        .withColumn("acknowledged_at", F.max(F.when(acked, F.col("fin"))).over(of_value))
        .groupBy(*_KEY, "node", F.col("m.element").alias("value"))
        .agg(
            F.count_if("m.attempt").alias("attempts"),
            F.count_if(F.col("m.attempt") & F.col("possible")).alias("possible"),
            F.count_if(~F.col("m.attempt")).alias("reads"),
            F.max(F.when(acked, F.col("position"))).alias("written"),
            F.min(F.when(early, F.col("position"))).alias("first_read"),
            F.min(F.when(~F.col("m.attempt"), F.col("inv"))).alias("at_ns"),
        )
    )
    elements = of_node.groupBy(*_KEY, "value").agg(
        *(F.sum(name).alias(name) for name in ("attempts", "possible", "reads")),
        F.max("written").alias("written"),
        F.min("first_read").alias("first_read"),
        F.bool_or(F.col("node").isNotNull() & (F.col("first_read") < F.col("written"))).alias(
            "by_one_member"
        ),
        F.min("at_ns").alias("at_ns"),
    )
    kind = (
        F.when((F.col("reads") > 0) & (F.col("attempts") == 0), "phantom")
        .when((F.col("reads") > 0) & (F.col("possible") == 0), "aborted")
        .when(F.col("by_one_member"), "applied-twice")
        .when(F.col("first_read") < F.col("written"), "two-places")
    )
    named = elements.withColumn("kind", kind).where("kind is not null")
    twice = ops.where(ok & (F.size("list") != F.size(F.array_distinct("list")))).withColumns(
        {"at_ns": F.col("inv")}
    )
    wrong = ops.where(refused & F.col("found").eqNullSafe(F.col("expected")))
    return (
        findings(named, check=CHECK, kind=F.col("kind"), value="value", position="written")
        .unionByName(findings(twice, check=CHECK, kind="duplicate"))
        .unionByName(
            findings(
                wrong.withColumn("at_ns", F.col("inv")),
                check=CHECK,
                kind="wrong-refusal",
                value="found",
            )
        )
    )
