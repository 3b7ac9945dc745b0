"""One pass over the lines of a history as a Spark job, and a look for what overlaps in sessions.

Both sides of the shuffle are Python over Arrow columns. A task returns its facts as its result, so
that a repeated task counts nothing twice.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from zonequake_analysis.cluster.task_places import keep_places, own_place
from zonequake_analysis.inputs.column_files.one_range import read_range
from zonequake_analysis.inputs.completeness import followed_pieces
from zonequake_analysis.inputs.defects.names import Names, Twice, names_by_bucket
from zonequake_analysis.inputs.defects.names import twice as find_twice
from zonequake_analysis.inputs.defects.of_history import Defects, defects_together
from zonequake_analysis.inputs.integer_columns import EVENTS, Facts, typed
from zonequake_analysis.inputs.layout import split
from zonequake_analysis.inputs.lines import RANGE_BYTES, ByteRange, byte_ranges
from zonequake_analysis.spark_pass.across_keys import (
    NOTHING_ACROSS,
    of_processes,
    overlapping,
    shipped,
)
from zonequake_analysis.spark_pass.bucket import JudgedBucket, Known, judged_bucket
from zonequake_analysis.spark_pass.in_tasks import shape
from zonequake_analysis.spark_pass.merged_buckets import gathered
from zonequake_analysis.spark_pass.repeated_passes import Asked
from zonequake_analysis.storage.location import Location

_SHIPPED = ["bucket", "facts", "ran", "blob", "names", "answers", "entries", "probes"]
"""The columns of the shuffle: from one range of lines to one bucket. One bucket gets the place
where the range's task ran (`ran`).
"""
_JUDGED = ["bucket", "found", "ran", "ops", "keys"]

replace = msgspec.structs.replace

_Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_T = TypeVar("_T")

_BEYOND_WRITER = r"(-\d+-(load|probe))?(\.\d+)?\.jsonl$"
"""The part of a file's name after its pod's: the process's number, the content, the ending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """All lines of a history, and how their operations are put into buckets.

    `column_files`: those of the run, by name.
    """

    spark: SparkSession
    files: list[Location]
    buckets: int
    by_key: bool
    clock_offset_ns: int
    range_bytes: int = RANGE_BYTES
    column_files: Mapping[str, Location] = field(default_factory=dict)

    def shares(self) -> list[list[ByteRange]]:
        """Returns the ranges that each task reads: of one writer, together as long as one may be.

        A task costs as much as some 10,000 lines, and a history may be in many small pieces.
        """
        shares: list[list[ByteRange]] = []
        before, size = "", 0
        for part in byte_ranges(self.files, self.range_bytes):
            writer, own = self.writer(part), part.stop - part.start
            if writer != before or size + own > self.range_bytes:
                shares.append([])
                before, size = writer, 0
            shares[-1].append(part)
            size += own
        return shares

    def writer(self, part: ByteRange) -> str:
        """Returns the name of the pod that wrote a file."""
        return re.sub(_BEYOND_WRITER, "", self.files[part.file].name)

    def events(self, twice: Twice | None) -> Callable[[int], tuple[pa.Table, Facts]]:
        """Returns a function that reads the share of a number; it may go to other machines."""
        shares = self.shares()
        writers = [self.writer(share[0]) for share in shares]
        clock_offset_ns, column_files = self.clock_offset_ns, self.column_files
        names = [file.name for file in self.files]
        before = followed_pieces(names)
        followed = [number for number, name in enumerate(names) if name in before]

        def read(number: int) -> tuple[pa.Table, Facts]:
            parts = [read_range(part, column_files) for part in shares[number]]
            events, facts = EVENTS.empty_table(), Facts()
            kept = [batch for part in parts for batch in part.kept]
            if kept:
                events, facts = typed(
                    pa.concat_batches(kept),  # each call costs as much as some 10,000 lines
                    writer=writers[number],
                    clock_offset_ns=clock_offset_ns,
                    twice=twice,
                    followed=followed,
                )
            unused = [part.unused for part in parts if part.unused]
            if unused:
                facts = replace(facts, unused_files=len(unused), unused=unused[0])
            return events, facts

        return read

    def to_buckets(self, read: _Task, columns: StructType) -> DataFrame:
        """Returns what a task makes of the numbers of shares, each row at its `bucket`."""
        count = len(self.shares())
        return (
            self.spark.range(0, count, 1, max(1, count))
            .mapInArrow(read, columns)
            .repartitionById(self.buckets, "bucket")
        )


def passed(
    lines: Lines, folder: Location, *, dumps: bool, known: Known, asked: Asked
) -> tuple[list[JudgedBucket], Twice]:
    """Runs both stages and the shuffle between them. Every bucket gets the facts of every range.

    Also returns the names that several operations or partitions carry.
    """
    buckets, by_key, clock_offset_ns = lines.buckets, lines.by_key, lines.clock_offset_ns
    events_of, elsewhere = lines.events(asked.twice), asked.elsewhere

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        ran = own_place()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                events, facts = events_of(number)
                across = shipped(events, buckets) if by_key else [NOTHING_ACROSS] * buckets
                called = map(msgspec.msgpack.encode, names_by_bucket(events, buckets))
                columns = [
                    [msgspec.json.encode(facts)] * buckets,
                    [ran if bucket == number % buckets else b"" for bucket in range(buckets)],
                    split(events, buckets, by_key=by_key),
                    called,
                    *zip(*across, strict=True),
                ]
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array(range(buckets), pa.int32()),
                        *(pa.array(column, pa.binary()) for column in columns),
                    ],
                    names=_SHIPPED,
                )

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        ran = own_place()
        received: dict[int, _Received] = {}
        for batch in batches:
            for bucket, said, other, blob, called, *across in zip(
                *(column.to_pylist() for column in batch.columns), strict=True
            ):
                ran += other
                of_bucket = received.setdefault(bucket, _Received([], [], [], []))
                of_bucket.facts.append(msgspec.json.decode(said, type=Facts))
                of_bucket.names.append(msgspec.msgpack.decode(called, type=Names))
                of_bucket.blobs.append(blob)
                of_bucket.across.append(tuple(across))
        for bucket in sorted(received):
            own = received.pop(bucket)
            several = find_twice(own.names)
            found = judged_bucket(
                bucket,
                _once(own.blobs),
                own.facts,
                folder=folder,
                dumps=dumps,
                known=known,
                clock_offset_ns=clock_offset_ns,
                across=_once(own.across) if by_key else None,
                elsewhere=elsewhere,
            )
            yield pa.RecordBatch.from_pydict(
                {
                    "bucket": pa.array([bucket], pa.int32()),
                    "found": [zlib.compress(msgspec.msgpack.encode(found), 1)],
                    "ran": [ran],
                    "ops": [several.ops.tobytes()],
                    "keys": [several.keys.tobytes()],
                }
            )
            ran = b""

    rows = lines.to_buckets(read, shape(_SHIPPED)).mapInArrow(judge, shape(_JUDGED)).collect()
    keep_places(lines.spark, (row["ran"] for row in rows))
    each = (
        msgspec.msgpack.decode(zlib.decompress(row["found"]), type=JudgedBucket)
        for row in sorted(rows, key=lambda row: row["bucket"])
    )
    ops, keys = (
        np.frombuffer(b"".join(row[name] for row in rows), np.int64) for name in ("ops", "keys")
    )
    return gathered(each, by_key=by_key), Twice(ops=ops, keys=keys)


def overlaps_in(
    lines: Lines, twice: Twice | None, refused: Defects, partitions: Collection[int]
) -> Defects:
    """Reads the history again for operations of one process that ran at the same time.

    Looks only at these partitions, by their ids.
    """
    buckets, clock_offset_ns = lines.buckets, lines.clock_offset_ns
    events_of = lines.events(twice)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                events, _ = events_of(number)
                yield pa.RecordBatch.from_pydict(
                    {
                        "bucket": pa.array(range(buckets), pa.int32()),
                        "blob": pa.array(of_processes(events, partitions, buckets), pa.binary()),
                    }
                )

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        received: dict[int, list[bytes]] = {}
        for batch in batches:
            for bucket, blob in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                received.setdefault(bucket, []).append(blob)
        for bucket in sorted(received):
            found = overlapping(
                _once(received.pop(bucket)), refused, partitions, clock_offset_ns=clock_offset_ns
            )
            yield pa.RecordBatch.from_pydict({"faults": [msgspec.msgpack.encode(found)]})

    rows = (
        lines.to_buckets(read, shape(["bucket", "blob"]))
        .mapInArrow(look, shape(["faults"]))
        .collect()
    )
    return defects_together([msgspec.msgpack.decode(row["faults"], type=Defects) for row in rows])


@dataclass(frozen=True, slots=True)
class _Received:
    """The blobs and facts that the ranges sent to one bucket."""

    facts: list[Facts]
    names: list[Names]
    blobs: list[bytes]
    across: list[tuple[bytes, bytes, bytes]]


def _once(parts: list[_T]) -> Iterator[_T]:
    """Yields the parts and forgets them: compressed rows need not stay beside what is read of
    them.
    """
    parts.reverse()
    while parts:
        yield parts.pop()
