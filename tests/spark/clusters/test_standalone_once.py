"""One small analysis on a standalone cluster: where it ran, and the verdict of the local one.

The tests that need more time are in `test_standalone.py`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.histories.synthesize import Shape, synthesize
from tests.spark.clusters.standalone import free_port, standalone
from zonequake_analysis.judgement.judge import judge_run
from zonequake_analysis.report.write import write_report

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

CODE = "from zonequake_analysis.cli import app; app()"
FEW = Shape(operations=400, rate=1000, files=2, partitions=2, keys=8)


def verdict(run: Path) -> dict[str, Any]:
    """The file, without the time that the analysis took."""
    document: dict[str, Any] = json.loads((run / "verdict.json").read_text())
    document.get("numbers", {}).pop("analysis_s", None)
    return document


def test_a_standalone_cluster_gives_the_local_verdict_and_its_executors_do_the_work(
    spark: SparkSession, tmp_path: Path
) -> None:
    here = tmp_path / "here" / "demo"
    synthesize(here, FEW)
    there = Path(shutil.copytree(here, tmp_path / "there" / "demo"))
    page = free_port()
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with standalone(tmp_path / "cluster", workers=1, page=page) as master:
        given = [str(there), "--master", master, "--driver-host", "127.0.0.1"]
        ended = subprocess.run(
            [sys.executable, "-c", CODE, *given],
            capture_output=True, text=True, env=environment, check=False, timeout=500,
        )  # fmt: skip
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=60) as answer:
            known = json.load(answer)
    write_report(here, judge_run(spark, here))
    told, elsewhere = verdict(here), verdict(there)
    place, other = told.pop("analyzed"), elsewhere.pop("analyzed")
    assert told == elsewhere, ended.stderr
    assert ended.returncode == told["exit_code"]
    assert [executor["name"] for executor in place["executors"]] == ["driver"]
    assert other["master"] == master
    applications = [*known["activeapps"], *known["completedapps"]]
    assert [one["id"] for one in applications] == [other["application"]]
    assert other["executors"]
    assert "driver" not in {executor["name"] for executor in other["executors"]}
