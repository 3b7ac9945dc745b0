"""Judges lines of histories as a run does, in this process and without Spark."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

import numpy as np
import pyarrow as pa

from zonequake_analysis.inputs.faults.names import Names, Twice, names_by_bucket, twice
from zonequake_analysis.inputs.faults.of_history import Faults, faults_together, in_words
from zonequake_analysis.inputs.integer_columns import EVENTS, Facts, together, typed
from zonequake_analysis.inputs.layout import split
from zonequake_analysis.inputs.lines import byte_ranges, kept_lines
from zonequake_analysis.spark_pass.across_keys import of_processes, overlapping, shipped
from zonequake_analysis.spark_pass.agreed import Asked, agreed
from zonequake_analysis.spark_pass.bucket import NOTHING_KNOWN, Found, Known, judged_bucket
from zonequake_analysis.spark_pass.gathered import gathered
from zonequake_analysis.storage.place import Place

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
) -> tuple[Sequence[Found], Faults]:
    """What each bucket finds, and the faults of the whole history.

    `by_key`: a bucket has only some keys of a partition.
    """
    passes = _Passes(
        files=files, folder=folder, size=size, buckets=buckets, by_key=by_key, known=known
    )
    result = agreed(passes.judged, passes.overlaps, known.lineages, by_key=by_key)
    facts = result.found[0].facts
    return result.found, faults_together(
        [facts.faults, result.overlapping, *(one.faults for one in result.found)]
    )


def told(files: Sequence[Path], folder: Path) -> list[str]:
    """The faults of a history in sentences."""
    return in_words(judged(files, folder)[1], files)


def suspicious(found: Sequence[Found]) -> bool:
    """Whether any screen flagged anything."""
    return any(one.suspects.partitions or one.suspects.sessions for one in found)


@dataclass(frozen=True, kw_only=True)
class _Passes:
    """The passes of a run, in this process."""

    files: Sequence[Path]
    folder: Path
    size: int
    buckets: int
    by_key: bool
    known: Known

    def judged(self, asked: Asked) -> tuple[list[Found], Twice]:
        blobs: list[list[bytes]] = [[] for _ in range(self.buckets)]
        names: list[list[Names]] = [[] for _ in range(self.buckets)]
        across: list[list[tuple[bytes, bytes, bytes]]] = [[] for _ in range(self.buckets)]
        facts: list[Facts] = []
        for events, fact in self._ranges(asked.twice):
            facts.append(fact)
            for own, blob in zip(
                blobs, split(events, self.buckets, by_key=self.by_key), strict=True
            ):
                own.append(blob)
            for called, name in zip(names, names_by_bucket(events, self.buckets), strict=True):
                called.append(name)
            if self.by_key:
                for spanning, part in zip(across, shipped(events, self.buckets), strict=True):
                    spanning.append(part)
        if self.folder.exists():
            rmtree(self.folder)
        self.folder.mkdir()
        found = [
            judged_bucket(
                number,
                blobs[number],
                facts,
                folder=Place.of(self.folder),
                dumps=True,
                known=self.known,
                across=across[number] if self.by_key else None,
                elsewhere=asked.elsewhere,
            )
            for number in range(self.buckets)
        ]
        carried = [twice(parts) for parts in names]
        return gathered(found, by_key=self.by_key), Twice(
            ops=np.concatenate([one.ops for one in carried]),
            keys=np.concatenate([one.keys for one in carried]),
        )

    def overlaps(self, asked: Asked, refused: Faults, partitions: Collection[int]) -> Faults:
        parts = zip(
            *(
                of_processes(events, partitions, self.buckets)
                for events, _ in self._ranges(asked.twice)
            ),
            strict=True,
        )
        return faults_together(
            [overlapping(own, refused, partitions, clock_offset_ns=0) for own in parts]
        )

    def _ranges(self, several: Twice | None) -> Iterator[tuple[pa.Table, Facts]]:
        for part in byte_ranges(self.files, self.size):
            read = [
                typed(lines, writer=self.files[part.file].stem, clock_offset_ns=0, twice=several)
                for lines in kept_lines(part)
            ]
            yield (
                pa.concat_tables([table for table, _ in read] or [EVENTS.empty_table()]),
                together([fact for _, fact in read]),
            )
