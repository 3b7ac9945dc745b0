"""A run in a real S3 is judged as in a folder, whatever the store refuses meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
import pyspark
import pytest

from tests.foreign.faulty_s3 import Fault, each_third, relayed
from tests.foreign.s3_server import BUCKET, SECRET_KEY, S3Server
from tests.foreign.spoilt_runs import uploaded, without_place, write_spoilt
from tests.spark.clusters.standalone import connect_server, standalone
from zonequake_analysis import submit
from zonequake_analysis.tables.schemas import TABLES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

SPARK_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
VIOLATED = 1
SQL_SHELL = "from zonequake_analysis.sql_shell.command import app; app()"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_spoilt(tmp_path_factory.mktemp("runs") / "spoilt")


@pytest.fixture(scope="module")
def told_here(run: Path) -> dict[str, Any]:
    """The verdict of the folder."""
    ended = analyze(run, environment=dict(os.environ))
    assert ended.returncode == VIOLATED, ended.stderr
    return without_place((run / "verdict.json").read_bytes())


def analyze(
    run: Path | str, *options: str, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    code = "from zonequake_analysis.cli import app; app()"
    return finished([sys.executable, "-c", code, str(run), *options], environment)


def finished(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**environment, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        check=False,
        timeout=500,
    )


def test_the_verdict_is_the_folders_though_each_third_request_meets_a_fault(
    run: Path, server: S3Server, told_here: dict[str, Any]
) -> None:
    uri = uploaded(run, server, "faults")
    with relayed(server.endpoint, each_third) as relay:
        ended = analyze(uri, environment={**os.environ, **server.environment(relay.endpoint)})
    assert ended.returncode == VIOLATED, ended.stderr
    there = server.bucket / "faults" / run.name
    assert without_place((there / "verdict.json").read_bytes()) == told_here
    assert set(relay.faults) == {Fault.SLOW_DOWN, Fault.RESET, Fault.RESET_DONE, Fault.CUT}
    assert {"report.html", "summary.md", "junit.xml"} <= {file.name for file in there.iterdir()}
    assert list((there / "tables" / "ops").glob("part-*.parquet"))
    for table in TABLES.keys() - {"ops"}:
        here, stored = (rows_of(folder / "tables" / table) for folder in (run, there))
        assert stored == here, table
        assert here or table in ("windows", "rebalances", "probes")
    assert not list(there.glob(".analysis-*")), "the claim is given back"
    assert f"{uri}/report.html" in ended.stderr
    for text in (ended.stdout, ended.stderr, *map(read_text, there.glob("*.*"))):
        assert SECRET_KEY not in text


@pytest.mark.long
def test_the_tables_of_a_store_answer_as_those_of_the_folder(
    run: Path, server: S3Server, told_here: dict[str, Any]
) -> None:
    del told_here  # it is analyzed
    shutil.copytree(run, server.bucket / "tables" / run.name)
    query = (
        "SELECT f.check, f.kind, f.key, o.f, count(*) AS n FROM findings f LEFT JOIN ops o "
        "ON o.op = f.write_op CROSS JOIN faults GROUP BY ALL ORDER BY ALL"
    )
    here, there = (
        finished(
            [sys.executable, "-c", SQL_SHELL, place, "--query", query, "--format", "csv"],
            {**os.environ, **server.environment()},
        )
        for place in (str(run), f"s3://{BUCKET}/tables/{run.name}")
    )
    assert there.returncode == 0, there.stderr
    assert there.stdout == here.stdout
    assert "lost-writes,lost,planted-lost," in here.stdout


def rows_of(table: Path) -> list[str]:
    return sorted(map(str, pq.read_table(table).to_pylist()))


def read_text(file: Path) -> str:
    return file.read_text(errors="replace")


def test_a_file_that_was_not_copied_with_its_run_makes_the_history_unknown(
    told_here: dict[str, Any],
) -> None:
    (history,) = [check for check in told_here["checks"] if check["name"] == "history"]
    assert history["verdict"] == "unknown"
    assert "1 files are missing" in history["summary"]
    assert "dumps/zq-default-0.jsonl" in history["summary"]


def test_a_bucket_that_is_not_there_ends_with_255_and_without_a_stack(server: S3Server) -> None:
    ended = analyze("s3://nowhere/run", environment={**os.environ, **server.environment()})
    assert ended.returncode == 255
    assert "there is no bucket s3://nowhere" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.long
@pytest.mark.parametrize("table", ["metrics/hour=", "ops/part-"])
def test_a_refusal_that_a_task_met_is_told_with_its_place_and_likely_cause(
    run: Path, server: S3Server, table: str
) -> None:
    name = f"denied-{table[:3]}"
    uri = uploaded(run, server, name)

    def plan(_: int, method: str, path: str) -> Fault | None:
        return Fault.DENIED if method == "PUT" and f"tables/{table}" in unquote(path) else None

    with relayed(server.endpoint, plan) as relay:
        ended = analyze(uri, environment={**os.environ, **server.environment(relay.endpoint)})
    assert ended.returncode == 255
    document = json.loads((server.bucket / name / run.name / "verdict.json").read_bytes())
    assert document["verdict"] == "harness-failed"
    assert f"{uri}/tables/{table}" in document["headline"]
    assert "a run's place needs rights to list, read, write and delete" in document["headline"]


@pytest.mark.long
def test_workers_that_share_no_folder_with_the_driver_judge_it(
    run: Path,
    server: S3Server,
    told_here: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uri = uploaded(run, server, "cluster")
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)  # the workers' own credentials
    with standalone(tmp_path, workers=2) as master:
        command = [SPARK_SUBMIT, "--master", master, "--conf", "spark.driver.host=127.0.0.1"]
        ended = finished([*map(str, command), submit.__file__, uri], dict(os.environ))
    assert ended.returncode == VIOLATED, ended.stderr
    document = (server.bucket / "cluster" / run.name / "verdict.json").read_bytes()
    assert without_place(document) == told_here
    executors = json.loads(document)["analyzed"]["executors"]
    assert executors
    assert "driver" not in {executor["name"] for executor in executors}


@pytest.mark.long
def test_through_spark_connect_the_verdict_is_the_local_one_and_the_servers_credentials_count(
    run: Path, server: S3Server, told_here: dict[str, Any], tmp_path: Path
) -> None:
    uri = uploaded(run, server, "connect")
    own = {k: v for k, v in server.environment().items() if k != "AWS_ENDPOINT_URL"}
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    with connect_server(tmp_path / "connect", environment | own) as remote:
        ended = analyze(uri, "--remote", remote, environment={**os.environ, **server.environment()})
    assert ended.returncode == VIOLATED, ended.stderr
    document = (server.bucket / "connect" / run.name / "verdict.json").read_bytes()
    assert without_place(document) == told_here
    place = json.loads(document)["analyzed"]
    assert place["master"] == "local[2]"
    assert [executor["name"] for executor in place["executors"]] == ["driver"]
    without = {k: v for k, v in environment.items() if not k.startswith("AWS_")}
    nobody = {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}
    with connect_server(tmp_path / "without", without | nobody) as remote:
        ended = analyze(uri, "--remote", remote, environment={**os.environ, **server.environment()})
    assert ended.returncode == 255
    assert "these credentials, or their absence, don't allow it" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.long
def test_an_analysis_killed_in_the_middle_leaves_no_verdict_and_the_next_one_waits_for_its_death(
    run: Path, server: S3Server
) -> None:
    uri = uploaded(run, server, "killed")
    there = server.bucket / "killed" / run.name
    (there / "verdict.json").write_text("of an earlier one")
    environment = {**os.environ, **server.environment()}
    code = "from zonequake_analysis.cli import app; app()"
    written = False

    def plan(_: int, method: str, path: str) -> Fault | None:
        nonlocal written
        written = written or (method == "PUT" and "tables/ops/part-" in path)
        return Fault.SILENT if written else None

    with relayed(server.endpoint, plan) as relay:
        process = subprocess.Popen(
            [sys.executable, "-c", code, uri],
            env={**environment, "AWS_ENDPOINT_URL": relay.endpoint},
            start_new_session=True,
        )
        while Fault.SILENT not in relay.faults:
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert not (there / "verdict.json").exists()
    refused = analyze(uri, environment=environment)
    assert refused.returncode == 255
    assert "another process analyses it" in refused.stderr
    assert not (there / "verdict.json").exists()
