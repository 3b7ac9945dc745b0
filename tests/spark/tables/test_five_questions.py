"""The queries of docs/tables.md answer what they ask, of a run whose answers are known."""

from __future__ import annotations

import pytest
from pyspark.sql import Row, SparkSession

from tests.histories.questions import other_queries, questions
from tests.histories.tabled_run import FAILED_S, MOVE_S, MOVED_S, TICK_NS, S
from tests.spark.tables.conftest import Analysed

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]


def asked(spark: SparkSession, begins: str) -> list[Row]:
    (query,) = [text for heading, text in questions().items() if heading.startswith(begins)]
    return spark.sql(query).collect()


def test_the_lost_write_of_a_window_is_told_from_one_of_calm_times(
    spark: SparkSession, analysed: Analysed
) -> None:
    rows = asked(spark, "Which lost writes")
    assert [(row["key"], row["partition"], row["in_window"] is not None) for row in rows] == [
        ("planted-lost-element", 0, False),
        ("planted-lost", 0, True),
    ]
    number = rows[1]["in_window"]
    (window,) = [w for w in analysed.tables["windows"].collect() if w["number"] == number]
    assert (window["function"], window["cause"]) == ("write", rows[1]["cause"])
    assert rows[1]["cause"] == "kill-leader (pod_kill on zq-default-0)"


def test_one_partition_was_slow_during_the_fault(spark: SparkSession, analysed: Analysed) -> None:
    rows = asked(spark, "How slow was each partition")
    assert [tuple(row) for row in rows] == [
        ("kill-leader", "z1", 0, 10.0, 10.0),
        ("kill-leader", "z1", 1, 10.0, 199.0),
        ("kill-leader", "z1", 2, 10.0, 10.0),
        ("kill-leader", "z1", 3, 10.0, 10.0),
    ]


def test_one_node_synced_slowly_in_both_windows(spark: SparkSession, analysed: Analysed) -> None:
    rows = asked(spark, "On which node")
    assert [
        (r["zone"], r["partition"], r["function"], r["node"], r["environment"]) for r in rows
    ] == [
        ("z1", 0, "read", "zq-default-0", "log"),
        ("z1", 0, "write", "zq-default-0", "log"),
    ]
    for row in rows:
        # By a straight line within a bucket: 99 % of 0 to 1 ms, and of 10 to 100 ms.
        assert (row["p99_before_ms"], row["p99_during_ms"]) == (1.0, 99.1)


def test_violations_are_counted_by_partition_and_minute(
    spark: SparkSession, analysed: Analysed
) -> None:
    rows = asked(spark, "How many violations")
    counted = {
        (row["minute"].minute, row["zone"], row["partition"], row["check"]): row["findings"]
        for row in rows
    }
    assert len(counted) == len(rows)
    first, second = sorted({minute for minute, *_ in counted})
    assert second == first + 1
    assert counted[first, "z1", 0, "lost-writes"] == 2
    assert counted[second, "z1", 2, "stale-reads"] == 1
    places = {(minute, partition) for minute, _, partition, _ in counted}
    assert places == {(first, 0), (second, 2)}
    assert {check for *_, check in counted} == {"lost-writes", "stale-reads", "linearizability"}


def test_a_rebalance_is_told_with_what_clients_saw_meanwhile(
    spark: SparkSession, analysed: Analysed
) -> None:
    rows = asked(spark, "How long did each rebalance take")
    ticks = (MOVED_S - MOVE_S) * S // TICK_NS
    assert [tuple(row) for row in rows] == [
        ("z1", 2, 7, 3.0, ticks, len(FAILED_S), 50.0),
        ("z1", 3, 8, None, 150, 0, 10.0),
    ]


def test_the_other_queries_of_the_page_answer(spark: SparkSession, analysed: Analysed) -> None:
    counted, windows, violated = (spark.sql(query).collect() for query in other_queries())
    findings = analysed.tables["findings"].collect()
    assert sum(row[1] for row in counted) == len(findings)
    assert len(windows) == analysed.tables["windows"].count() > 0
    assert len(violated) == sum(row["verdict"] == "violated" for row in findings) > 0
