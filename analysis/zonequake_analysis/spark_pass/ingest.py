"""History lines → one row per operation, laid out so that no check needs a shuffle, and judged.

One pass (docs/analysis.md, "The layout is the algorithm"):

    ranges of bytes → lines → events, split by bucket → blobs ──shuffle──▶ one bucket to a task:
    pair, sort, write `tables/ops`, screen for every check, count

Both sides are Python over Arrow columns; Spark distributes the work, moves the blobs, and repeats
failed tasks. A task returns its facts as its result, so that a repeated task counts nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from zonequake_analysis.inputs.column_files.conversion import column_files
from zonequake_analysis.inputs.completeness import RecordedRun
from zonequake_analysis.inputs.defects.names import Twice
from zonequake_analysis.inputs.defects.of_history import (
    Defects,
    HistoryDefectKind,
    defects_together,
    in_words,
)
from zonequake_analysis.inputs.integer_columns import Facts
from zonequake_analysis.spark_pass.bucket import NO_SUSPECTS, NOTHING_KNOWN, JudgedBucket, Known
from zonequake_analysis.spark_pass.operations import operations
from zonequake_analysis.spark_pass.partition_share import by_key
from zonequake_analysis.spark_pass.passes import Lines, overlaps_in, passed
from zonequake_analysis.spark_pass.repeated_passes import NOTHING_ASKED, Asked, agreed
from zonequake_analysis.storage.location import Location

BUCKET_BYTES = 128 * 1024 * 1024
"""History bytes per bucket: one task holds its rows in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """The defects of the history files. A crash leaves a torn last line."""

    files: int
    bytes: int
    lines: int
    torn_lines: int
    bad_lines: int
    keyless_lines: int  # lines that can't be used and don't name their key
    faults: int  # of any kind
    told_faults: tuple[str, ...]  # a sentence of each kind, with file, line and field
    refused_operations: int  # of keys with faults: counted, but not judged
    orphans: int  # completions without an invoke
    cut_off: int  # invokes without a completion
    unplaced: int  # ok operations of the load that carry no position
    clocks: tuple[str, ...]  # at most the first and the last name; empty: lines name none


@dataclass(frozen=True, kw_only=True)
class Ingested:
    """The operations, the result of each bucket's pass, and the facts of the files.

    `unused`: a sentence about column files that were not used, empty if there are none.
    """

    read_ops: Callable[[], DataFrame]
    buckets: tuple[JudgedBucket, ...]
    quality: Quality
    wall_offset_ns: int  # wall clock minus monotonic clock
    start_ns: int  # first scheduled start
    end_ns: int  # last line
    unused: str = ""

    @cached_property
    def ops(self) -> DataFrame:
        """The operations, as a table that Spark makes at the first read: most runs are clean."""
        return self.read_ops()

    @property
    def suspected(self) -> bool:
        """Whether any check has to look at operations again."""
        return any(bucket.suspects != NO_SUSPECTS for bucket in self.buckets)

    def forget_ops(self) -> None:
        """Frees what Spark keeps of the operations, if `ops` was read."""
        if "ops" in vars(self):
            self.ops.unpersist()


def ingest(
    spark: SparkSession,
    run: Path | Location | RecordedRun,
    *,
    clock_offset_ns: int = 0,
    dumps: bool = False,
    known: Known = NOTHING_KNOWN,
) -> Ingested:
    """Reads `history/*.jsonl` and writes `tables/ops`, replacing the earlier table.

    Of ranges that have a column file it is read in place of the lines, with the same result.

    `clock_offset_ns` widens every interval on both sides: it may hide a violation and never invents
    one. `dumps`: whether there are replicas to compare with. `known`: the facts about partitions
    from the run's events. Raises RunFolderError.
    """
    record = RecordedRun.of(run)
    files, size = list(record.histories.files), record.histories.size_bytes
    buckets = max(2, -(-size // BUCKET_BYTES))
    target = (record.location / "tables" / "ops").resolve()
    target.empty_folder()
    split_by_key = by_key(files, buckets)
    lines = Lines(
        spark=spark,
        files=files,
        buckets=buckets,
        by_key=split_by_key,
        clock_offset_ns=clock_offset_ns,
        column_files=column_files(record.location),
    )

    def one_pass(asked: Asked) -> tuple[list[JudgedBucket], Twice]:
        if asked is not NOTHING_ASKED:
            target.empty_folder()  # an empty bucket would not overwrite its first file
        return passed(lines, target, dumps=dumps, known=known, asked=asked)

    def overlaps(asked: Asked, refused: Defects, partitions: Collection[int]) -> Defects:
        return overlaps_in(lines, asked.twice, refused, partitions)

    result = agreed(one_pass, overlaps, known.lineages, by_key=split_by_key)
    found = result.found
    facts = found[0].facts if found else Facts()
    faults = defects_together([facts.faults, result.overlapping, *(b.faults for b in found)])
    return Ingested(
        read_ops=lambda: operations(
            spark,
            target,
            [bucket.suspects for bucket in found],
            buckets=buckets,
            by="key_id" if split_by_key else "partition_id",
        ),
        buckets=tuple(found),
        wall_offset_ns=facts.wall_offset or 0,
        start_ns=facts.start or 0,
        end_ns=facts.end or 0,
        unused=_unused(facts),
        quality=Quality(
            files=len(files),
            bytes=size,
            lines=facts.lines,
            torn_lines=facts.torn,
            bad_lines=faults.of(HistoryDefectKind.UNREADABLE),
            keyless_lines=faults.keyless,
            faults=sum(faults.counts.values()),
            told_faults=tuple(in_words(faults, files)),
            refused_operations=sum(b.refused for b in found),
            orphans=sum(b.orphans for b in found),
            cut_off=sum(b.cut_off for b in found),
            unplaced=sum(b.unplaced for b in found),
            clocks=clocks_of(facts),
        ),
    )


def clocks_of(facts: Facts) -> tuple[str, ...]:
    """Returns the names of two clocks of a history if there are several, else the one.

    Lines that name none have a clock of their own, without a name, if others name one.
    """
    found = {name for name in (facts.first_clock, facts.last_clock) if name is not None}
    return tuple(sorted(found)) if any(found) else ()


def _unused(facts: Facts) -> str:
    if not facts.unused_files:
        return ""
    return (
        f"{facts.unused_files:,} column files are not used, and their lines read instead: "
        f"{facts.unused}; zonequake columns writes them again"
    )
