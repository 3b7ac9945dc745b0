"""What the benchmark of all ways to judge a run makes of their verdicts, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.analysis.bench_ways import PODS, Judged, markdown, problems_of, row_of
from benchmarks.analysis.engines import Cost

COST = Cost(ended=False, exit_code=0, seconds=9.0, cpu_seconds=8.25, peak_gib=1.5, output=b"")


def left(folder: Path, **changes: Any) -> Judged:
    """A run folder as an analysis leaves it, with its verdict changed."""
    document = {
        "verdict": "violated",
        "exit_code": 1,
        "numbers": {"analysis_s": len(str(folder)), "lines": 9},
        "analyzed": {
            "master": "spark://127.0.0.1:1",
            "application": "app-1",
            "executors": [{"name": "0", "address": "127.0.0.1", "tasks": 3}],
        },
        **changes,
    }
    (folder / "tables" / "findings").mkdir(parents=True)
    (folder / "verdict.json").write_text(json.dumps(document))
    pq.write_table(pa.table({"check": ["a", "b"]}), folder / "tables" / "findings" / "x.parquet")
    return Judged(exit_code=1, seconds=4.04, place=str(folder))


def test_a_row_says_where_it_ran_what_it_found_and_what_it_cost(tmp_path: Path) -> None:
    row = row_of("standalone", left(tmp_path), COST)
    digest = row["digest"]
    told = (
        f"| standalone | spark://127.0.0.1:1 | app-1 | 0 at 127.0.0.1 | violated | 2 | {digest} |"
    )
    assert markdown([row]).splitlines()[2] == f"{told} 4.0 | 8.2 | 1.50 |"
    assert (row_of(PODS, Judged(exit_code=1, seconds=4.0, place=str(tmp_path)), COST))[
        "CPU s"
    ] == ""


def test_verdicts_that_differ_only_by_their_place_are_one(tmp_path: Path) -> None:
    elsewhere = {"master": "local[2]", "application": "local-1", "executors": []}
    rows = [
        row_of("standalone", left(tmp_path / "one"), COST),
        row_of("connect", left(tmp_path / "of-another-length", analyzed=elsewhere), COST),
    ]
    assert problems_of(rows, {}) == []
    assert rows[1]["executors that worked"] == "none told"


def test_a_verdict_that_differs_and_a_way_that_failed_are_named(tmp_path: Path) -> None:
    rows = [
        row_of("local", left(tmp_path / "one"), COST),
        row_of("s3", left(tmp_path / "two", headline="another"), COST),
    ]
    assert problems_of(rows, {"pods": "ended with 1"}) == [
        "pods: ended with 1",
        f"found 2 verdicts, expected one: {rows[0]['digest']}: local; {rows[1]['digest']}: s3",
    ]


def test_a_command_that_ended_otherwise_than_its_verdict_says_is_an_error(tmp_path: Path) -> None:
    left(tmp_path)
    with pytest.raises(OSError, match="ended with 0, not as its verdict says"):
        row_of("local", Judged(exit_code=0, seconds=1.0, place=str(tmp_path)), COST)
