"""Judges lines of histories as a run does, in this process and without Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from zonequake_analysis.inputs.faults.names import Names, Twice, names_by_bucket, twice
from zonequake_analysis.inputs.faults.of_history import Faults, faults_together, in_words
from zonequake_analysis.inputs.integer_columns import EVENTS, Facts, typed
from zonequake_analysis.inputs.layout import split
from zonequake_analysis.inputs.lines import byte_ranges, kept_lines
from zonequake_analysis.spark_pass.bucket import Found, judged_bucket
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
    files: Sequence[Path], folder: Path, *, size: int = RANGE_BYTES
) -> tuple[list[Found], Faults]:
    """What each bucket finds, and the faults of the whole history."""
    found, several = _pass(files, folder, None, size)
    if len(several.ops) or len(several.keys):
        found, _ = _pass(files, folder, several, size)
    return found, faults_together([found[0].facts.faults, *(one.faults for one in found)])


def told(files: Sequence[Path], folder: Path) -> list[str]:
    """The faults of a history in sentences."""
    return in_words(judged(files, folder)[1], files)


def suspicious(found: Sequence[Found]) -> bool:
    """Whether any screen flagged anything."""
    return any(one.suspects.partitions or one.suspects.sessions for one in found)


def _pass(
    files: Sequence[Path], folder: Path, several: Twice | None, size: int
) -> tuple[list[Found], Twice]:
    blobs: list[list[bytes]] = [[] for _ in range(BUCKETS)]
    names: list[list[Names]] = [[] for _ in range(BUCKETS)]
    facts: list[Facts] = []
    for part in byte_ranges(files, size):
        read = [
            typed(lines, writer=files[part.file].stem, clock_offset_ns=0, twice=several)
            for lines in kept_lines(part)
        ]
        facts += [fact for _, fact in read]
        events = pa.concat_tables([table for table, _ in read] or [EVENTS.empty_table()])
        for own, blob in zip(blobs, split(events, BUCKETS), strict=True):
            own.append(blob)
        for called, name in zip(names, names_by_bucket(events, BUCKETS), strict=True):
            called.append(name)
    folder.mkdir(exist_ok=True)
    found = [
        judged_bucket(number, blobs[number], facts, folder=Place.of(folder), dumps=True)
        for number in range(BUCKETS)
    ]
    carried = [twice(parts) for parts in names]
    first, second = carried
    return found, Twice(
        ops=pa.concat_arrays([pa.array(first.ops), pa.array(second.ops)]).to_numpy(),
        keys=pa.concat_arrays([pa.array(first.keys), pa.array(second.keys)]).to_numpy(),
    )
