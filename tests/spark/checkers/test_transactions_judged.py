"""Faults planted into transactions are found and named by a whole analysis, which reads the same by
lines and by columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.checkers.runs_of_a_pod import tables_of, write_columns
from tests.unit.analysis.judged_lines import operation, written
from tests.unit.analysis.transaction_lines import append, read, transaction
from zonequake_analysis.inputs.column_files import one_range
from zonequake_analysis.judgement.judge import Judgement, judge_run
from zonequake_analysis.report import write_report
from zonequake_analysis.spark_pass.ingest import Ingested, ingest
from zonequake_analysis.tables import open_tables
from zonequake_analysis.verdict import Check, Verdict

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

HALF, G0, G1C, SINGLE, SKEW, ABORTED, SHARED, CLEAN = range(8)
"""The partitions, each with one fault, and the last with none."""


def planted(partition: int) -> Iterator[list[str]]:
    """The operations of a partition, on keys of its own."""
    a, b, c = (f"t{partition}/{name}" for name in "abc")
    at = 1 + 100 * partition
    where = {"partition": partition}
    both = append(a, 1), append(b, 2)
    if partition == HALF:
        yield transaction(at, *both, type="info", index=None, **where)
        yield operation(at + 1, f="read", key=a, value=[1], **where)
        yield operation(at + 2, f="read", key=b, value=None, **where)
    elif partition == G0:
        yield transaction(at, *both, **where)
        yield transaction(at + 1, append(a, 3), append(b, 4), **where)
        yield operation(at + 2, f="read", key=a, value=[1, 3], **where)
        yield operation(at + 3, f="read", key=b, value=[4, 2], **where)
    elif partition == G1C:
        yield transaction(at, append(a, 1), read(b, 2), **where)
        yield transaction(at + 1, append(b, 2), read(a, 1), **where)
    elif partition == SINGLE:
        yield transaction(at, append(a, 1), append(c, 2), **where)
        yield transaction(at + 1, read(b, 3), read(c), **where)
        yield transaction(at + 2, append(b, 3), read(a, 1), **where)
    elif partition == SKEW:
        yield transaction(at, append(a, 1), read(b), **where)
        yield transaction(at + 1, append(b, 2), read(a), **where)
    elif partition == ABORTED:
        yield transaction(at, *both, type="fail", index=None, **where)
        yield operation(at + 1, f="read", key=a, value=[1], **where)
    elif partition == SHARED:
        yield transaction(at, *both, **where)
        yield operation(at + 1, key=c, index=at * 10, **where)
    else:
        yield transaction(at, *both, **where)
        yield transaction(at + 1, read(a, 1), append(b, 3), **where)
        yield operation(at + 2, f="read", key=b, value=[2, 3], **where)


def judged(spark: SparkSession, run: Path, said: list[str]) -> Judgement:
    judgement = judge_run(spark, run, progress=said.append)
    write_report(run, judgement)
    return judgement


def named(judgement: Judgement) -> dict[str, Check]:
    return {check.name: check for check in judgement.checks}


def to_be_judged(ingested: Ingested) -> tuple[object, ...]:
    """What the checks get beside the operations."""
    return (
        ingested.quality,
        [(bucket.suspects, bucket.transactions) for bucket in ingested.buckets],
    )


def test_each_planted_fault_is_found_and_column_files_bring_the_same_operations(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line for partition in range(8) for one in planted(partition) for line in one]
    written(tmp_path, lines[: len(lines) // 2 - 1], lines[len(lines) // 2 - 1 :])
    said: list[str] = []
    judgement = judged(spark, tmp_path, said)
    checks, operations = named(judgement), tables_of(spark, tmp_path)["ops"]

    check = checks["transactions"]
    assert (check.verdict, check.violations, check.checked) == (Verdict.VIOLATED, 5, 14)
    assert "1 G2" in check.summary
    assert "not judged" not in check.summary
    rows = open_tables(spark, tmp_path)["findings"].collect()
    found = {(row["kind"], row["partition"]) for row in rows if row["check"] == "transactions"}
    assert found == {
        *(("half", HALF), ("G0", G0), ("G1c", G1C), ("G-single", SINGLE), ("G2", SKEW)),
    }
    assert checks["aborted-reads"].violations == 1
    shared = [row["partition"] for row in rows if row["kind"] == "entry-twice"]
    assert shared == [SHARED]
    assert CLEAN not in {row["partition"] for row in rows}
    assert not any("column files" in line for line in said)

    def read_again() -> str:
        """Returns what is said of the column files."""
        again = ingest(spark, tmp_path)
        assert to_be_judged(again) == to_be_judged(judgement.ingested)
        assert tables_of(spark, tmp_path)["ops"] == operations
        return again.unused

    with monkeypatch.context() as older:
        older.setattr(one_range, "VERSION", "1")
        write_columns(tmp_path, (tmp_path / "history").iterdir())
    assert "is of version 1, expected 3" in read_again()
    write_columns(tmp_path, (tmp_path / "history").iterdir())
    assert read_again() == ""


def test_clean_transactions_pass(spark: SparkSession, tmp_path: Path) -> None:
    written(tmp_path, [line for one in planted(CLEAN) for line in one])
    checks = named(judged(spark, tmp_path, []))
    assert checks["transactions"].verdict is Verdict.PASSED
    assert checks["transactions"].checked == 2
    assert {name for name, one in checks.items() if one.verdict is Verdict.VIOLATED} == set()


def test_write_skew_of_answers_without_places_is_counted_and_no_violation(
    spark: SparkSession, tmp_path: Path
) -> None:
    written(
        tmp_path,
        [
            *transaction(1, append("a", 1), read("b"), time=270, index=None),
            *transaction(2, append("b", 2), read("a"), index=None),
        ],
    )
    checks = named(judged(spark, tmp_path, []))
    check = checks["transactions"]
    assert (check.verdict, check.violations, check.checked) == (Verdict.PASSED, 0, 2)
    assert "1 cycles that need two missed reads (G2) are not judged" in check.summary
    assert {name for name, one in checks.items() if one.verdict is Verdict.VIOLATED} == set()
