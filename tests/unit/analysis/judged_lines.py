"""Judges lines of histories as a run does, in this process and without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from zonequake_analysis.inputs.defects.names import Twice
from zonequake_analysis.inputs.defects.of_history import Defects, defects_together, in_words
from zonequake_analysis.inputs.integer_columns import Facts
from zonequake_analysis.spark_pass.bucket import NOTHING_KNOWN, JudgedBucket, Known
from zonequake_analysis.spark_pass.passes import Lines, overlaps_in, passed
from zonequake_analysis.spark_pass.repeated_passes import Asked, agreed
from zonequake_analysis.storage.location import Location

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

BUCKETS = 2
RANGE_BYTES = 1 << 20

LINE: dict[str, object] = {
    "schema": 1,
    "type": "ok",
    "f": "write",
    "process": 3,
    "op": "3-1",
    "role": "load",
    "zone": "z1",
    "partition": 0,
    "key": "k1",
    "value": 7,
    "expected": None,
    "found": None,
    "sched": 10,
    "inv": 10,
    "time": 20,
    "clock": "c",
    "lineage": 0,
    "term": 1,
    "index": 1,
}
"""A line as the load writes it, without what no check needs."""


def line(**fields: object) -> str:
    return json.dumps({**LINE, **fields}, separators=(",", ":"))


def operation(number: int, **fields: object) -> list[str]:
    """The two lines of an operation of its own process, value, time and place."""
    own: dict[str, object] = {
        "process": number,
        "op": f"{number}-1",
        "value": None if fields.get("f") == "read" else number,
        "inv": number * 100,
        "sched": number * 100,
        "time": number * 100 + 50,
        "index": number * 10,
        **fields,
    }
    invoke = {**own, "type": "invoke", "time": own["inv"], "index": None}
    if own.get("f", "write") == "read":
        invoke["value"] = None
    return [line(**invoke), line(**own)]


def written(run: Path, *files: Sequence[str]) -> list[Path]:
    (run / "history").mkdir(exist_ok=True)
    found = []
    for number, lines in enumerate(files):
        file = run / "history" / f"load-{number}.jsonl"
        file.write_text("".join(f"{one}\n" for one in lines))
        found.append(file)
    return found


def judged(
    files: Sequence[Path],
    folder: Path,
    *,
    size: int = RANGE_BYTES,
    buckets: int = BUCKETS,
    by_key: bool = False,
    known: Known = NOTHING_KNOWN,
    column_files: Mapping[str, Location] | None = None,
) -> tuple[Sequence[JudgedBucket], Defects]:
    """What each bucket finds, and the faults of the whole history.

    `by_key`: a bucket has only some keys of a partition; `column_files`: those of the run.
    """
    lines = InProcess(
        spark=NoSession(),  # type: ignore[arg-type]
        files=[Location.of(file) for file in files],
        buckets=buckets,
        by_key=by_key,
        clock_offset_ns=0,
        range_bytes=size,
        column_files=column_files or {},
    )
    target = Location.of(folder)

    def one_pass(asked: Asked) -> tuple[list[JudgedBucket], Twice]:
        target.empty_folder()
        folder.mkdir(exist_ok=True)
        return passed(lines, target, dumps=True, known=known, asked=asked)

    def overlaps(asked: Asked, refused: Defects, partitions: Collection[int]) -> Defects:
        return overlaps_in(lines, asked.twice, refused, partitions)

    cores = pa.cpu_count()
    try:
        result = agreed(one_pass, overlaps, known.lineages, by_key=by_key)
    finally:
        pa.set_cpu_count(cores)  # a task has one, and is a process of its own elsewhere
    facts = result.found[0].facts if result.found else Facts()
    return result.found, defects_together(
        [facts.faults, result.overlapping, *(one.faults for one in result.found)]
    )


class NoSession:
    """The session of no Spark, by which the places of tasks are kept."""


class Shuffled:
    """The rows of a Spark job, each at its bucket, in this process."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = batches

    def mapInArrow(self, task: Task, _: StructType) -> Shuffled:
        if not self._batches:
            return self
        table = pa.Table.from_batches(self._batches)
        found: list[pa.RecordBatch] = []
        for bucket in sorted(set(table.column("bucket").to_pylist())):
            own = table.filter(pc.equal(table.column("bucket"), bucket))
            found += task(iter(own.to_batches(max_chunksize=2)))
        return Shuffled(found)

    def collect(self) -> list[dict[str, object]]:
        return [row for batch in self._batches for row in batch.to_pylist()]


class InProcess(Lines):
    """Lines that are read without Spark."""

    def to_buckets(self, read: Task, _: StructType) -> Any:
        count = len(self.shares())
        numbers = pa.RecordBatch.from_pydict({"id": pa.array(range(count), pa.int64())})
        return Shuffled(list(read(iter([numbers]))))


def told(files: Sequence[Path], folder: Path) -> list[str]:
    """The faults of a history in sentences."""
    return in_words(judged(files, folder)[1], files)


def suspicious(found: Sequence[JudgedBucket]) -> bool:
    """Whether any screen flagged anything."""
    return any(
        one.suspects.partitions or one.suspects.sessions or one.suspects.split_sessions
        for one in found
    )
