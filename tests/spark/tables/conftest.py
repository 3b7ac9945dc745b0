"""One analysed run for all tests of tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.histories.tabled_run import write_tabled_run
from zonequake_analysis.judgement.judge import Judgement, judge_run
from zonequake_analysis.tables import open_tables

ODD = "a b+c%20[1]{x}*?'q"
"""A name that URIs write otherwise, and that is a pattern for Spark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysed:
    """A run folder, what was judged of it, and its tables."""

    run: Path
    judgement: Judgement
    tables: dict[str, DataFrame]


@pytest.fixture(scope="package")
def analysed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Analysed:
    run = tmp_path_factory.mktemp("tabled") / ODD
    run.mkdir()
    write_tabled_run(run)
    (run / "run.yaml").write_text("expectations: {max_window_ms: 1000}\n")
    judgement = judge_run(spark, run)
    return Analysed(run=run, judgement=judgement, tables=open_tables(spark, run))
