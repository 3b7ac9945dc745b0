"""Comparisons and trends of runs in a real S3 are those of the same runs in folders."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import typer.main

from tests.foreign.faulty_s3 import Fault, each_third, relayed
from tests.foreign.s3_server import BUCKET, SECRET_KEY, S3Server
from tests.histories.judged_runs import JudgedRun, write_run
from zonequake_analysis.many_runs.compare_command import app as compare
from zonequake_analysis.many_runs.folders import run_folders
from zonequake_analysis.many_runs.trend_command import app as trend
from zonequake_analysis.storage.location import Location

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

TREND = "from zonequake_analysis.many_runs.trend_command import app; app()"


def called(app: typer.Typer, *words: str | Path) -> object:
    return typer.main.get_command(app).main(
        args=[str(word) for word in words], standalone_mode=False
    )


def test_sets_of_runs_compare_in_the_store_as_in_folders(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = server.bucket / "compared"
    for seed in range(3):
        write_run(there / "old", JudgedRun(name=f"a{seed}", seed=seed))
        write_run(there / "new" / "week-1", JudgedRun(name=f"b{seed}", seed=seed + 9, slower=2.0))
    assert called(compare, "--base", there / "old", "--candidate", there / "new") == 3
    here = capsys.readouterr().out
    assert "Regression: " in here
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    uri = f"s3://{BUCKET}/compared"
    with relayed(server.endpoint, each_third) as relay:
        monkeypatch.setenv("AWS_ENDPOINT_URL", relay.endpoint)
        assert called(compare, "--base", f"{uri}/old", "--candidate", f"{uri}/new") == 3
    assert capsys.readouterr().out == here
    assert {Fault.SLOW_DOWN, Fault.RESET, Fault.CUT} <= set(relay.faults)


def test_runs_are_found_three_folders_deep_and_not_within_a_run(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = server.bucket / "deep"
    write_run(there / "one", JudgedRun(name="r1", operations=10))
    write_run(there / "one" / "r1" / "logs", JudgedRun(name="inner", operations=10))
    write_run(there / "a" / "b", JudgedRun(name="r2", operations=10))
    write_run(there / "a" / "b" / "c", JudgedRun(name="too-deep", operations=10))
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    uri = Location.of(f"s3://{BUCKET}/deep")
    assert run_folders(uri) == [uri / "a/b/r2", uri / "one/r1"]
    assert run_folders(uri / "one" / "r1") == [uri / "one/r1"]


@pytest.mark.parametrize(
    ("command", "words"),
    [(compare, ["s3://nowhere/a", "s3://nowhere/b"]), (trend, ["s3://nowhere/runs"])],
    ids=["compare", "trend"],
)
def test_a_bucket_that_is_not_there_ends_with_255_and_a_sentence(
    server: S3Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: typer.Typer,
    words: list[str],
) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    assert called(command, *words) == 255
    told = capsys.readouterr().err
    assert "there is no bucket s3://nowhere" in told
    assert "Traceback" not in told


@pytest.mark.long
def test_the_trend_of_a_prefix_is_that_of_its_folder_and_is_written_beside_the_runs(
    server: S3Server,
) -> None:
    there = server.bucket / "trend"
    for number in range(8):
        write_run(there, JudgedRun(name=f"r{number}", day=number, seed=number, operations=500))
    (there / "r3" / "verdict.json").write_text("{torn")
    (there / "r4" / "run.yaml").unlink()
    with relayed(server.endpoint, each_third) as relay:
        ended = subprocess.run(
            [sys.executable, "-c", TREND, f"s3://{BUCKET}/trend"],
            env={**os.environ, **server.environment(relay.endpoint), "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )
    assert ended.returncode == 0, ended.stderr
    assert f"s3://{BUCKET}/trend/trend.html: 7 runs, 1 left out" in ended.stdout
    assert f"s3://{BUCKET}/trend/r3" in (there / "trend.html").read_text()
    table = pq.read_table(there / "trend.parquet")
    runs = {row["folder"] for row in table.to_pylist() if row["objective"] == "run"}
    assert runs == {f"s3://{BUCKET}/trend/r{n}" for n in (0, 1, 2, 4, 5, 6, 7)}
    assert SECRET_KEY not in ended.stdout + ended.stderr + (there / "trend.html").read_text()
    assert {Fault.SLOW_DOWN, Fault.RESET} <= set(relay.faults)
