"""A run is judged by its column files as by its lines, and a line tells of those that don't fit."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.foreign.spoilt_runs import without_place
from tests.histories import anomalies
from tests.spark.checkers.runs_of_a_pod import (
    TORN,
    history_of_a_pod,
    made,
    pieces,
    tables_of,
)
from tests.spark.checkers.test_history_in_pieces import PIECE_BYTES
from zonequake_analysis.inputs.column_files import one_range
from zonequake_analysis.inputs.column_files.command import write_column_files
from zonequake_analysis.inputs.column_files.conversion import convert
from zonequake_analysis.judgement.judge import Judgement, judge_run
from zonequake_analysis.report import write_report
from zonequake_analysis.storage.place import Place
from zonequake_analysis.verdict import Verdict

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]


def judged(spark: SparkSession, run: Path) -> tuple[Judgement, object, list[str]]:
    """The judgement, its verdict but for where it was reached, and what was said meanwhile."""
    said: list[str] = []
    judgement = judge_run(spark, run, progress=said.append)
    write_report(run, judgement)
    return judgement, without_place((run / "verdict.json").read_bytes()), said


def test_a_run_with_column_files_is_judged_as_by_its_lines(
    spark: SparkSession, tmp_path: Path
) -> None:
    history = history_of_a_pod(tmp_path / "pod", planted=True) + TORN
    by_lines = made(tmp_path / "lines" / "run", history, piece_bytes=PIECE_BYTES)
    by_columns = tmp_path / "columns" / "run"
    shutil.copytree(by_lines, by_columns)
    write_column_files(Place.of(by_columns))
    assert len(list((by_columns / "columns").iterdir())) == len(pieces(by_lines)) > 10

    expected, verdict, _ = judged(spark, by_lines)
    found, same_verdict, said = judged(spark, by_columns)
    assert expected.verdict is Verdict.VIOLATED
    assert same_verdict == verdict
    assert found.ingested.quality == expected.ingested.quality
    assert [str(shown) for shown in found.shown] == [str(shown) for shown in expected.shown]
    tables = tables_of(spark, by_lines)
    assert sum(tables["findings"].values()) > len(anomalies.NAMES)
    in_columns = tables_of(spark, by_columns)
    assert {name for name in tables if in_columns[name] != tables[name]} == set()
    assert not any("column files" in line for line in said)


def test_column_files_that_do_not_fit_change_no_verdict_and_are_told_of(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = history_of_a_pod(tmp_path / "pod", planted=False)
    run = made(tmp_path / "run", history, piece_bytes=PIECE_BYTES)
    _, verdict, _ = judged(spark, run)
    write_column_files(Place.of(run))
    damaged, foreign, old, *_, edited, _, _, _, _ = pieces(run)

    def file_of(piece: Path) -> Path:
        return run / "columns" / f"{piece.name}.0.arrows"

    content = bytearray(file_of(damaged).read_bytes())
    content[len(content) // 2] ^= 1
    file_of(damaged).write_bytes(content)
    shutil.copyfile(file_of(old), file_of(foreign))
    with monkeypatch.context() as patched:
        patched.setattr(one_range, "VERSION", "0")
        convert(Place.of(old), Place.of(run / "columns"))

    judgement, same_verdict, said = judged(spark, run)
    assert judgement.verdict is Verdict.PASSED
    assert same_verdict == verdict
    (told,) = (line for line in said if "column files" in line)
    assert told.startswith("3 column files are not used, and their lines read instead: columns/")

    # A value that a client read, changed in the lines alone: what no write wrote.
    text = edited.read_bytes()
    read = re.search(rb'"type":"ok","f":"read".*?"value":(1\d\d\d),', text)
    assert read is not None
    nines = b"9" * len(read[1])
    edited.write_bytes(text[: read.start(1)] + nines + text[read.end(1) :])
    judgement, _, said = judged(spark, run)
    checks = {check.name: check for check in judgement.checks}
    assert checks["phantoms"].violations > 0
    (told,) = (line for line in said if "column files" in line)
    assert told.startswith("4 column files are not used")
