"""A history in pieces, as a run sends it into a store, is judged as if it were one file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from tests.foreign.spoilt_runs import without_place
from tests.histories import anomalies
from tests.histories.synthesize import START_NS, Shape, synthesize, write_operations
from tests.spark.checkers.test_split_partitions import tables_of
from zonequake_analysis.judgement.judge import Judgement, judge_run
from zonequake_analysis.report import write_report
from zonequake_analysis.verdict import Verdict
from zonequake_chaos.load.histories import HistoryCopy

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

NAME = "load-0.jsonl"
PIECE_BYTES = 60_000
TORN = b'{"schema":1,"type":"inv'
"""What a pod that was killed leaves at the end of its file."""


def history_of_a_pod(folder: Path, *, planted: bool) -> bytes:
    """The lines of one pod in the order of their times, so that those of an operation are apart;
    `planted`: with one of each anomaly."""
    synthesize(folder, Shape(operations=2000, rate=1000, files=1, partitions=2, keys=16))
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


def made(run: Path, history: bytes, *, piece_bytes: int) -> Path:
    """A run folder with this history, as `zonequake run` copies it out of a pod."""
    (run / "history").mkdir(parents=True)
    HistoryCopy(run / "history", NAME, piece_bytes=piece_bytes).write(history)
    document = {
        "run": "in-pieces-1",
        "harness": {"verdict": "passed", "problems": []},
        "files": {f"history/{file.name}": file.stat().st_size for file in pieces(run)},
    }
    (run / "run.yaml").write_text(yaml.safe_dump(document))
    return run


def pieces(run: Path) -> list[Path]:
    """The files of the history, in the order of their lines."""
    return sorted((run / "history").iterdir(), key=lambda file: (file.name != NAME, file.name))


def operations_apart(run: Path) -> int:
    """How many operations have their invoke in one piece and their completion in a later one."""
    begun: dict[str, int] = {}
    apart = 0
    for number, file in enumerate(pieces(run)):
        for line in file.read_bytes().split(b"\n"):
            if line and line != TORN:
                event = json.loads(line)
                if event["type"] == "invoke":
                    begun[event["op"]] = number
                else:
                    apart += begun[event["op"]] < number
    return apart


def told(run: Path, judgement: Judgement) -> dict[str, Any]:
    """The verdict, but for where it was reached, and in how many files the history lay."""
    write_report(run, judgement)
    document = without_place((run / "verdict.json").read_bytes())
    files = f" in {judgement.ingested.quality.files} files"
    for check in document["checks"]:
        if check["name"] == "history":
            check["summary"] = check["summary"].replace(files, "")
    return document


def test_a_history_in_pieces_is_judged_as_in_one_file(spark: SparkSession, tmp_path: Path) -> None:
    history = history_of_a_pod(tmp_path / "pod", planted=True) + TORN
    one = made(tmp_path / "one" / "run", history, piece_bytes=len(history) + 1)
    several = made(tmp_path / "several" / "run", history, piece_bytes=PIECE_BYTES)
    assert len(pieces(one)) == 1
    assert len(pieces(several)) > 10
    assert b"".join(file.read_bytes() for file in pieces(several)) == history
    assert operations_apart(several) > 10, "operations that two pieces share"

    whole, cut = judge_run(spark, one), judge_run(spark, several)
    assert whole.verdict is Verdict.VIOLATED
    assert told(several, cut) == told(one, whole)
    assert [str(shown) for shown in cut.shown] == [str(shown) for shown in whole.shown]
    assert replace(cut.ingested.quality, files=1) == whole.ingested.quality
    assert whole.ingested.quality.torn_lines == 1
    assert whole.ingested.quality.orphans == 0
    tables = tables_of(spark, one)
    assert {"ops", "findings"} <= tables.keys()
    assert sum(tables["findings"].values()) > len(anomalies.NAMES)
    in_pieces = tables_of(spark, several)
    assert {name for name in tables if in_pieces[name] != tables[name]} == set()


def test_a_piece_that_is_missing_in_the_middle_makes_it_unknown_and_accuses_nobody(
    spark: SparkSession, tmp_path: Path
) -> None:
    history = history_of_a_pod(tmp_path / "pod", planted=False)
    run = made(tmp_path / "run", history, piece_bytes=PIECE_BYTES)
    assert judge_run(spark, run).verdict is Verdict.PASSED, "with all of its pieces"

    lost = pieces(run)[len(pieces(run)) // 3]
    lost.unlink()
    judgement = judge_run(spark, run)
    checks = {check.name: check for check in judgement.checks}
    assert judgement.verdict is Verdict.UNKNOWN, [str(check) for check in judgement.checks]
    assert checks["history"].verdict is Verdict.UNKNOWN
    assert (
        "1 files are missing, or shorter than when the run ended, such as "
        f"history/{lost.name}: copy the run again"
    ) in checks["history"].summary
    assert checks["phantoms"].violations > 0, "values are read whose writes are in that piece"
    for name in ("phantoms", "linearizability"):
        assert checks[name].verdict is Verdict.UNKNOWN
        assert "1 files of the history are missing or cut" in checks[name].summary
    rows = tables_of(spark, run)["findings"]
    assert not any("'verdict': 'violated'" in row for row in rows)
