"""The job over folders of runs, of which one is broken, from the command to page and table."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.histories.judged_runs import JudgedRun, write_run
from tests.histories.synthesize import Shape, synthesize
from zonequake_analysis.judgement.judge import judge_run
from zonequake_analysis.many_runs.folders import read_run, run_folders
from zonequake_analysis.many_runs.trend_job import read_rows, write_table
from zonequake_analysis.many_runs.trend_page import render_trend
from zonequake_analysis.many_runs.trend_rows import trends
from zonequake_analysis.report import write_report

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]


def test_a_planted_change_comes_through_the_job_and_a_torn_folder_is_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    for number in range(24):
        write_run(
            runs,
            JudgedRun(
                name=f"r{number:02}",
                version="0.2.0" if number >= 14 else "0.1.0",
                day=number,
                seed=number,
                operations=2000,
                slower=1.7 if number >= 14 else 1.0,
            ),
        )
    (runs / "r03" / "verdict.json").write_text("{torn")
    (runs / "r05" / "run.yaml").write_bytes(b"run: \xff\xfe")
    rows = read_rows(spark, run_folders(runs))
    assert [row.run for row in rows if row.problem is not None] == ["r03", "r05"]
    (trend,) = trends(rows)
    assert len(trend.runs) == 22
    steps = {s.quantity.name: [trend.runs[t.number].run for t in s.steps] for s in trend.series}
    assert steps["faults.all.p99"] == ["r14"]
    assert steps["before.all.p99"] == []
    write_table(tmp_path / "trend.parquet", rows)
    table = spark.read.parquet(str(tmp_path / "trend.parquet"))
    assert table.where("objective = 'run'").count() == 22
    assert table.where("version = '0.2.0' and objective = 'faults.all.p99'").count() == 10
    assert "0.2.0" in render_trend([trend], rows, "runs")


def test_what_an_analysis_wrote_can_be_compared(spark: SparkSession, tmp_path: Path) -> None:
    """Holds the reader of `tables/ops` against its writer."""
    run = tmp_path / "real"
    synthesize(run, Shape(operations=2000, rate=1000, files=2, partitions=4, keys=16))
    write_report(run, judge_run(spark, run))
    found = read_run(run)
    ops = pq.read_table(run / "tables" / "ops", partitioning=None)
    answered = ops.filter(
        pc.and_(pc.equal(ops.column("role"), 0), pc.equal(ops.column("outcome"), 0))
    )
    took_ms = pc.divide(pc.subtract(answered.column("fin"), answered.column("sched")), 1e6)
    median = pc.quantile(took_ms, 0.5, interpolation="lower")[0].as_py()
    assert found.has_operations
    assert found.estimates["whole.all.p50"].value == pytest.approx(median)
    assert {"whole.read.p99", "whole.write.p99", "whole.append.p99", "whole.rate"} <= set(
        found.estimates
    )
