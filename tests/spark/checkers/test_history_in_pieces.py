"""A history in pieces, as a run sends it into a store, is judged as if it were one file, also where
some of the pieces have column files."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.histories import anomalies
from tests.spark.checkers.conftest import PROBLEM
from tests.spark.checkers.runs_of_a_pod import (
    PIECE_BYTES,
    TORN,
    Sound,
    Spoilt,
    copied,
    made,
    pieces,
    tables_of,
    told,
    write_columns,
)
from zonequake_analysis.judgement.judge import judge_run
from zonequake_analysis.tables import open_tables
from zonequake_analysis.verdict import Verdict

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]


def pieces_of_operations(run: Path) -> list[tuple[int, int]]:
    """The numbers of the pieces that hold the invoke and the completion of each operation."""
    begun: dict[str, int] = {}
    found = []
    for number, file in enumerate(pieces(run)):
        for line in file.read_bytes().split(b"\n"):
            if line and line != TORN:
                event = json.loads(line)
                if event["type"] == "invoke":
                    begun[event["op"]] = number
                else:
                    found.append((begun[event["op"]], number))
    return found


def has_columns(number: int) -> bool:
    """Whether a piece has a column file: two of four, so that neighbours are alike, and are not."""
    return number % 4 > 1


@pytest.mark.long
def test_a_history_in_pieces_some_with_column_files_is_judged_by_the_lines_of_one_file(
    spark: SparkSession, spoilt: Spoilt, tmp_path: Path
) -> None:
    one, whole = spoilt.run, spoilt.judgement
    (file,) = pieces(one)
    history = file.read_bytes()
    several = made(tmp_path / "run", history, piece_bytes=PIECE_BYTES, problem=PROBLEM)
    assert len(pieces(several)) > 10
    assert b"".join(file.read_bytes() for file in pieces(several)) == history
    apart = [(a, b) for a, b in pieces_of_operations(several) if a < b]
    assert len(apart) > 10, "operations that two pieces share"
    both_ways = set(product((False, True), repeat=2))
    assert {(has_columns(a), has_columns(b)) for a, b in apart} == both_ways
    write_columns(several, [p for n, p in enumerate(pieces(several)) if has_columns(n)])

    said: list[str] = []
    cut = judge_run(spark, several, progress=said.append)
    assert not any("column files" in line for line in said), "each is used"
    assert whole.verdict is Verdict.VIOLATED
    assert told(several, cut) == told(one, whole)
    assert [str(shown) for shown in cut.shown] == [str(shown) for shown in whole.shown]
    assert replace(cut.ingested.quality, files=1) == whole.ingested.quality
    assert whole.ingested.quality.torn_lines == 1
    assert whole.ingested.quality.orphans == 0
    tables = spoilt.tables
    assert {"ops", "findings"} <= tables.keys()
    assert sum(tables["findings"].values()) > len(anomalies.NAMES)
    in_pieces = tables_of(spark, several)
    assert {name for name in tables if in_pieces[name] != tables[name]} == set()


def test_a_piece_that_is_missing_in_the_middle_makes_it_unknown_and_no_violation(
    spark: SparkSession, sound: Sound, tmp_path: Path
) -> None:
    assert sound.judgement.verdict is Verdict.PASSED, "with all of its pieces"
    run = copied(sound.run, tmp_path / "run")
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
    assert open_tables(spark, run)["findings"].where("verdict = 'violated'").count() == 0
