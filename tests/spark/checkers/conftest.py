"""One run with one of each anomaly, judged once for all tests that look at it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.spark.checkers.runs_of_a_pod import TORN, Spoilt, history_of_a_pod, made, tables_of
from zonequake_analysis.judgement.judge import judge_run

PROBLEM = "no node came"


@pytest.fixture(scope="session")
def spoilt(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Spoilt:
    folder = tmp_path_factory.mktemp("spoilt")
    history = history_of_a_pod(folder / "pod", planted=True) + TORN
    run = made(folder / "run", history, piece_bytes=len(history) + 1, problem=PROBLEM)
    return Spoilt(run, judge_run(spark, run), tables_of(spark, run))
