"""A run is told the same, whether a bucket has whole partitions or only some of their keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.checkers.runs_of_a_pod import Spoilt, copied, tables_of
from zonequake_analysis.checks.exact_checks import findings_of_suspects
from zonequake_analysis.judgement.judge import Judgement, judge_run
from zonequake_analysis.spark_pass import ingest, partition_share
from zonequake_analysis.spark_pass.operations import cached
from zonequake_analysis.storage.location import Location

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]


def test_each_anomaly_is_told_the_same_where_partitions_are_split(
    spark: SparkSession, spoilt: Spoilt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, tables = spoilt.judgement, spoilt.tables
    run = copied(spoilt.run, tmp_path / "split")
    monkeypatch.setattr(ingest, "BUCKET_BYTES", 500_000)
    monkeypatch.setattr(partition_share, "MOST_BYTES", 0)
    split = judge_run(spark, run)
    assert len(split.ingested.buckets) > 3
    assert in_words(split) == in_words(whole)
    by_key = tables_of(spark, run)
    assert {name for name in tables if by_key[name] != tables[name]} == set()
    kinds = set(whole.evidence.found.counts)
    assert {kind for _, kind in kinds} >= {"session", "entry-twice", "lost", "stale", "value"}
    suspects = [bucket.suspects for bucket in split.ingested.buckets]
    folder = Location.of(run / "tables" / "ops")
    ops = cached(spark, folder, suspects, len(suspects), "key_id")
    found = findings_of_suspects(ops, suspects, unplaced=0, folder=folder)
    assert found is not None
    assert found.count() == sum(tables["findings"].values()) - sum(
        "'found_by': 'judgement'" in row for row in tables["findings"]
    )
    ops.unpersist()


def in_words(judgement: Judgement) -> list[str]:
    """What is shown of a run."""
    return [
        *(str(check) for check in judgement.checks),
        *(str(shown) for shown in judgement.shown),
        str(judgement.ingested.quality),
    ]
