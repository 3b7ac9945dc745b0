"""Lost acknowledged writes, stale reads and flicker; and session order (docs/analysis.md,
"Checks").

For a write that was known (acknowledged, or seen by a finished read) before a read starts, and that
the read misses although no later version explains it:

    lost     it was acknowledged, and no read that starts later shows it: the last one misses it
    stale    it was acknowledged, and a later read shows it; or it was seen, and never again
    flicker  it was not acknowledged, and a finished read before and a later one show it

A missed write that was acknowledged is stale whether or not a read had seen it before. The two
kinds, stale and flicker, tell a replica that lags from one that shows uncommitted writes, such as a
deposed leader that doesn't know that it was deposed.

The version of a register's value is the claimed place of its write or, for a write without an
answer, of the first read that returned it. A list's versions are the places in its last read.
`replica_audit` decides whether a lost write is `hidden` (still on a replica).
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from zonequake_analysis.checks.findings import findings
from zonequake_analysis.inputs.shapes import Function, OutcomeCode

CHECK = "loss"

_KEY = ["partition_id", "key_id"]
_NOTHING = -1
"""Version of an absent key."""


def missed(ops: DataFrame) -> DataFrame:
    """Returns lost writes, stale reads and flicker, as findings; each key by itself."""
    judged = _judged(ops)
    return _registers(judged).unionByName(_lists(judged))


def sessions(ops: DataFrame) -> DataFrame:
    """Returns operations whose place is before one that their own process had already reached.

    They are returned as findings; each partition by itself. Two operations of a process that begin
    at one moment don't contradict each other.
    """
    order = Window.partitionBy("partition_id", "process").orderBy("inv", "position")
    reached = F.max("position").over(order.rowsBetween(Window.unboundedPreceding, -1))
    back = (
        _judged(ops)
        .withColumn("reached", reached)
        .where("position < reached")
        .withColumn("at_ns", F.col("inv"))
    )
    return findings(back, check=CHECK, kind="session", value="value", position="reached")


def _judged(ops: DataFrame) -> DataFrame:
    return ops.where((F.col("outcome") == OutcomeCode.OK.value) & ~F.col("bounded"))


def _registers(judged: DataFrame) -> DataFrame:
    f = F.col("f")
    write = (f == Function.WRITE.value) | ((f == Function.CAS.value) & F.col("applied"))
    shown = F.when((f == Function.CAS.value) & ~write, F.col("found")).otherwise(F.col("value"))
    of_value = Window.partitionBy(*_KEY, "element")
    written = F.max(F.when(F.col("write"), F.col("position"))).over(of_value)
    first_seen = F.min(F.when(~F.col("write"), F.col("position"))).over(of_value)
    versions = (
        judged.where(F.col("list").isNull() & (f != Function.APPEND.value))
        .select(*_KEY, "inv", "fin", "position", write.alias("write"), shown.alias("element"))
        .withColumn(
            "version",
            F.when(F.col("element").isNull(), F.lit(_NOTHING)).otherwise(
                F.coalesce(written, first_seen)
            ),
        )
        .where("version is not null")
        .select(
            *_KEY,
            "inv",
            "fin",
            F.col("write").alias("acked"),
            "version",
            "element",
        )
    )
    return _swept(versions)


def _lists(judged: DataFrame) -> DataFrame:
    """Returns what is lost or went back in lists, by the last read of each key.

    An acknowledged element that the last read misses is lost.
    """
    append = F.col("f") == Function.APPEND.value
    operations = judged.where(
        append
        | F.col("list").isNotNull()
        | ((F.col("f") == Function.READ.value) & F.col("value").isNull())
    ).select(*_KEY, "inv", "fin", "value", "list", append.alias("append"))
    empty = F.array().cast("array<bigint>")
    keys = (
        operations.groupBy(*_KEY)
        .agg(
            F.max(F.col("append") | F.col("list").isNotNull()).alias("is_list"),
            F.max(F.when(~F.col("append"), F.col("inv"))).alias("last_read"),
            F.max_by(F.coalesce("list", empty), F.when(~F.col("append"), F.col("inv"))).alias(
                "last"
            ),
        )
        .where("is_list and last_read is not null")
    )
    known = operations.join(keys, _KEY)
    lost = known.where(
        F.col("append")
        & (F.col("fin") < F.col("last_read"))
        & ~F.array_contains("last", F.col("value"))
    )
    size = F.coalesce(F.size("list"), F.lit(0))
    shared = F.when(F.slice("last", F.lit(1), size) == F.coalesce("list", empty), size).otherwise(
        F.size(F.array_intersect("last", "list"))
    )
    places = known.withColumn(
        "version",
        F.when(F.col("append"), F.array_position("last", F.col("value"))).otherwise(shared),
    ).where("not append or version > 0")
    gone_back = _swept(
        places.select(
            *_KEY,
            "inv",
            "fin",
            F.col("append").alias("acked"),
            "version",
            F.col("value").alias("element"),
        )
    )
    return findings(
        lost.withColumn("at_ns", F.col("last_read")),
        check=CHECK,
        kind="lost",
        value="value",
        magnitude_ns=F.col("last_read") - F.col("fin"),
    ).unionByName(gone_back)


def _swept(versions: DataFrame) -> DataFrame:
    """Returns reads of a lower version than was known when they started.

    `versions`: inv, fin, version and element of each operation, `acked` for writes.
    """
    start = F.struct(F.col("inv").alias("t"), F.lit(False).alias("finish"))
    finish = F.struct(F.col("fin").alias("t"), F.lit(True).alias("finish"))
    moments = F.when(F.col("acked"), F.array(finish)).otherwise(F.array(start, finish))
    by_time = Window.partitionBy(*_KEY).orderBy("m.t", "m.finish")
    before = by_time.rowsBetween(Window.unboundedPreceding, -1)
    after = by_time.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    begins = ~F.col("m.finish")
    swept = (
        versions.withColumn("m", F.explode(moments))
        .withColumns(
            {
                "acked_before": F.max(
                    F.when(F.col("m.finish") & F.col("acked"), F.col("version"))
                ).over(before),
                "seen_before": F.max(
                    F.when(F.col("m.finish") & ~F.col("acked"), F.col("version"))
                ).over(before),
                "known_at": F.max(F.when(F.col("m.finish") & F.col("acked"), F.col("m.t"))).over(
                    before
                ),
                "last": F.last(F.when(begins, F.col("version")), ignorenulls=True).over(after),
                "last_at": F.last(F.when(begins, F.col("m.t")), ignorenulls=True).over(after),
            }
        )
        .where(begins & (F.col("version") < F.greatest("acked_before", "seen_before")))
    )
    seen, acked = F.col("seen_before"), F.col("acked_before")
    kind = (
        F.when((F.col("m.t") == F.col("last_at")) & (F.col("version") < acked), "lost")
        .when(F.col("version") < acked, "stale")
        .when(F.col("last") >= seen, "flicker")
        .otherwise("stale")
    )
    return findings(
        swept.withColumns({"at_ns": F.col("m.t"), "kind": kind}),
        check=CHECK,
        kind=F.col("kind"),
        value="element",
        position=F.greatest("acked_before", "seen_before"),
        magnitude_ns=F.col("m.t") - F.col("known_at"),
    )
