"""Check 2 for append-lists: linearizability from the outside, by prefixes.

Every element is unique, so the longest list read gives the order of the appends. A history of
appends and whole reads is linearizable iff every list read is a prefix of the longest one, each of
its elements was appended, and the ranks

    append = 2 × its place in the longest list, read = 2 × its length + 1

respect real time. An acknowledged append that no read shows ranks above all reads, and only its
finish counts; an unanswered append that no read shows may never have happened.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from zonequake_analysis.checks.findings import findings
from zonequake_analysis.inputs.shapes import NEVER_NS, Function, OutcomeCode

CHECK = "black-box"

_KEY = ["partition_id", "key_id"]


def prefixes(ops: DataFrame) -> DataFrame:
    """Returns operations on lists that no order explains, as findings.

    Kinds: `not-prefix`, `element-twice`, `phantom`, `stale` (out of real time).
    """
    f = F.col("f")
    ok = F.col("outcome") == OutcomeCode.OK.value
    append = f == Function.APPEND.value
    usable = ops.where(
        (
            (append & (F.col("outcome") != OutcomeCode.FAIL.value))
            | ((f == Function.READ.value) & ok)
        )
        & ~F.col("bounded")
        & (append | F.col("list").isNotNull() | F.col("value").isNull())
    ).select(*_KEY, "inv", "fin", "value", "list", append.alias("append"), ok.alias("ok"))
    keys = (
        usable.groupBy(*_KEY)
        .agg(
            F.max(F.col("append") | F.col("list").isNotNull()).alias("is_list"),
            F.max_by("list", F.coalesce(F.size("list"), F.lit(-1))).alias("longest"),
        )
        .where("is_list")
        .withColumn("longest", F.coalesce("longest", F.array().cast("array<bigint>")))
    )
    place = F.array_position("longest", F.col("value"))
    size = F.coalesce(F.size("list"), F.lit(0))
    ranked = (
        usable.join(keys, _KEY)
        .withColumn("place", F.when(F.col("append"), place))
        .withColumn(
            "rank",
            F.when(~F.col("append"), (2 * size + 1).cast("bigint"))
            .when(F.col("place") > 0, 2 * F.col("place"))
            .when(F.col("ok"), F.lit(NEVER_NS)),
        )
        .where("rank is not null")
    )
    torn = ranked.where(
        F.col("list").isNotNull() & (F.slice("longest", F.lit(1), size) != F.col("list"))
    ).withColumn("at_ns", F.col("inv"))
    invented = (
        ranked.groupBy(*_KEY)
        .agg(
            F.count_if(F.col("place") > 0).alias("appended"),
            F.max(F.size("longest")).alias("shown"),
            F.max(F.size(F.array_distinct("longest"))).alias("different"),
            F.max("inv").alias("at_ns"),
        )
        .where("appended < different or different < shown")
    )
    return (
        findings(torn, check=CHECK, kind="not-prefix")
        .unionByName(
            findings(
                invented,
                check=CHECK,
                kind=F.when(F.col("different") < F.col("shown"), "element-twice").otherwise(
                    "phantom"
                ),
            )
        )
        .unionByName(_out_of_time(ranked))
    )


def _out_of_time(ranked: DataFrame) -> DataFrame:
    """Returns operations that start after one of higher rank has finished.

    At equal times starts come first: such operations are concurrent.
    """
    start = F.struct(F.col("inv").alias("t"), F.lit(False).alias("finish"))
    finish = F.struct(F.col("fin").alias("t"), F.lit(True).alias("finish"))
    moments = (
        F.when(F.col("rank") == NEVER_NS, F.array(finish))
        .when(F.col("ok"), F.array(start, finish))
        .otherwise(F.array(start))
    )
    earlier = (
        Window.partitionBy(*_KEY)
        .orderBy("moment.t", "moment.finish")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    late = (
        ranked.select(*_KEY, "value", "rank", F.explode(moments).alias("moment"))
        .withColumn("highest", F.max(F.when(F.col("moment.finish"), F.col("rank"))).over(earlier))
        .where("not moment.finish and rank < highest")
        .withColumn("at_ns", F.col("moment.t"))
    )
    return findings(late, check=CHECK, kind="stale", value="value")
