"""A run whose load did nothing is unknown, and not a failure of the harness."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from tests.processes.store.ports import free_ports
from zonequake_analysis.harness_report import HarnessReport
from zonequake_analysis.storage import limits
from zonequake_analysis.storage.location import Location
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


def test_a_run_whose_store_stays_away_is_told_of_in_its_folder_and_ends_with_255(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder.create(tmp_path / "run")
    (folder.path / "run.yaml").write_text("run: one-1\n")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_ports(1)[0]}")
    monkeypatch.setattr(limits, "FIRST_ATTEMPTS", 1)
    said = io.StringIO()
    ask = RunOptions(
        scenario="leader-kill",
        overrides=[],
        seed=1,
        out=None,
        analyze=True,
        store=Location.of("s3://bucket/x"),
    )
    ended = judge_run(
        ask, folder, HarnessReport(verdict=Verdict.PASSED), Console(file=said, width=1000)
    )
    assert ended.exit_code == 255
    assert f"zonequake upload {folder.path}" in ended.not_stored
    assert ended.not_stored in said.getvalue()
    assert json.loads((folder.path / "verdict.json").read_text())["verdict"] == "unknown"
