"""The analysis on a cluster of other machines: nothing is shared but the store, and no path.

Master and workers have addresses, file systems and processes of their own (`machines`), no Python
but that of the archive, and Spark at another place than the driver's. The run lies in S3.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.foreign.spoilt_runs import uploaded, without_place, write_spoilt
from tests.histories.judged_runs import JudgedRun, write_run
from tests.spark.clusters.elsewhere import (
    ANALYZE,
    LIMIT_S,
    Elsewhere,
    cluster_elsewhere,
    with_two_workers,
)
from tests.spark.clusters.machines import Machine, await_true
from zonequake_analysis.storage.analysis_lock import DEAD_AFTER_S

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(2400)]

ROOT = Path(__file__).parents[2]
TREND = "from zonequake_analysis.many_runs.trend_command import app; app()"
VIOLATED, FAILED = 1, 255


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written by the command of the page."""
    folder = tmp_path_factory.mktemp("archive")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-c", commands_of_the_page()[0]],
        cwd=folder, env=os.environ | {"PATH": path}, check=True,
    )  # fmt: skip
    return folder / "environment.tar.gz"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_spoilt(tmp_path_factory.mktemp("runs") / "spoilt")


@pytest.fixture(scope="module")
def told_here(run: Path) -> str:
    """The verdict of the folder on local Spark."""
    ended = subprocess.run(
        [sys.executable, "-c", ANALYZE, run], capture_output=True, text=True, check=False
    )
    assert ended.returncode == VIOLATED, ended.stderr
    return told((run / "verdict.json").read_bytes())


def told(document: bytes) -> str:
    """The text of a verdict, but for where it ran and how long that took."""
    return json.dumps(without_place(document), indent=1)


def ended(process: subprocess.Popen[str]) -> str:
    """What it printed."""
    return process.communicate(timeout=LIMIT_S)[0]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Elsewhere]:
    """A master without workers."""
    with cluster_elsewhere(tmp_path) as begun:
        yield begun


def commands_of_the_page() -> tuple[str, str, str]:
    """Those of docs/analysis.md, "On a cluster": the archive's, ours, and spark-submit's."""
    page = (ROOT / "docs" / "analysis.md").read_text()
    section = page.partition("\n## On a cluster\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"(?:^    .*\n)+", section, re.MULTILINE)
    write, analyze, submit = (textwrap.dedent(block) for block in blocks)
    return write, analyze, submit


def test_the_verdict_is_the_local_one_by_each_command_of_the_page(
    cluster: Elsewhere, run: Path, told_here: str, archive: Path
) -> None:
    workers = with_two_workers(cluster)
    _, *commands = commands_of_the_page()
    for command, name in zip(commands, ("plain", "submitted"), strict=True):
        driver = cluster.begun(["bash", "-c", cluster.filled_in(command, name, run, archive)])
        said = ended(driver)
        assert driver.returncode == VIOLATED, said
        assert told(cluster.verdict(name)) == told_here
        assert cluster.executors(name)
        assert cluster.executors(name) <= {worker.address for worker in workers}


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(
    cluster: Elsewhere, run: Path, told_here: str, archive: Path
) -> None:
    workers = with_two_workers(cluster)
    uri = uploaded(run, cluster.server, "killed")
    driver = cluster.driver(uri, "--archives", archive)
    cluster.frozen_in_the_middle("killed", driver)
    lost = next(worker for worker in workers if has_tasks(worker))
    (left,) = (worker for worker in workers if worker is not lost)
    cluster.workers[lost].kill()
    await_true(lambda: not lost.processes(), "the end of all that ran on the worker")
    await_true(lambda: cluster.alive() == {left.address}, "the worker's end")
    cluster.goes_on()
    said = ended(driver)
    assert driver.returncode == VIOLATED, said
    assert "Lost executor" in said
    assert lost.address in said
    assert told(cluster.verdict("killed")) == told_here
    assert left.address in cluster.executors("killed")


def test_an_analysis_whose_only_worker_is_killed_ends_with_the_cause(
    cluster: Elsewhere, run: Path, archive: Path
) -> None:
    only = cluster.add_worker()
    await_true(lambda: cluster.alive() == {only.address}, "the worker's start")
    driver = cluster.driver(uploaded(run, cluster.server, "only"), "--archives", archive)
    cluster.frozen_in_the_middle("only", driver)
    cluster.workers[only].kill()
    await_true(lambda: not cluster.alive(), "the worker's end")
    cluster.goes_on()
    said = ended(driver)
    assert driver.returncode == FAILED, said
    document = json.loads(cluster.verdict("only"))
    assert document["verdict"] == "harness-failed"
    assert f"no executor of {cluster.url} was there for " in document["headline"]
    assert "while tasks waited (1 had been; " in document["headline"]
    assert "bring one back, then analyze the run again" in document["headline"]


def has_tasks(machine: Machine) -> bool:
    return any("pyspark.daemon" in line for line in machine.processes().values())


def test_a_worker_that_joins_late_takes_part(
    cluster: Elsewhere, run: Path, told_here: str, archive: Path
) -> None:
    first = cluster.add_worker()
    uri = uploaded(run, cluster.server, "late")
    driver = cluster.driver(uri, "--archives", archive)
    cluster.frozen_in_the_middle("late", driver)
    late = cluster.add_worker()
    await_true(lambda: has_registered(late), "the late executor's registration")
    cluster.goes_on()
    said = ended(driver)
    assert driver.returncode == VIOLATED, said
    assert told(cluster.verdict("late")) == told_here
    assert cluster.executors("late") == {first.address, late.address}


def has_registered(machine: Machine) -> bool:
    """An executor of this worker has told its driver of itself, and heard of it."""
    logs = machine.folder.glob("work/app-*/*/stderr")
    return any("Successfully registered with driver" in log.read_text() for log in logs)


def test_a_driver_that_was_killed_can_begin_again(
    cluster: Elsewhere, run: Path, told_here: str, archive: Path
) -> None:
    with_two_workers(cluster)
    uri = uploaded(run, cluster.server, "again")
    driver = cluster.driver(uri, "--archives", archive)
    cluster.frozen_in_the_middle("again", driver)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.communicate()
    cluster.goes_on()
    await_true(lambda: cluster.state()["activeapps"] == [], "the end of the application")
    place = cluster.server.bucket / "again" / run.name
    assert not (place / "verdict.json").exists()

    early = cluster.driver(uri, "--archives", archive)
    assert "another process analyses it" in ended(early)
    assert early.returncode == FAILED

    (lock,) = place.glob(".analysis-*")
    written_s = lock.stat().st_mtime - DEAD_AFTER_S - 1
    os.utime(lock, (written_s, written_s))  # as if that long had passed
    again = cluster.driver(uri, "--archives", archive)
    said = ended(again)
    assert again.returncode == VIOLATED, said
    assert told(cluster.verdict("again")) == told_here
    assert not list(place.glob(".analysis-*"))


def test_a_trend_is_read_by_workers_that_share_only_the_store(
    cluster: Elsewhere, archive: Path
) -> None:
    workers = with_two_workers(cluster)
    there = cluster.server.bucket / "trend"
    for number in range(8):
        write_run(there, JudgedRun(name=f"r{number}", day=number, seed=number, operations=500))
    words = ["--master", cluster.url, "--driver-host", cluster.wire.address]
    driver = cluster.begun(
        [sys.executable, "-c", TREND, "s3://runs/trend", *words, "--archives", str(archive)]
    )
    said = ended(driver)
    assert driver.returncode == 0, said
    assert "s3://runs/trend/trend.html: 8 runs, 0 left out" in said
    rows = pq.read_table(there / "trend.parquet").to_pylist()
    assert len([row for row in rows if row["objective"] == "run"]) == 8
    assert any(list(worker.folder.glob("work/app-*")) for worker in workers)


def test_workers_without_python_and_archive_are_told_of_with_the_way_out(
    cluster: Elsewhere, run: Path
) -> None:
    with_two_workers(cluster)
    uri = uploaded(run, cluster.server, "without")
    driver = cluster.driver(uri)
    said = ended(driver)
    assert driver.returncode == FAILED
    (headline,) = (line for line in said.splitlines() if line.startswith("analyze spoilt: "))
    assert f"found no Python {sys.executable} there" in headline
    assert "--archives" in headline


def test_executors_that_can_not_unpack_the_archive_end_the_analysis_with_the_cause(
    cluster: Elsewhere, run: Path, archive: Path
) -> None:
    worker = cluster.add_worker(JAVA_TOOL_OPTIONS="-Djava.io.tmpdir=/etc")  # in memory, and small
    await_true(lambda: cluster.alive() == {worker.address}, "the worker's start")
    uri = uploaded(run, cluster.server, "small")
    driver = cluster.driver(uri, "--archives", archive)
    said = ended(driver)
    assert driver.returncode == FAILED, said
    document = json.loads(cluster.verdict("small"))
    assert document["verdict"] == "harness-failed"
    assert "died before any of them finished a task" in document["headline"]
    assert "An archive needs 600 MB in Java's temporary folder" in document["headline"]
