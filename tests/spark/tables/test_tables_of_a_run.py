"""Every finding and all that a verdict rests on stands in the run's tables, as documented."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.histories.synthesize import START_NS
from tests.histories.tabled_run import (
    BACK_S,
    FAULT_S,
    LOST_ELEMENT_S,
    LOST_S,
    MOVE_S,
    MOVED_S,
    MS,
    START_MS,
    S,
)
from tests.spark.checkers.over_all_operations import findings_of
from tests.spark.tables.conftest import ODD, Analysed
from zonequake_analysis.checks import list_prefixes
from zonequake_analysis.judgement.judge import judge_run
from zonequake_analysis.tables.schemas import TABLES, columns_of
from zonequake_analysis.verdict import Verdict

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

Tables = dict[str, DataFrame]


@pytest.fixture
def tables(analysed: Analysed) -> Tables:
    return analysed.tables


def test_every_table_is_there_with_the_columns_of_its_schema(
    tables: Tables, analysed: Analysed
) -> None:
    assert list(tables) == list(TABLES)
    for name, shape in TABLES.items():
        opened = {field.name: field.dataType.simpleString() for field in tables[name].schema}
        assert opened == columns_of(shape), name
        assert tables[name].count() > 0, name
        for file in (analysed.run / "tables" / name).rglob("*.parquet"):
            in_file = [column for column in columns_of(shape) if column != "hour"]
            assert sorted(pq.ParquetFile(file).schema_arrow.names) == sorted(in_file), file


def test_no_file_is_written_in_lz4(analysed: Analysed) -> None:
    files = list((analysed.run / "tables").rglob("*.parquet"))
    assert len(files) > len(TABLES)
    footers = [pq.ParquetFile(file).metadata for file in files]
    found = {footer.row_group(0).column(0).compression for footer in footers if footer.num_rows}
    assert found == {"SNAPPY"}


def test_all_findings_are_in_the_table_and_add_up_to_the_checks(
    tables: Tables, analysed: Analysed
) -> None:
    judgement = analysed.judgement
    rows = tables["findings"].collect()
    exact = Counter(
        (row["check"], row["kind"])
        for row in findings_of(judgement.ingested.ops, unplaced=0).collect()
    )
    over_operations = [row for row in rows if row["found_by"] != "judgement"]
    assert Counter((row["found_by"], row["kind"]) for row in over_operations) == exact
    assert len(exact) > 4
    count: Counter[str] = Counter()
    for row in rows:
        count[row["check"]] += row["count"]
    for check in judgement.checks:
        if check.name in ("lost-writes", "stale-reads", "availability", "rebalances-end"):
            assert count[check.name] == check.violations > 0, check.name
        if check.verdict is not Verdict.PASSED:
            assert count[check.name], f"{check.name} is {check.verdict} and has no row"
        assert {r["verdict"] for r in rows if r["check"] == check.name} <= {str(check.verdict)}
    keys = {row["key"] for row in over_operations if row["found_by"] == list_prefixes.CHECK}
    (linearizability,) = [c for c in judgement.checks if c.name == "linearizability"]
    assert len(keys) == linearizability.violations


def test_a_lost_write_is_named_with_the_operations_that_show_it(tables: Tables) -> None:
    rows = {row["key"]: row for row in tables["findings"].where("check = 'lost-writes'").collect()}
    assert set(rows) == {"planted-lost", "planted-lost-element"}
    for key, at_s in (("planted-lost", LOST_S), ("planted-lost-element", LOST_ELEMENT_S)):
        row = rows[key]
        ops = {op["op"]: op for op in tables["ops"].where(f"key = '{key}'").collect()}
        written, shown = ops[row["write_op"]], ops[row["ops"][0]]
        assert (row["zone"], row["partition"], row["verdict"]) == ("z1", 0, "violated")
        # The second of two writes, each 1 ms long and 1 ms apart, and the read behind both.
        assert written["inv"] == START_NS + at_s * S + 2 * MS
        assert row["write_ns"] == written["fin"] == written["inv"] + MS
        assert (row["at_ns"], row["node"]) == (shown["inv"], shown["node"])
        assert row["at_ns"] == START_NS + at_s * S + 4 * MS
        assert row["at_ms"] == START_MS + at_s * 1000 + 4
        assert "no longer shows an acknowledged write" in row["text"]
    assert rows["planted-lost"]["position"] is not None
    assert rows["planted-lost-element"]["position"] is None


def test_a_window_that_is_too_long_and_a_rebalance_that_goes_on_are_findings(
    tables: Tables,
) -> None:
    found = tables["findings"].where("found_by = 'judgement'").collect()
    windows = [row for row in found if row["check"] == "availability"]
    assert {(row["zone"], row["partition"], row["kind"]) for row in windows} == {
        ("z1", 0, "too-long")
    }
    assert len(windows) == 2, "one of reads and one of writes"
    assert {row["verdict"] for row in windows} == {"slo-breached"}
    (running,) = [row for row in found if row["check"] == "rebalances-end"]
    assert (running["partition"], running["at_ns"]) == (3, START_NS + 50 * S)


def test_small_tables_hold_what_happened_in_both_clocks(tables: Tables) -> None:
    windows = tables["windows"].orderBy("function").collect()
    assert [(w["zone"], w["partition"], w["function"]) for w in windows] == [
        ("z1", 0, "read"),
        ("z1", 0, "write"),
    ]
    for window in windows:
        assert START_NS + FAULT_S * S < window["start_ns"] < START_NS + (FAULT_S + 0.2) * S
        assert START_NS + BACK_S * S < window["end_ns"] < START_NS + (BACK_S + 0.2) * S
        assert window["start_ms"] == START_MS + (window["start_ns"] - START_NS) // MS
        assert window["possible_ns"] == window["end_ns"] - window["start_ns"]
        assert window["total"]
        assert window["cause_kind"] == "fault.start"
        assert "kill-leader" in window["cause"]
    (fault,) = tables["faults"].collect()
    assert (fault["name"], fault["targets"], fault["hit"]) == (
        "kill-leader",
        ["zq-default-0"],
        True,
    )
    assert (fault["start_ms"], fault["end_ms"]) == (
        START_MS + FAULT_S * 1000,
        START_MS + BACK_S * 1000,
    )
    ended, running = tables["rebalances"].orderBy("start_ns").collect()
    assert (ended["partition"], ended["token"], ended["duration_ns"]) == (
        2,
        7,
        (MOVED_S - MOVE_S) * S,
    )
    assert (running["partition"], running["end_ns"], running["duration_ns"]) == (3, None, None)
    assert tables["events"].count() == 11
    stages = tables["events"].where("get_json_object(data, '$.stage') = 'JOINT'").collect()
    assert [(e["partition"], e["at_ns"]) for e in stages] == [(2, START_NS + (MOVE_S + 2) * S)]
    probes = tables["probes"].collect()
    assert len(probes) == 4 * 2 * 2, "partitions, classes, vantages"
    assert {p["partition"] for p in probes if p["failed"]} == {0}


@pytest.mark.long
def test_windows_have_no_cause_if_the_events_are_of_another_clock(
    spark: SparkSession, analysed: Analysed, tmp_path: Path
) -> None:
    shutil.copytree(analysed.run / "history", tmp_path / "history")
    with (tmp_path / "events.jsonl").open("w") as file:
        for line in (analysed.run / "events.jsonl").read_text().splitlines():
            file.write(json.dumps(json.loads(line) | {"clock": "another"}) + "\n")
    judge_run(spark, tmp_path)
    windows = pq.read_table(tmp_path / "tables" / "windows").to_pylist()
    assert len(windows) == 2
    for window in windows:
        assert {window["by_reset"], window["cause_kind"], window["cause"]} == {None}


def test_another_reader_of_parquet_sees_the_same_findings(
    tables: Tables, analysed: Analysed, tmp_path: Path
) -> None:
    shutil.copytree(analysed.run / "tables" / "findings", tmp_path / "findings")
    files = tmp_path / "findings" / "*.parquet"
    query = f"SELECT \"check\", kind, len(ops) FROM '{files}' ORDER BY ALL"
    by_spark = tables["findings"].selectExpr("check", "kind", "size(ops)").collect()
    assert duckdb.execute(query).fetchall() == sorted(map(tuple, by_spark))


def test_windows_and_faults_name_their_spans_of_the_metrics(tables: Tables) -> None:
    spans = {
        (row["span"], row["span_kind"], row["span_name"])
        for row in tables["metric_changes"].collect()
    }
    own = {(f["span"], "fault", f["name"]) for f in tables["faults"].collect()}
    own |= {
        (w["span"], "window", f"{w['zone']}/{w['partition']} {w['function']}")
        for w in tables["windows"].collect()
    }
    assert spans == own
    assert len(spans) == 3


def test_tables_are_in_the_run_and_nowhere_else(analysed: Analysed) -> None:
    """Spark takes a folder of URIs and patterns for another one."""
    assert [each.name for each in analysed.run.parent.iterdir()] == [ODD]
    assert {*TABLES} <= {each.name for each in (analysed.run / "tables").iterdir()}
    assert analysed.tables["findings"].count() > 0
