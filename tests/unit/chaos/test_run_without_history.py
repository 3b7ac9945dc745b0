"""A run whose load did nothing is unknown, and not a failure of the harness."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from zonequake_analysis.harness_report import HarnessReport
from zonequake_analysis.verdict import Verdict
from zonequake_chaos.commands.run import RunOptions, judge_run
from zonequake_chaos.record.run_folder import RunFolder
from zonequake_kube.errors import UsageError


def test_a_run_without_history_is_unknown_and_says_why(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    ask = RunOptions(scenario="leader-kill", overrides=[], seed=1, out=None, analyze=True)
    report = HarnessReport(verdict=Verdict.UNKNOWN, problems=["the load does 0.0 operations/s"])
    ended = judge_run(ask, folder, report, Console(file=io.StringIO()))
    assert ended.exit_code == 2
    written = json.loads((folder.path / "verdict.json").read_text())
    assert written["exit_code"] == 2
    assert written["checks"][0]["summary"] == "the load does 0.0 operations/s"


def test_a_path_that_was_a_uri_is_refused() -> None:
    with pytest.raises(UsageError, match="a Path has no // of a URI"):
        RunFolder.create(Path("s3://bucket/run"))
    assert not Path("s3:").exists()
