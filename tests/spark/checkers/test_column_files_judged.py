"""A run is judged by its column files as by its lines, and a line tells of those that don't fit."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from shutil import copyfile

import pytest
from pyspark.sql import SparkSession

from tests.spark.checkers.conftest import PROBLEM
from tests.spark.checkers.runs_of_a_pod import (
    PIECE_BYTES,
    Sound,
    Spoilt,
    copied,
    made,
    pieces,
    tables_of,
    told,
)
from zonequake_analysis.inputs.column_files import one_range
from zonequake_analysis.inputs.column_files.command import write_column_files
from zonequake_analysis.inputs.column_files.conversion import convert
from zonequake_analysis.judgement.judge import judge_run
from zonequake_analysis.storage.place import Place
from zonequake_analysis.verdict import Verdict

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]


def test_a_run_with_column_files_is_judged_as_by_its_lines(
    spark: SparkSession, spoilt: Spoilt, tmp_path: Path
) -> None:
    (file,) = pieces(spoilt.run)
    run = made(tmp_path / "run", file.read_bytes(), piece_bytes=PIECE_BYTES, problem=PROBLEM)
    write_column_files(Place.of(run))
    assert len(list((run / "columns").iterdir())) == len(pieces(run)) > 10

    said: list[str] = []
    by_lines, by_columns = spoilt.judgement, judge_run(spark, run, progress=said.append)
    assert by_lines.verdict is Verdict.VIOLATED
    assert told(run, by_columns) == told(spoilt.run, by_lines)
    assert replace(by_columns.ingested.quality, files=1) == by_lines.ingested.quality
    assert [str(shown) for shown in by_columns.shown] == [str(shown) for shown in by_lines.shown]
    in_columns = tables_of(spark, run)
    assert {name for name, rows in spoilt.tables.items() if in_columns[name] != rows} == set()
    assert not any("column files" in line for line in said)


def test_column_files_that_do_not_fit_change_no_verdict_and_are_told_of(
    spark: SparkSession, sound: Sound, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copied(sound.run, tmp_path / "run")
    write_column_files(Place.of(run))
    damaged, foreign, old, *_, edited, _, _, _, _ = pieces(run)

    def file_of(piece: Path) -> Path:
        return run / "columns" / f"{piece.name}.0.arrows"

    content = bytearray(file_of(damaged).read_bytes())
    content[len(content) // 2] ^= 1
    file_of(damaged).write_bytes(content)
    copyfile(file_of(old), file_of(foreign))
    with monkeypatch.context() as patched:
        patched.setattr(one_range, "VERSION", "0")
        convert(Place.of(old), Place.of(run / "columns"))

    said: list[str] = []
    judgement = judge_run(spark, run, progress=said.append)
    assert judgement.verdict is Verdict.PASSED
    assert told(run, judgement) == told(sound.run, sound.judgement)
    (line,) = (line for line in said if "column files" in line)
    assert line.startswith("3 column files are not used, and their lines read instead: columns/")

    # A value that a client read, changed in the lines alone: what no write wrote.
    text = edited.read_bytes()
    read = re.search(rb'"type":"ok","f":"read".*?"value":(1\d\d\d),', text)
    assert read is not None
    nines = b"9" * len(read[1])
    edited.write_bytes(text[: read.start(1)] + nines + text[read.end(1) :])
    said.clear()
    judgement = judge_run(spark, run, progress=said.append)
    checks = {check.name: check for check in judgement.checks}
    assert checks["phantoms"].violations > 0
    (line,) = (line for line in said if "column files" in line)
    assert line.startswith("4 column files are not used")
