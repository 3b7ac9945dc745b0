"""A run is judged as by its lines though column files don't fit them, and a line tells of those."""

from __future__ import annotations

import re
from pathlib import Path
from shutil import copyfile

import pytest
from pyspark.sql import SparkSession

from tests.spark.checkers.runs_of_a_pod import Sound, copied, pieces, told, write_columns
from zonequake_analysis.inputs.column_files import one_range
from zonequake_analysis.judgement.judge import judge_run
from zonequake_analysis.verdict import Verdict

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]


@pytest.mark.long
def test_column_files_that_do_not_fit_change_no_verdict_and_are_told_of(
    spark: SparkSession, sound: Sound, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copied(sound.run, tmp_path / "run")
    write_columns(run, pieces(run))
    damaged, foreign, old, *_, edited, _, _, _, _ = pieces(run)

    def file_of(piece: Path) -> Path:
        return run / "columns" / f"{piece.name}.0.arrows"

    content = bytearray(file_of(damaged).read_bytes())
    content[len(content) // 2] ^= 1
    file_of(damaged).write_bytes(content)
    copyfile(file_of(old), file_of(foreign))
    with monkeypatch.context() as patched:
        patched.setattr(one_range, "VERSION", "0")
        write_columns(run, [old])

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
