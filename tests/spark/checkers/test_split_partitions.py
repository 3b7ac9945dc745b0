"""A run is told the same, whether a bucket has whole partitions or only some of their keys."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from shutil import copytree

import pytest
from pyspark.sql import SparkSession

from tests.histories import anomalies
from tests.histories.synthesize import START_NS, Shape, synthesize, write_operations
from zonequake_analysis.checks.exact_checks import findings_of_suspects
from zonequake_analysis.judgement.judge import Judgement, judge_run
from zonequake_analysis.spark_pass import ingest, partition_share
from zonequake_analysis.spark_pass.operations import cached
from zonequake_analysis.storage.place import Place
from zonequake_analysis.tables import open_tables

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

Rows = dict[str, Counter[str]]


def tables_of(spark: SparkSession, run: Path) -> Rows:
    """The rows of each table, in words: a row may have lists."""
    return {
        name: Counter(str(row.asDict(recursive=True)) for row in table.collect())
        for name, table in open_tables(spark, run).items()
    }


def spoilt_run(run: Path) -> None:
    """A valid history on few partitions, and one of each anomaly."""
    synthesize(run, Shape(operations=3000, rate=1000, files=1, partitions=2, keys=16))
    planted = [anomalies.plant(name, START_NS + 1_000_000_000) for name in anomalies.NAMES]
    write_operations(
        run / "history" / "planted.jsonl", [o for one in planted for o in one.operations]
    )


def test_each_anomaly_is_told_the_same_where_partitions_are_split(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoilt_run(tmp_path / "whole")
    copytree(tmp_path / "whole", tmp_path / "split")
    whole = judge_run(spark, tmp_path / "whole")
    tables = tables_of(spark, tmp_path / "whole")
    monkeypatch.setattr(ingest, "BUCKET_BYTES", 300_000)
    monkeypatch.setattr(partition_share, "MOST_BYTES", 0)
    split = judge_run(spark, tmp_path / "split")
    assert len(split.ingested.buckets) > 3
    assert in_words(split) == in_words(whole)
    by_key = tables_of(spark, tmp_path / "split")
    assert {name for name in tables if by_key[name] != tables[name]} == set()
    kinds = set(whole.evidence.found.counts)
    assert {kind for _, kind in kinds} >= {"session", "entry-twice", "lost", "stale", "value"}
    suspects = [bucket.suspects for bucket in split.ingested.buckets]
    folder = Place.of(tmp_path / "split/tables/ops")
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
