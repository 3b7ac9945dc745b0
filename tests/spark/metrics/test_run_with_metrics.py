"""A whole run folder with metrics: its report, and its verdict where the history lost lines."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.histories.made_metrics import MadeSeries, write_metrics
from tests.histories.synthesize import (
    START_NS,
    WALL_OFFSET_NS,
    Outage,
    Shape,
    synthesize,
    synthesize_probes,
)
from zonequake_analysis.judgement.judge import judge_run
from zonequake_analysis.report import write_report
from zonequake_analysis.verdict import Verdict

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

SECONDS = 60
START_MS = (START_NS + WALL_OFFSET_NS) // 1_000_000
FAULT_S, BACK_S = 30, 32


def completions(run: Path) -> Counter[tuple[str, str, str]]:
    """What the load's counters would have come to, by role, f and outcome."""
    lines = [
        json.loads(line)
        for file in sorted((run / "history").glob("*.jsonl"))
        for line in file.read_text().splitlines()
    ]
    return Counter(
        (line["role"], line["f"], line["type"]) for line in lines if line["type"] != "invoke"
    )


def write_run(run: Path) -> None:
    """A minute of load and probes, one fault with a window, and what Prometheus scraped of it."""
    synthesize(run, Shape(operations=3000, rate=50, files=2, partitions=4, keys=16))
    outage = Outage(partition=1, start_s=FAULT_S + 0.1, end_s=BACK_S)
    synthesize_probes(run, partitions=4, duration_s=SECONDS, outages=[outage])
    events = [
        {"kind": "run.phase", "data": {"phase": "before"}, "time": START_NS},
        {
            "kind": "fault.start",
            "data": {"fault": "kill-leader", "type": "pod_kill", "targets": ["zq-default-0"]},
            "time": START_NS + FAULT_S * 10**9,
        },
        {
            "kind": "fault.recovered",
            "data": {"fault": "kill-leader"},
            "time": START_NS + BACK_S * 10**9,
        },
    ]
    (run / "events.jsonl").write_text("\n".join(map(json.dumps, events)))
    node = {"pod": "zq-default-0", "instance": "zq-default-0:8080"}
    series = [
        MadeSeries(
            metric="zonequake_load_operations_total",
            labels={"role": role, "f": f, "outcome": outcome, "instance": "load-0:8080"},
            # The pod is scraped from the tenth second on; the last scrape sees all but one.
            value=lambda s, n=n: None if s < 10 else float(n * s // SECONDS),  # type: ignore[misc]
        )
        for (role, f, outcome), n in sorted(completions(run).items())
    ]
    series += [
        MadeSeries(
            metric="zonequake_store_loop_lag_seconds",
            labels=node,
            value=lambda s: 1.5 if s == FAULT_S + 1 else 0.002 + 0.0001 * (s % 7),
        ),
        MadeSeries(
            metric="ALERTS",
            labels={
                "alertname": "ZonequakeNodesSilent",
                "alertstate": "firing",
                "zone": "<z&1>",
            },
            value=lambda s: 1.0 if s >= FAULT_S else None,
        ),
    ]
    write_metrics(run, series, start_ms=START_MS, seconds=SECONDS)


def test_a_report_shows_what_moved_and_a_history_that_lost_lines_is_unknown(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_run(tmp_path)
    whole = judge_run(spark, tmp_path)
    checks = {check.name: check for check in whole.checks}
    assert checks["load-counters"].verdict is Verdict.PASSED
    assert checks["load-counters"].checked > 2000
    assert "ZonequakeNodesSilent (<z&1>) from 30 s" in checks["alerts"].summary
    write_report(tmp_path, whole)
    page = (tmp_path / "report.html").read_text()
    assert "Metrics that moved" in page
    assert "fault <b>kill-leader</b>, 29.0 to 34.0 s" in page
    assert "window <b>z1/1 write</b>" in page
    assert "<td>lag of the loop</td>" in page
    assert "1.5 s" in page
    assert "<z&1>" not in page, "what comes from a run is escaped"

    history = min((tmp_path / "history").glob("*.jsonl"))
    lines = [json.loads(line) for line in history.read_text().splitlines()]
    gone = {line["op"] for line in lines if line["type"] != "invoke" and line["f"] == "read"}
    kept = [line for line in lines if line["op"] not in set(sorted(gone)[:300])]
    assert len(lines) - len(kept) == 600
    history.write_text("".join(json.dumps(line) + "\n" for line in kept))
    without = {check.name: check for check in judge_run(spark, tmp_path).checks}
    assert without["load-counters"].verdict is Verdict.UNKNOWN
    assert "read (load)" in without["load-counters"].summary
    for name, check in without.items():
        if name not in ("load-counters", "alerts"):
            assert check.verdict is checks[name].verdict, "no other check noticed"
