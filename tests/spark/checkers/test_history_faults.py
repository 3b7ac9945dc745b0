"""Whole run folders with faults: the run is unknown, says where, and no violation is made up."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.unit.analysis.judged_lines import line, operation, written
from zonequake_analysis.judgement.judge import judge_run
from zonequake_analysis.report import write_report
from zonequake_analysis.verdict import Check, Verdict

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

GOOD = [
    *operation(1),
    *operation(2, f="read", value=1),
    *operation(9, f="read", role="final", value=1),
]


def checks_of(spark: SparkSession, run: Path, *files: list[str]) -> dict[str, Check]:
    run.mkdir(exist_ok=True)
    written(run, *files)
    judgement = judge_run(spark, run)
    write_report(run, judgement)
    return {check.name: check for check in judgement.checks}


def test_a_lost_append_on_a_key_of_two_uses_is_unknown_with_both_places(
    spark: SparkSession, tmp_path: Path
) -> None:
    mixed = [
        *operation(3, key="mixed"),
        *operation(4, key="mixed", f="append"),
        *operation(5, key="mixed", f="read", value=3),
    ]
    checks = checks_of(spark, tmp_path, [*GOOD, *mixed])
    assert {name for name, c in checks.items() if c.verdict is not Verdict.PASSED} == {"history"}
    history = checks["history"]
    assert history.verdict is Verdict.UNKNOWN
    assert "history/load-0.jsonl:8" in history.summary
    assert "history/load-0.jsonl:10" in history.summary
    assert "mixed" in (tmp_path / "summary.md").read_text()


def test_faults_of_lines_are_never_faults_of_the_store(spark: SparkSession, tmp_path: Path) -> None:
    faulty = [
        *operation(3, key="early", time=250),
        *operation(4, key="early", f="read", value=77),
        *operation(5, key="again", op="1-1"),
        *operation(6, key="again", f="read", value=78),
        line(op=None, key="nameless", inv=700, time=720, index=70),
        *operation(8, key="nameless", f="read", value=79),
    ]
    checks = checks_of(spark, tmp_path, [*GOOD, *faulty])
    violated = {name for name, c in checks.items() if c.verdict is Verdict.VIOLATED}
    assert violated == set()
    said = checks["history"].summary
    assert "history/load-0.jsonl:8, field `time`" in said
    assert "history/load-0.jsonl:11, field `op`: found 1-1" in said
    assert "history/load-0.jsonl:15, field `op`: it is missing" in said


def test_a_value_of_a_line_that_can_not_be_read_is_unknown_and_not_invented(
    spark: SparkSession, tmp_path: Path
) -> None:
    read = operation(4, key="k2", f="read", value=3)
    checks = checks_of(spark, tmp_path, [*GOOD, '{"type":"ok","value":3', *read])
    assert checks["phantoms"].verdict is Verdict.UNKNOWN
    assert checks["linearizability"].verdict is Verdict.UNKNOWN
    assert "history/load-0.jsonl:7: Input data was truncated" in checks["history"].summary
    whole = checks_of(spark, tmp_path, [*GOOD, *read])
    assert whole["phantoms"].verdict is Verdict.VIOLATED
    assert whole["linearizability"].verdict is Verdict.VIOLATED
