"""Makes run folders whose history is one pod's, and reads what an analysis made of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile, copytree
from typing import Any

import yaml
from pyspark.sql import SparkSession

from tests.foreign.spoilt_runs import without_place
from tests.histories import anomalies
from tests.histories.synthesize import START_NS, Shape, synthesize, write_operations
from zonequake_analysis.inputs.column_files.conversion import convert
from zonequake_analysis.judgement.judge import Judgement
from zonequake_analysis.report import write_report
from zonequake_analysis.storage.location import Location
from zonequake_analysis.tables import open_tables
from zonequake_chaos.load.histories import HistoryCopy

NAME = "load-0.jsonl"
TORN = b'{"schema":1,"type":"inv'
"""What a pod that was killed leaves at the end of its file."""

PIECE_BYTES = 60_000
"""Cuts a run's history into more than ten files."""

Rows = dict[str, Counter[str]]


@dataclass(frozen=True, slots=True)
class Sound:
    """A run without an anomaly, whose history is in pieces."""

    run: Path
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class Spoilt:
    """A run with one of each anomaly, whose history is one file; `tables`: the rows of each."""

    run: Path
    judgement: Judgement
    tables: Rows


def told(run: Path, judgement: Judgement) -> dict[str, Any]:
    """Returns the verdict, but for where it was reached, and in how many files the history lay."""
    write_report(run, judgement)
    document = without_place((run / "verdict.json").read_bytes())
    files = f" in {judgement.ingested.quality.files} files"
    for check in document["checks"]:
        if check["name"] == "history":
            check["summary"] = check["summary"].replace(files, "")
    return document


def tables_of(spark: SparkSession, run: Path) -> Rows:
    """Returns the rows of each table, in words: a row may have lists."""
    return {
        name: Counter(str(row.asDict(recursive=True)) for row in table.collect())
        for name, table in open_tables(spark, run).items()
    }


def history_of_a_pod(folder: Path, *, planted: bool) -> bytes:
    """Returns the lines of one pod in the order of their times, so that those of an operation are
    apart; `planted`: with one of each anomaly."""
    synthesize(folder, Shape(operations=2000, rate=1000, files=1, partitions=4, keys=16))
    if planted:
        each = [anomalies.plant(name, START_NS + 1_000_000_000) for name in anomalies.NAMES]
        operations = [operation for one in each for operation in one.operations]
        write_operations(folder / "history" / "planted.jsonl", operations)
    lines = [
        line
        for file in sorted((folder / "history").iterdir())
        for line in file.read_bytes().splitlines(keepends=True)
    ]
    by_time = sorted(lines, key=lambda line: int(json.loads(line)["time"]))
    return b"".join(by_time)


def made(run: Path, history: bytes, *, piece_bytes: int, problem: str = "") -> Path:
    """Makes a run folder with this history, as `zonequake run` copies it out of a pod; `problem`:
    of the harness, which failed by it."""
    (run / "history").mkdir(parents=True)
    HistoryCopy(run / "history", NAME, piece_bytes=piece_bytes).write(history)
    verdict = "harness-failed" if problem else "passed"
    document = {
        "run": "of-a-pod-1",
        "harness": {"verdict": verdict, "problems": [problem] if problem else []},
        "files": {f"history/{file.name}": file.stat().st_size for file in pieces(run)},
    }
    (run / "run.yaml").write_text(yaml.safe_dump(document))
    return run


def pieces(run: Path) -> list[Path]:
    """Returns the files of the history, in the order of their lines."""
    return sorted((run / "history").iterdir(), key=lambda file: (file.name != NAME, file.name))


def write_columns(run: Path, files: Iterable[Path]) -> None:
    """Writes the column files of these pieces, as `zonequake columns` does in other processes."""
    for file in files:
        convert(Location.of(file), Location.of(run / "columns"))


def copied(run: Path, to: Path) -> Path:
    """Copies a run folder as it was before it was judged."""
    copytree(run / "history", to / "history")
    copyfile(run / "run.yaml", to / "run.yaml")
    return to
