"""History lines → one row per operation, laid out so that no check needs a shuffle, and judged.

One pass (docs/analysis.md, "The layout is the algorithm"):

    ranges of bytes → lines → events, split by bucket → blobs ──shuffle──▶ one bucket to a task:
    pair, sort, write `tables/ops`, screen for every check, count

Both sides are Python over Arrow columns; Spark distributes the work, moves the blobs, and repeats
failed tasks. A task returns its facts as its result, so that a repeated task counts nothing twice.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from zonequake_analysis.errors import RunFolderError
from zonequake_analysis.inputs.faults.names import Names, Twice, names_by_bucket
from zonequake_analysis.inputs.faults.names import twice as find_twice
from zonequake_analysis.inputs.faults.of_history import HistoryFaultKind, faults_together, in_words
from zonequake_analysis.inputs.integer_columns import EVENTS, Facts, together, typed
from zonequake_analysis.inputs.layout import split
from zonequake_analysis.inputs.lines import byte_ranges, kept_lines
from zonequake_analysis.spark_pass.bucket import NOTHING_KNOWN, Found, Known, judged_bucket
from zonequake_analysis.spark_pass.operations import operations
from zonequake_analysis.storage.place import Place

BUCKET_BYTES = 128 * 1024 * 1024
"""History bytes per bucket: one task holds its rows in memory."""

_BEYOND_WRITER = r"(-\d+-(load|probe))?(\.\d+)?\.jsonl$"
"""The part of a file's name after its pod's: the process's number, the content, the ending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """The defects of the history files. A crash leaves a torn last line."""

    files: int
    bytes: int
    lines: int
    torn_lines: int
    bad_lines: int
    keyless_lines: int  # lines that can't be used and don't name their key
    foreign_schema_lines: int
    faults: int  # of any kind
    told_faults: tuple[str, ...]  # a sentence of each kind, with file, line and field
    refused_operations: int  # of keys with faults: counted, but not judged
    orphans: int  # completions without an invoke
    cut_off: int  # invokes without a completion
    unplaced: int  # ok operations of the load that carry no position
    clocks: tuple[str, ...]  # at most the first and the last name: it matters if there are several


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """The operations, the result of each bucket's pass, and the facts of the files."""

    ops: DataFrame
    buckets: tuple[Found, ...]
    quality: Quality
    wall_offset_ns: int  # wall clock minus monotonic clock
    start_ns: int  # first scheduled start
    end_ns: int  # last line


def history_files(run: Path | Place) -> list[Place]:
    """Returns the history files of a run folder, sorted.

    Raises RunFolderError if there are none, or if one is no file or can't be read.
    """
    files = Place.of(run / "history").listed(".jsonl")
    if not files:
        raise RunFolderError(
            f"found no file {run / 'history'}/*.jsonl; a run folder needs at least its histories"
        )
    for file in files:
        if file.local is not None:  # a store holds only plain files
            _check_plain(file.local)
    return files


def _check_plain(file: Path) -> None:
    try:
        kind = file.stat().st_mode
        if stat.S_ISREG(kind):
            file.open("rb").close()
    except OSError as error:
        raise RunFolderError(f"{file}: {error.strerror}; expected a file to read") from error
    if not stat.S_ISREG(kind):
        raise RunFolderError(f"{file}: found no plain file, expected one of JSON lines")


def ingest(
    spark: SparkSession,
    run: Path | Place,
    *,
    clock_offset_ns: int = 0,
    dumps: bool = False,
    known: Known = NOTHING_KNOWN,
) -> Ingested:
    """Reads `history/*.jsonl` and writes `tables/ops`, replacing the earlier table.

    `clock_offset_ns` widens every interval on both sides: it may hide a violation and never invents
    one. `dumps`: whether there are replicas to compare with. `known`: the facts about partitions
    from the run's events. Raises RunFolderError.
    """
    files = history_files(run)
    size = sum(file.size_bytes() for file in files)
    buckets = max(2, -(-size // BUCKET_BYTES))
    target = Place.of(run / "tables" / "ops").resolve()
    target.empty_folder()

    def one_pass(twice: Twice | None) -> tuple[list[Found], Twice]:
        return _one_pass(
            spark,
            files,
            target,
            buckets=buckets,
            clock_offset_ns=clock_offset_ns,
            dumps=dumps,
            known=known,
            twice=twice,
        )

    found, twice = one_pass(None)
    if len(twice.ops) or len(twice.keys):
        target.empty_folder()  # an empty bucket would not overwrite its first file
        found, _ = one_pass(twice)
    facts = found[0].facts if found else Facts()
    faults = faults_together([facts.faults, *(b.faults for b in found)])
    clocks = {facts.first_clock, facts.last_clock} - {None}
    return Ingested(
        ops=operations(spark, target, [bucket.suspects for bucket in found], buckets=buckets),
        buckets=tuple(found),
        wall_offset_ns=facts.wall_offset or 0,
        start_ns=facts.start or 0,
        end_ns=facts.end or 0,
        quality=Quality(
            files=len(files),
            bytes=size,
            lines=facts.lines,
            torn_lines=facts.torn,
            bad_lines=faults.of(HistoryFaultKind.UNREADABLE),
            keyless_lines=faults.keyless,
            foreign_schema_lines=facts.foreign_schema,
            faults=sum(faults.counts.values()),
            told_faults=tuple(in_words(faults, files)),
            refused_operations=sum(b.refused for b in found),
            orphans=sum(b.orphans for b in found),
            cut_off=sum(b.cut_off for b in found),
            unplaced=sum(b.unplaced for b in found),
            clocks=tuple(sorted(str(name) for name in clocks)),
        ),
    )


def _one_pass(
    spark: SparkSession,
    files: list[Place],
    folder: Place,
    *,
    buckets: int,
    clock_offset_ns: int,
    dumps: bool,
    known: Known,
    twice: Twice | None,
) -> tuple[list[Found], Twice]:
    """Runs both stages and the shuffle between them. Every bucket gets the facts of every range.

    Also returns the names that several operations or partitions carry; `twice` are the known ones.
    """
    ranges = byte_ranges(files)
    writers = [re.sub(_BEYOND_WRITER, "", file.name) for file in files]

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                part = ranges[number]
                read_lines = [
                    typed(
                        lines,
                        writer=writers[part.file],
                        clock_offset_ns=clock_offset_ns,
                        twice=twice,
                    )
                    for lines in kept_lines(part)
                ]
                facts = msgspec.json.encode(together([f for _, f in read_lines]))
                events = pa.concat_tables([t for t, _ in read_lines] or [EVENTS.empty_table()])
                del read_lines
                yield pa.RecordBatch.from_pydict(
                    {
                        "bucket": pa.array(range(buckets), pa.int32()),
                        "facts": pa.array([facts] * buckets, pa.binary()),
                        "blob": pa.array(split(events, buckets), pa.binary()),
                        "names": pa.array(
                            map(msgspec.msgpack.encode, names_by_bucket(events, buckets)),
                            pa.binary(),
                        ),
                    }
                )

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        blobs: dict[int, list[bytes]] = {}
        facts: dict[int, list[Facts]] = {}
        names: dict[int, list[Names]] = {}
        for batch in batches:
            for bucket, said, blob, called in zip(
                *(batch.column(i).to_pylist() for i in range(4)), strict=True
            ):
                names.setdefault(bucket, []).append(msgspec.msgpack.decode(called, type=Names))
                facts.setdefault(bucket, []).append(msgspec.json.decode(said, type=Facts))
                blobs.setdefault(bucket, []).append(blob)
        for bucket in sorted(blobs):
            found = judged_bucket(
                bucket,
                blobs.pop(bucket),
                facts[bucket],
                folder=folder,
                dumps=dumps,
                known=known,
                clock_offset_ns=clock_offset_ns,
            )
            several = find_twice(names.pop(bucket))
            yield pa.RecordBatch.from_pydict(
                {
                    "bucket": pa.array([bucket], pa.int32()),
                    "found": [msgspec.msgpack.encode(found)],
                    "ops": [several.ops.tobytes()],
                    "keys": [several.keys.tobytes()],
                }
            )

    rows = (
        spark.range(0, len(ranges), 1, max(1, len(ranges)))
        .mapInArrow(read, "bucket int, facts binary, blob binary, names binary")
        .repartitionById(buckets, "bucket")
        .mapInArrow(judge, "bucket int, found binary, ops binary, keys binary")
        .collect()
    )
    found = [
        msgspec.msgpack.decode(row["found"], type=Found)
        for row in sorted(rows, key=lambda row: row["bucket"])
    ]
    ops, keys = (
        np.frombuffer(b"".join(row[name] for row in rows), np.int64) for name in ("ops", "keys")
    )
    return found, Twice(ops=ops, keys=keys)
