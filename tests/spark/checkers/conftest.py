"""One run with one of each anomaly, and one without any, judged once for all tests of them."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.spark.checkers.runs_of_a_pod import (
    PIECE_BYTES,
    TORN,
    Sound,
    Spoilt,
    history_of_a_pod,
    made,
    tables_of,
)
from zonequake_analysis.judgement.judge import judge_run

PROBLEM = "no node came"


@pytest.fixture(scope="session")
def spoilt(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Spoilt:
    folder = tmp_path_factory.mktemp("spoilt")
    history = history_of_a_pod(folder / "pod", planted=True) + TORN
    run = made(folder / "run", history, piece_bytes=len(history) + 1, problem=PROBLEM)
    return Spoilt(run, judge_run(spark, run), tables_of(spark, run))


@pytest.fixture(scope="session")
def sound(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Sound:
    folder = tmp_path_factory.mktemp("sound")
    history = history_of_a_pod(folder / "pod", planted=False)
    run = made(folder / "run", history, piece_bytes=PIECE_BYTES)
    return Sound(run, judge_run(spark, run))
