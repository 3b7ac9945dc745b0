"""A run with every anomaly planted, so that each exact check has something to find; its verdict."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from tests.foreign.s3_server import BUCKET, S3Server
from tests.histories import anomalies
from tests.histories.made_metrics import MadeSeries, write_metrics
from tests.histories.synthesize import START_NS, WALL_OFFSET_NS, Shape, synthesize, write_operations

START_MS = (START_NS + WALL_OFFSET_NS) // 1_000_000
FAULT_S = 30
METRICS = [
    MadeSeries(
        metric="zonequake_store_loop_lag_seconds",
        labels={"pod": "zq-default-0", "instance": "zq-default-0:8080"},
        value=lambda s: 1.5 if s == FAULT_S + 1 else 0.002 + 0.0001 * (s % 7),
    ),
    MadeSeries(
        metric="zonequake_load_operations_total",
        labels={"role": "load", "f": "read", "outcome": "ok", "instance": "load-0:8080"},
        value=lambda s: 100_000.0 * s,
    ),
]
"""The load's counter shows more than the history holds, which is a verdict of its own."""


def write_spoilt(folder: Path, operations: int = 3000) -> Path:
    """The run, as this folder; `operations` of it are valid."""
    keys = max(16, operations // 200)
    synthesize(folder, Shape(operations=operations, rate=1000, files=2, partitions=4, keys=keys))
    planted = [anomalies.plant(name, START_NS + 1_000_000_000) for name in anomalies.NAMES]
    write_operations(
        folder / "history" / "planted.jsonl", [o for one in planted for o in one.operations]
    )
    files = {f"history/{file.name}": file.stat().st_size for file in folder.glob("history/*")}
    document = {
        "run": "spoilt-1",
        "harness": {"verdict": "passed", "problems": []},
        "files": {**files, "dumps/zq-default-0.jsonl": 1},
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(document))
    begun = {"kind": "node.started", "time": START_NS, "clock": "synthetic", "node": "zq-default-0"}
    fault = {"fault": "kill-leader", "type": "pod_kill", "targets": ["zq-default-0"]}
    killed = {"kind": "fault.start", "data": fault, "time": START_NS + FAULT_S * 10**9}
    (folder / "events.jsonl").write_text("\n".join(map(json.dumps, (begun, killed))))
    write_metrics(folder, METRICS, start_ms=START_MS, seconds=60)
    return folder


def uploaded(run: Path, server: S3Server, name: str) -> str:
    """Its URI. What the folder's analysis wrote stays behind."""
    shutil.copytree(
        run,
        server.bucket / name / run.name,
        ignore=shutil.ignore_patterns("tables", "verdict.json", "report.html", "*.xml", "*.md"),
    )
    return f"s3://{BUCKET}/{name}/{run.name}"


def without_place(document: bytes) -> dict[str, Any]:
    """A verdict without the time that the analysis took, and without where it ran."""
    told: dict[str, Any] = json.loads(document)
    told["numbers"].pop("analysis_s", None)
    told.pop("analyzed")
    return told
