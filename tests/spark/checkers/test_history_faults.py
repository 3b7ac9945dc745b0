"""Whole run folders with faults: the run is unknown, says where, and no violation is made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.unit.analysis.judged_lines import line, operation, written
from tests.unit.analysis.read_pages import Page
from zonequake_analysis.judgement.judge import judge_run
from zonequake_analysis.report import write_report
from zonequake_analysis.spark_pass.ingest import ingest
from zonequake_analysis.text.untrusted_text import visible
from zonequake_analysis.verdict import Check, Verdict

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

GOOD = [
    *operation(1),
    *operation(2, f="read", value=1),
    *operation(9, f="read", role="final", value=1),
]


def checks_of(spark: SparkSession, run: Path, *files: list[str]) -> dict[str, Check]:
    run.mkdir(exist_ok=True)
    written(run, *files)
    judgement = judge_run(spark, run)
    write_report(run, judgement)
    return {check.name: check for check in judgement.checks}


def test_a_lost_append_on_a_key_of_two_uses_is_unknown_with_both_places(
    spark: SparkSession, tmp_path: Path
) -> None:
    mixed = [
        *operation(3, key="mixed"),
        *operation(4, key="mixed", f="append"),
        *operation(5, key="mixed", f="read", value=3),
    ]
    checks = checks_of(spark, tmp_path, [*GOOD, *mixed])
    assert {name for name, c in checks.items() if c.verdict is not Verdict.PASSED} == {"history"}
    history = checks["history"]
    assert history.verdict is Verdict.UNKNOWN
    assert "history/load-0.jsonl:8" in history.summary
    assert "history/load-0.jsonl:10" in history.summary
    assert "mixed" in (tmp_path / "summary.md").read_text()


def test_faults_of_lines_are_never_faults_of_the_store(spark: SparkSession, tmp_path: Path) -> None:
    faulty = [
        *operation(3, key="early", time=250),
        *operation(4, key="early", f="read", value=77),
        *operation(5, key="again", op="1-1"),
        *operation(6, key="again", f="read", value=78),
        line(op=None, key="nameless", inv=700, time=720, index=70),
        *operation(8, key="nameless", f="read", value=79),
    ]
    checks = checks_of(spark, tmp_path, [*GOOD, *faulty])
    violated = {name for name, c in checks.items() if c.verdict is Verdict.VIOLATED}
    assert violated == set()
    said = checks["history"].summary
    assert "history/load-0.jsonl:8, field `time`" in said
    assert "history/load-0.jsonl:11, field `op`: found 1-1" in said
    assert "history/load-0.jsonl:15, field `op`: it is missing" in said


def test_a_value_of_a_line_that_can_not_be_read_is_unknown_and_not_invented(
    spark: SparkSession, tmp_path: Path
) -> None:
    read = operation(4, key="k2", f="read", value=3)
    checks = checks_of(spark, tmp_path, [*GOOD, '{"type":"ok","value":3', *read])
    # With all lines of a history it is violated: tests/spark/checkers/test_planted_anomalies.py.
    for name in ("phantoms", "linearizability"):
        assert (checks[name].verdict, checks[name].violations) == (Verdict.UNKNOWN, 1)
    assert "history/load-0.jsonl:7: Input data was truncated" in checks["history"].summary


HOSTILE = "k</script><img src=x onerror=alert(1)>|`\u202e\x1b\u2028x"


def test_a_page_shows_what_a_run_says_and_builds_nothing_of_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    name, run = HOSTILE, tmp_path
    lost = [*operation(3, key=name, node=name), *operation(4, key=name, f="read", value=None)]
    mixed = [*operation(5, key=f"{name}2"), *operation(6, key=f"{name}2", f="append")]
    events = [
        {"kind": "fault.start", "data": {"fault": name, "type": name, "targets": [name]}},
        {"kind": "leader.change", "data": {"leader": name, "term": name}},
        {"kind": "rebalance.stage", "data": {"stage": "JOINT", "token": 1, "peers": [name]}},
    ]
    (run / "events.jsonl").write_text(
        "".join(
            json.dumps({"time": 200, "zone": name, "partition": 0, "node": name, **event}) + "\n"
            for event in events
        )
    )
    (run / "run.yaml").write_text(json.dumps({"name": name, "seed": name, "description": name}))
    checks_of(spark, run, [*GOOD, *lost, *mixed])
    text = (run / "report.html").read_text()
    page = Page()
    page.feed(text)
    for file in ("report.html", "summary.md", "junit.xml"):
        assert visible((run / file).read_text()) == (run / file).read_text()
    assert "img" not in page.tags
    assert "⟨U+202E⟩" in text
    assert "k</script><img src=x" in page.text


@pytest.mark.parametrize("spoil", ["lines", "bytes", "numbers", "empty", "nothing"])
def test_a_spoilt_run_folder_ends_with_a_report(
    spark: SparkSession, tmp_path: Path, spoil: str, capfd: pytest.CaptureFixture[str]
) -> None:
    contents: dict[str, bytes] = {
        "lines": b"not json\n[1]\n{}\n" + b"[" * 100_000 + b"\n" + "\n".join(GOOD[:3]).encode(),
        "bytes": "\n".join(GOOD).encode().replace(b"k1", b"k\xff1") + b"\x00\xfe",
        "numbers": "\n".join(
            [*GOOD, line(op="7-1", key="far", sched=2**60, inv=2**60, time=2**60 + 1, wall=2**62)]
        ).encode(),
        "empty": b"\n",
        "nothing": b"",
    }
    run = tmp_path
    (run / "history").mkdir()
    (run / "history" / "load-0.jsonl").write_bytes(contents[spoil])
    (run / "metrics").mkdir()
    (run / "metrics" / "prometheus.parquet").write_bytes(b"rubbish")
    (run / "events.jsonl").write_bytes(b'{"kind":"fault.start","time":"x"}\n{\n')
    said: list[str] = []
    judgement = judge_run(spark, run)
    write_report(run, judgement, told=said.append)
    assert judgement.verdict is Verdict.UNKNOWN
    assert said
    assert said[0].startswith("metrics/*.parquet can't be read as samples: ")
    (metrics,) = (one for one in judgement.checks if one.name == "metrics")
    assert metrics.verdict is Verdict.UNKNOWN
    assert f"{run / 'metrics' / 'prometheus.parquet'}: " in metrics.summary
    assert "events.jsonl:1, field `time`" in (run / "summary.md").read_text().replace("\\", "")
    assert "Traceback" not in capfd.readouterr().err


def test_a_bucket_whose_operations_are_all_refused_by_the_second_pass_leaves_no_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    written(tmp_path, [*operation(1, key="one", op="1-1"), *operation(2, key="two", op="1-1")])
    assert ingest(spark, tmp_path).quality.faults
    assert list((tmp_path / "tables" / "ops").glob("part-*")) == []
