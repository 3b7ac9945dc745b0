"""Findings over operations as rows of the table `findings`, named by Spark.

findings ─┬─ the operations that began at their moments, with the names of their keys ─┐
          └─ the writes that were lost, if there are any ──────────────────────────────┴─▶ rows

What arrays found has its names (`named_findings`), in the same way. No row goes by way of the
driver.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import chain

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from zonequake_analysis.checks.findings import is_of
from zonequake_analysis.checks.named_findings import NAMES
from zonequake_analysis.checks.sets import TWO_PLACES
from zonequake_analysis.inputs.shapes import INDEX_BITS
from zonequake_analysis.measures.hidden_writes import LOST, HeldValue
from zonequake_analysis.metrics.small_tables import small_table
from zonequake_analysis.tables.kinds import HIDDEN, NAMED, CheckAndKind, named
from zonequake_analysis.tables.schemas import FINDINGS, columns_of
from zonequake_analysis.tables.unix_time import UnixTime

_KEY = ["partition_id", "key_id"]
_NAMES = [column.split(" ")[0] for column in NAMES.split(", ")]
_OF_WRITES = {"write_op": "string", "write_value": "bigint", "write_ns": "bigint"}
_HELD = "zone string, partition int, key string, write_value bigint"


def operation_findings(
    spark: SparkSession,
    ops: DataFrame,
    found: DataFrame,
    lost: DataFrame | None,
    *,
    all_named: bool,
    kinds: Collection[CheckAndKind],
    of_two_places: CheckAndKind,
    held: Collection[HeldValue],
    verdicts: Mapping[str, str],
    unix: UnixTime,
) -> DataFrame:
    """Every finding as a row.

    `ops`: at least all operations of the keys that have findings. `found`: of the columns `NAMED`;
    `all_named`: whether each has its names. `lost`: those of `found` that are lost writes, each
    with its write (`lost_writes`); None if there are none. `kinds`: all checks and kinds that they
    count as. `of_two_places`: those that a write at two places counts as. `held`: what dumps show,
    so that a lost write that one of them shows is a hidden one. `verdicts`: by the name of the
    check.
    """
    rest = found if lost is None else found.where(~is_of(*LOST))
    rest = rest.withColumns({name: F.lit(None).cast(kind) for name, kind in _OF_WRITES.items()})
    whole = _renamed(rest if lost is None else rest.unionByName(lost), of_two_places)
    rows = whole if all_named else _with_names(ops, found, whole)
    return _table(_with_hidden(spark, rows, held), kinds, verdicts, unix)


def _with_names(ops: DataFrame, found: DataFrame, whole: DataFrame) -> DataFrame:
    """Names those findings of `whole` that have no names yet."""
    has_names = F.col("ops").isNotNull()
    nameless = whole.where(~has_names).drop(*_NAMES)
    moments = _at_their_moments(ops, found.where(~has_names))
    return whole.where(has_names).unionByName(nameless.join(moments, [*_KEY, "at_ns"], "left"))


def _renamed(found: DataFrame, of_two_places: CheckAndKind) -> DataFrame:
    check, kind = of_two_places
    is_open = is_of(*TWO_PLACES)
    return found.withColumn(
        "found_by", F.when(is_open, check).otherwise(F.col("check"))
    ).withColumn("kind", F.when(is_open, kind).otherwise(F.col("kind")))


def _at_their_moments(ops: DataFrame, found: DataFrame) -> DataFrame:
    """Selects the operations that began at a finding's moment, the names of their key, and the
    member that answered them.

    Several have no member of their own, unless it is the same one.
    """
    moments = found.select(*_KEY, "at_ns").distinct()
    return (
        ops.select(*_KEY, F.col("inv").alias("at_ns"), "op", "node", "zone", "partition", "key")
        .join(moments, [*_KEY, "at_ns"], "left_semi")
        .groupBy(*_KEY, "at_ns")
        .agg(
            F.first("zone").alias("zone"),
            F.first("partition").alias("partition"),
            F.first("key").alias("key"),
            F.array_sort(F.collect_set("op")).alias("ops"),
            F.when(F.min("node") == F.max("node"), F.min("node")).alias("node"),
        )
    )


def _with_hidden(spark: SparkSession, rows: DataFrame, held: Collection[HeldValue]) -> DataFrame:
    """Adds `hidden`: whether a dump shows the write that is lost."""
    if not held:
        return rows.withColumn("hidden", F.lit(False))
    shown = small_table(spark, sorted(held), _HELD).withColumn("hidden", F.lit(True))
    place = ["zone", "partition", "key", "write_value"]
    found = rows.withColumn("zone", F.coalesce("zone", F.lit(""))).join(shown, place, "left")
    return found.withColumn("hidden", F.coalesce("hidden", F.lit(False)))


def _table(
    rows: DataFrame, kinds: Collection[CheckAndKind], verdicts: Mapping[str, str], unix: UnixTime
) -> DataFrame:
    """Selects the columns of the table, in their order."""
    found = F.concat_ws("/", "found_by", "kind")
    # Each row is compared with all names, so only those of these findings are there.
    names = {"/".join(pair): named(pair) for pair in kinds or NAMED}
    check, text = (
        F.try_element_at(_map({pair: words[place] for pair, words in names.items()}), found)
        for place in (0, 1)
    )
    named_checks = {HIDDEN, *(words[0] for words in names.values())}
    its_verdicts = {name: verdicts[name] for name in sorted(named_checks & verdicts.keys())}
    # Of a list the place is one within the list, and no place in the log.
    in_log = F.col("position") > (1 << INDEX_BITS)
    columns = {
        "check": F.when(F.col("hidden"), HIDDEN).otherwise(check),
        "at_ms": unix.ms_of(F.col("at_ns")),
        "position": F.when(in_log, F.col("position")),
        "count": F.lit(1).cast("bigint"),
        "text": text,
        "ops": F.coalesce("ops", F.array().cast("array<string>")),
    }
    shown = rows.withColumns(columns).withColumn(
        "verdict", F.try_element_at(_map(its_verdicts or verdicts), F.col("check"))
    )
    return shown.select(*columns_of(FINDINGS))


def _map(texts: Mapping[str, str]) -> Column:
    return F.create_map(*(F.lit(one) for one in chain.from_iterable(texts.items())))
