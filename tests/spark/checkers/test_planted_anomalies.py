"""Every anomaly that is planted into a valid history is found, named, and shown by a witness."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from tests.histories import anomalies
from tests.histories.synthesize import (
    START_NS,
    Shape,
    synthesize,
    write_operations,
)
from tests.spark.checkers.conftest import PROBLEM
from tests.spark.checkers.over_all_operations import findings_of
from tests.spark.checkers.runs_of_a_pod import Spoilt
from zonequake_analysis.judgement.judge import judge_run
from zonequake_analysis.report import write_report
from zonequake_analysis.tables import open_tables
from zonequake_analysis.verdict import Verdict

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

Found = dict[str, set[tuple[str, str]]]


@pytest.fixture(scope="module")
def everywhere(spoilt: Spoilt) -> list[Row]:
    """Every finding of the exact checks over all operations."""
    return findings_of(spoilt.judgement.ingested.ops, unplaced=0).collect()


@pytest.fixture(scope="module")
def found(spoilt: Spoilt, everywhere: list[Row]) -> Found:
    """(check, kind) of every finding, by key."""
    ops = spoilt.judgement.ingested.ops
    names = {row["key_id"]: row["key"] for row in ops.select("key_id", "key").distinct().collect()}
    by_key: Found = {}
    for row in everywhere:
        by_key.setdefault(names[row["key_id"]], set()).add((row["check"], row["kind"]))
    return by_key


@pytest.mark.parametrize("name", anomalies.NAMES)
def test_a_planted_anomaly_is_named(found: Found, name: str) -> None:
    planted = anomalies.plant(name, START_NS)
    assert planted.expected <= found[f"planted-{name}"]


def test_nothing_is_found_on_keys_without_a_plant(found: Found) -> None:
    assert {key for key in found if not key.startswith("planted-")} == set()


def test_every_finding_is_in_the_table_by_the_name_of_its_key(
    spark: SparkSession, spoilt: Spoilt, everywhere: list[Row], found: Found
) -> None:
    rows = open_tables(spark, spoilt.run)["findings"].where("found_by != 'judgement'").collect()
    assert len(rows) == len(everywhere)
    in_table: Found = {}
    for row in rows:
        in_table.setdefault(row["key"], set()).add((row["found_by"], row["kind"]))
    # Beside members that have diverged a write at two places shows just that.
    meant = {("sets", "two-places"): ("diverged", "diverged")}
    assert in_table == {key: {meant.get(pair, pair) for pair in of} for key, of in found.items()}
    assert [row for row in rows if not row["verdict"] or not row["text"]] == []
    assert [row for row in rows if row["kind"] != "entry-twice" and not row["ops"]] == []


def test_the_run_is_violated_and_the_count_of_lost_writes_is_exact(spoilt: Spoilt) -> None:
    judgement = spoilt.judgement
    assert judgement.verdict is Verdict.VIOLATED
    by_name = {check.name: check for check in judgement.checks}
    # "lost", "lost-element", and "false-claim", whose newest write by the claim is never read.
    assert by_name["lost-writes"].violations == 3
    # "stale" and "stale-though-seen": that an earlier read had shown the write excuses none; and
    # the reads by the members that have diverged.
    assert by_name["stale-reads"].violations == 4
    assert by_name["flicker"].violations == 1
    assert by_name["linearizability"].verdict is Verdict.VIOLATED


@pytest.mark.long
def test_a_planted_anomaly_among_very_many_keys_is_found(
    spark: SparkSession, tmp_path: Path
) -> None:
    """With so many keys a file's dictionary is larger than what Spark reads of it at once."""
    synthesize(tmp_path, Shape(operations=20_000, rate=5000, files=1, partitions=1, keys=8_000))
    lost = anomalies.plant("lost", START_NS + 1_000_000_000)
    write_operations(tmp_path / "history" / "planted.jsonl", lost.operations)
    judgement = judge_run(spark, tmp_path)
    assert judgement.verdict is Verdict.VIOLATED
    by_name = {check.name: check for check in judgement.checks}
    assert by_name["lost-writes"].violations == 1


def test_diverged_members_stand_first_and_are_no_duplicates(spoilt: Spoilt) -> None:
    """What one member shows before the place of another's acknowledgement says nothing then."""
    run, judgement = spoilt.run, spoilt.judgement
    first = judgement.checks[0]
    # "diverged-list", "diverged-register", and "two-places" that they explain.
    assert (first.name, first.violations) == ("diverged", 3)
    write_report(run, judgement)
    document = json.loads((run / "verdict.json").read_text())
    assert document["headline"].startswith(first.summary)
    named = {check["name"]: check for check in document["checks"]}
    keys = {text.split(" key ")[1].split()[0] for text in named["duplicates"]["witnesses"]}
    assert keys == {"planted-duplicate", "planted-retry-applied-twice", "planted-applied-twice"}
    keys = {text.split(" key ")[1].split()[0] for text in named["diverged"]["witnesses"]}
    assert keys == {"planted-diverged-list", "planted-diverged-register", "planted-two-places"}
    lines = (run / "summary.md").read_text().splitlines()
    assert next(line for line in lines if line.startswith("| ✗")).startswith("| ✗ | diverged |")


def test_members_apart_and_a_load_that_was_not_there_are_found_beside_a_clean_history(
    spark: SparkSession, tmp_path: Path
) -> None:
    synthesize(tmp_path, Shape(operations=1800, rate=300, files=1, partitions=1, keys=8))
    (tmp_path / "run.yaml").write_text(
        "plan: {spec: {zones: [{name: z1}], load: {registerRate: 600.0, listRate: 100.0}}}"
    )
    phases = {"before": 0, "faults": 3, "quiet": 6}
    (tmp_path / "events.jsonl").write_text(
        "".join(
            json.dumps(
                {"kind": "run.phase", "time": START_NS + at * 10**9, "data": {"phase": name}}
            )
            + "\n"
            for name, at in phases.items()
        )
    )
    (tmp_path / "dumps").mkdir()
    # One log index and two revisions; a third member, at another place, hides nothing.
    for node, applied, log_index in (("n0", 9, 40), ("n1", 8, 40), ("n2", 7, 39)):
        header = {
            "group": "apart.etcd.0",
            "node": node,
            "applied": applied,
            "digest": f"d{applied}",
        }
        line = json.dumps(header | {"log_index": log_index, "keys": 0}) + "\n"
        (tmp_path / "dumps" / f"0-{node}.jsonl").write_text(line)
    judgement = judge_run(spark, tmp_path)
    write_report(tmp_path, judgement)
    checks = {check.name: check for check in judgement.checks}
    assert judgement.checks[0].name == "diverged"
    assert (checks["diverged"].verdict, checks["diverged"].violations) == (Verdict.VIOLATED, 1)
    assert checks["load"].verdict is Verdict.UNKNOWN
    document = json.loads((tmp_path / "verdict.json").read_text())
    assert document["headline"].startswith(checks["diverged"].summary)
    assert " of 700 operations per second that the scenario asked for" in document["headline"]
    assert 280 < document["numbers"]["load_delivered_per_s"] < 320
    names = [check["name"] for check in document["checks"] if check["verdict"] != "passed"]
    assert names == ["diverged", "load"]


def test_the_witness_of_a_session_shows_both_its_answers(spoilt: Spoilt) -> None:
    shown = {
        one.finding.key: one.witness.operations
        for one in spoilt.judgement.shown
        if one.finding.kind == "session"
    }
    assert set(shown) == {"planted-session", "planted-session-of-two-keys"}
    for key, operations in shown.items():
        earlier, later = operations
        assert earlier.process == later.process
        assert earlier.index is not None
        assert later.index is not None
        assert earlier.index > later.index
        assert later.key == key
    assert shown["planted-session-of-two-keys"][0].key.endswith("-reached-before")


def test_a_witness_is_a_few_operations_that_the_search_finds_no_order_for(spoilt: Spoilt) -> None:
    proven: Counter[str] = Counter()
    for shown in spoilt.judgement.shown:
        if shown.witness.proven:
            proven[shown.finding.key] += 1
            assert len(shown.witness.operations) <= 5
    shown_by_search = {
        *("lost", "stale", "stale-though-seen", "flicker"),
        *("lost-element", "cas-fork", "reordered"),
    }
    assert {f"planted-{name}" for name in shown_by_search} <= set(proven)


def test_the_report_shows_each_violation_and_loads_nothing(spoilt: Spoilt) -> None:
    run, judgement = spoilt.run, spoilt.judgement
    write_report(run, judgement)
    page = (run / "report.html").read_text()
    assert "default-src 'none'" in page
    # A browser asks nobody: tests/spark/report. Scripts hold names of namespaces.
    markup = re.sub("<script.*?</script>", "", page, flags=re.DOTALL)
    assert "http://" not in markup
    assert "https://" not in markup
    for name in ("planted-lost", "planted-duplicate", "planted-cas-fork"):
        assert name in page
    assert '<failure type="violated"' in (run / "junit.xml").read_text()
    assert "violated" in (run / "summary.md").read_text().splitlines()[0]


def test_each_violated_check_of_operations_has_a_witness_of_its_own_key_in_words(
    spoilt: Spoilt,
) -> None:
    run, judgement = spoilt.run, spoilt.judgement
    write_report(run, judgement)
    checks = {c["name"]: c for c in json.loads((run / "verdict.json").read_text())["checks"]}
    of_operations = ("lost-writes", "stale-reads", "duplicates", "phantoms", "linearizability")
    for name in of_operations:
        assert checks[name]["verdict"] == "violated"
        assert any("key planted-" in text for text in checks[name]["witnesses"]), name
    (lost,) = [t for t in checks["lost-writes"]["witnesses"] if "key planted-lost " in t]
    first, *operations = lost.splitlines()
    assert first.startswith("lost: ")
    assert "no order explains these" in first
    assert any("process" in line and "write a" in line for line in operations), lost
    junit = (run / "junit.xml").read_text()
    assert "planted-lost" in junit
    assert junit.count("\n  <testsuite ") == 1


def test_all_outputs_show_the_harnesss_own_verdict_beside_a_violation(spoilt: Spoilt) -> None:
    run, judgement = spoilt.run, spoilt.judgement
    write_report(run, judgement)
    assert json.loads((run / "verdict.json").read_text())["verdict"] == "violated"
    for name in ("verdict.json", "junit.xml", "summary.md", "report.html"):
        text = (run / name).read_text()
        assert PROBLEM in text, name
        assert "harness-failed" in text, name
