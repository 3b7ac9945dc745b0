"""A whole run at whose end all replicas of the only group say that their data is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.histories.synthesize import ZONE, write_operations
from tests.unit.analysis.one_list import SECOND, append
from zonequake_analysis.judgement.judge import Judgement, judge_run
from zonequake_analysis.report import write_report
from zonequake_analysis.verdict import Verdict

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

REASON = "the stored state is that of index 10, but the log holds 1 to 4"


def judged(spark: SparkSession, run: Path, *answering: str) -> Judgement:
    """Ten appends, a restart, and then these of the nodes [A, B, C] say that they are lost."""
    place = {"zone": ZONE, "partition": 0}
    replicas = {
        node: {"process_incarnation": node, "role": "broken", "lost": True, "reason": REASON}
        for node in answering
    }
    events = [
        {"kind": "partition.changed", "time": 100 * SECOND, "data": {"stable": list("ABC")}}
        | place,
        *(
            {
                "kind": "node.started",
                "time": 115 * SECOND,
                "node": node,
                "data": {"process_incarnation": node},
            }
            for node in "ABC"
        ),
        {"kind": "replicas.seen", "time": 120 * SECOND, "data": {"replicas": replicas}} | place,
    ]
    write_operations(
        run / "history" / "load-0.jsonl", [append(n, 100 + n, (0, 1, n)) for n in range(1, 11)]
    )
    (run / "events.jsonl").write_text("\n".join(map(json.dumps, events)))
    (run / "run.yaml").write_text(json.dumps({"expectations": {"faults": []}}))
    judgement = judge_run(spark, run)
    write_report(run, judgement)
    return judgement


def test_a_group_that_all_its_replicas_call_lost_is_a_violation(
    spark: SparkSession, tmp_path: Path
) -> None:
    judgement = judged(spark, tmp_path, "A", "B", "C")
    worst = judgement.checks[0]
    assert (worst.name, worst.verdict, worst.violations) == ("lost-groups", Verdict.VIOLATED, 10)
    verdict = json.loads((tmp_path / "verdict.json").read_text())
    assert verdict["exit_code"] == 1
    assert "1 groups lost their data, and 10 acknowledged writes with it" in verdict["headline"]
    assert REASON in (tmp_path / "summary.md").read_text()
    rows = pq.read_table(tmp_path / "tables" / "findings").to_pylist()
    (row,) = (row for row in rows if row["check"] == "lost-groups")
    assert (row["zone"], row["partition"], row["count"]) == (ZONE, 0, 10)
    assert row["at_ns"] == 120 * SECOND


def test_a_node_that_was_not_seen_leaves_it_unknown(spark: SparkSession, tmp_path: Path) -> None:
    judgement = judged(spark, tmp_path, "A", "B")
    assert judgement.verdict is Verdict.UNKNOWN
    assert {check.name for check in judgement.checks if check.verdict is Verdict.VIOLATED} == set()
