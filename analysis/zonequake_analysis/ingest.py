"""History lines → one row per operation, laid out so that no check needs a shuffle.

The layout is the algorithm (design §7): one exchange by partition, each bucket sorted by
(partition, key, invoke). Every later `groupBy` and window starts with the bucket's column.

A completion repeats its invoke, so completions are the operations, and `lines` drops most invokes
before they are parsed. The others travel along and meet their completions as neighbours in that
order; an invoke without such a neighbour was cut off by a crash and stands as INFO.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import msgspec
from pyspark.sql import Column, DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F

from zonequake_analysis.errors import RunFolderError
from zonequake_analysis.lines import byte_ranges, read_lines
from zonequake_analysis.schema import (
    CORRUPT,
    INDEX_BITS,
    LINEAGE_BITS,
    NEVER_NS,
    SCHEMA_VERSION,
    TERM_BITS,
    Function,
    Outcome,
    Role,
)

BUCKET_BYTES = 128 * 1024 * 1024
"""History bytes per bucket: its rows sort within one task's memory."""

_TABLE = "zonequake_ops"
_TAIL_BYTES = 1024 * 1024
_BEYOND_WRITER = r"(-\d+-(load|probe))?(\.\d+)?\.jsonl$"
"""What a file's name has beyond its pod's: the process's number, what it holds, the ending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """What was wrong with the history files. A torn last line is what a crash leaves."""

    files: int
    bytes: int
    lines: int
    torn_lines: int
    bad_lines: int
    foreign_schema_lines: int
    unknown_names: int  # lines with a type, f or role that this version doesn't know
    orphans: int  # completions without an invoke
    cut_off: int  # invokes without a completion
    unplaced: int  # ok operations of the load that carry no position
    wide_positions: int  # (lineage, term, index) beyond the bits that a rank has
    clocks: tuple[str, ...]  # at most the two extreme names: more than one is what matters


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """The table of operations and what is known about the files it came from."""

    ops: DataFrame
    quality: Quality
    wall_offset_ns: int  # wall clock minus monotonic clock
    start_ns: int  # first scheduled start
    end_ns: int  # last line


def history_files(run: Path) -> list[Path]:
    """The history files of a run folder, sorted. Raises RunFolderError if there are none."""
    files = sorted((run / "history").glob("*.jsonl"))
    if not files:
        raise RunFolderError(
            f"found no file {run / 'history'}/*.jsonl; a run folder needs at least its histories"
        )
    return files


def ingest(spark: SparkSession, run: Path, *, clock_offset_ns: int = 0) -> Ingested:
    """Reads `history/*.jsonl` and writes `tables/ops`, replacing what was there.

    `clock_offset_ns` widens every interval on both sides: it may hide a violation and never invents
    one. Raises RunFolderError.
    """
    files = history_files(run)
    size = sum(file.stat().st_size for file in files)
    seen = Observation("history")
    names = F.array(*[F.lit(re.sub(_BEYOND_WRITER, "", file.name)) for file in files])
    lines = read_lines(spark, byte_ranges(files)).withColumn(
        "writer", F.element_at(names, F.col("file") + 1)
    )
    rows = _rows(lines, clock_offset_ns).observe(
        seen,
        (F.count(F.lit(1)) + F.count_if("paired")).alias("lines"),
        F.count(CORRUPT).alias("corrupt"),
        F.count_if(F.col("schema") != SCHEMA_VERSION).alias("foreign_schema"),
        F.count_if(~F.col("usable") & F.col(CORRUPT).isNull()).alias("unknown_names"),
        F.min("clock").alias("first_clock"),
        F.max("clock").alias("last_clock"),
        F.max("wall_offset").alias("wall_offset"),
        F.min("sched").alias("start"),
        F.max(F.greatest("inv", F.when(F.col("fin") < NEVER_NS, F.col("fin")))).alias("end"),
        F.count_if(F.col("index").isNotNull() & F.col("position").isNull()).alias("too_wide"),
    )
    buckets = max(2, -(-size // BUCKET_BYTES))
    paired = Observation("pairs")
    usable = rows.where("usable").drop("usable", "schema", "clock", "wall_offset", CORRUPT)
    ops = _paired(usable, buckets).observe(
        paired,
        F.count_if("orphan").alias("orphans"),
        F.count_if("cut_off").alias("cut_off"),
        F.count_if((F.col("outcome") == Outcome.OK.value) & F.col("position").isNull()).alias(
            "unplaced"
        ),
    )
    target = (run / "tables" / "ops").resolve()
    spark.sql(f"DROP TABLE IF EXISTS {_TABLE}")
    (
        ops.drop("orphan", "cut_off")
        .write.bucketBy(buckets, "partition_id")
        .sortBy("partition_id", "key_id", "inv")
        .mode("overwrite")
        .option("path", target.as_uri())
        .saveAsTable(_TABLE)
    )
    torn = sum(_is_torn(file) for file in files)
    found, pairs = seen.get, paired.get
    return Ingested(
        ops=spark.table(_TABLE),
        wall_offset_ns=found["wall_offset"] or 0,
        start_ns=found["start"] or 0,
        end_ns=found["end"] or 0,
        quality=Quality(
            files=len(files),
            bytes=size,
            lines=found["lines"],
            torn_lines=torn,
            bad_lines=max(0, found["corrupt"] - torn),
            foreign_schema_lines=found["foreign_schema"],
            unknown_names=found["unknown_names"],
            orphans=pairs["orphans"],
            cut_off=pairs["cut_off"],
            unplaced=pairs["unplaced"],
            wide_positions=found["too_wide"],
            clocks=tuple(sorted({found["first_clock"], found["last_clock"]} - {None})),
        ),
    )


def _code(column: str, names: type[IntEnum]) -> Column:
    """The small integer that stands for a name, null for a name that isn't known."""
    result = F.lit(None).cast("tinyint")
    for name in names:
        code = F.lit(name.value).cast("tinyint")
        result = F.when(F.col(column) == name.name.lower(), code).otherwise(result)
    return result


def _position() -> Column:
    """(lineage, term, index) as one integer in their order; null if absent or too wide."""
    fits = (
        (F.col("lineage") < 1 << LINEAGE_BITS)
        & (F.col("term") < 1 << TERM_BITS)
        & (F.col("index") < 1 << INDEX_BITS)
    )
    packed = (
        F.shiftleft("lineage", TERM_BITS + INDEX_BITS)
        .bitwiseOR(F.shiftleft("term", INDEX_BITS))
        .bitwiseOR(F.col("index"))
    )
    return F.when(fits, packed)


def _rows(lines: DataFrame, clock_offset_ns: int) -> DataFrame:
    """One row per line, typed; `usable` tells those that are an event of a known kind."""
    invoke = F.col("type") == "invoke"
    outcome = F.when(invoke, F.lit(Outcome.INFO.value).cast("tinyint")).otherwise(
        _code("type", Outcome)
    )
    unknown = outcome == Outcome.INFO.value
    return lines.withColumns(
        {
            "partition_id": F.xxhash64("zone", "partition"),
            "key_id": F.xxhash64("zone", "key"),
            "code": _code("f", Function),
            "outcome": outcome,
            "role": _code("role", Role),
            "invoke": invoke,
            "position": F.when(F.col("type") == "ok", _position()),
            "bounded": F.coalesce(F.col("read") == "bounded", F.lit(False)),
        }
    ).select(
        "partition_id",
        "key_id",
        "zone",
        "partition",
        "key",
        "process",
        "op",
        "role",
        F.col("code").alias("f"),
        "outcome",
        "value",
        "list",
        "expected",
        "found",
        F.coalesce("applied", F.lit(False)).alias("applied"),
        F.coalesce("sched", "inv").alias("sched"),
        (F.col("inv") - clock_offset_ns).alias("inv"),
        F.when(unknown, F.lit(NEVER_NS)).otherwise(F.col("time") + clock_offset_ns).alias("fin"),
        "position",
        "bounded",
        F.when(
            F.col("role") == Role.PROBE.value,
            F.col("writer"),
        ).alias("vantage"),
        "node",
        "term",
        "index",
        "invoke",
        "paired",
        "schema",
        "clock",
        (F.col("wall") - F.col("time")).alias("wall_offset"),
        (
            outcome.isNotNull()
            & F.col("code").isNotNull()
            & F.col("role").isNotNull()
            & F.col("inv").isNotNull()
            & F.col("process").isNotNull()
            & F.col("partition").isNotNull()
            & F.col("key").isNotNull()
            & (invoke | F.col("time").isNotNull())
        ).alias("usable"),
        CORRUPT,
    )


def _paired(rows: DataFrame, buckets: int) -> DataFrame:
    """Drops the invokes that have a completion, and marks what has no partner."""
    order = Window.partitionBy("partition_id", "key_id").orderBy("inv", "process", "op", "invoke")
    before, after = F.lag("op").over(order), F.lead("op").over(order)
    return (
        rows.repartition(buckets, "partition_id")
        .withColumns(
            {
                "completed": F.col("invoke") & F.coalesce(before == F.col("op"), F.lit(False)),
                "orphan": ~F.col("invoke")
                & ~F.col("paired")
                & ~F.coalesce(after == F.col("op"), F.lit(False)),
            }
        )
        .where(~F.col("completed"))
        .withColumnRenamed("invoke", "cut_off")
        .drop("completed", "paired")
    )


def _is_torn(file: Path) -> bool:
    """Whether the last line was cut in the middle: no line end, and no JSON."""
    with file.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - _TAIL_BYTES))
        last = stream.read().rpartition(b"\n")[2]
    if not last:
        return False
    try:
        msgspec.json.decode(last)
    except msgspec.DecodeError:
        return True
    return False
