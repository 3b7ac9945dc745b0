"""The analysis on a standalone cluster: where it ran, and the verdict of the local one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.histories.synthesize import Shape, synthesize
from tests.spark.clusters.standalone import connect_server, free_port, standalone
from zonequake_analysis import submit

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]

SPARK_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "demo"
    synthesize(folder, Shape(operations=2000, rate=1000, files=2, partitions=4, keys=16))
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("cluster"), workers=2) as master:
        yield master


def zonequake(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    code = "from zonequake_analysis.cli import app; app()"
    return finished([sys.executable, "-c", code, *map(str, arguments)])


def finished(command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= more
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False, timeout=500
    )


def verdict(run: Path) -> dict[str, Any]:
    """The file, without the time that the analysis took."""
    document: dict[str, Any] = json.loads((run / "verdict.json").read_text())
    document.get("numbers", {}).pop("analysis_s", None)
    return document


def copied(run: Path, folder: Path) -> Path:
    """The same run in another place, under the same name."""
    return Path(shutil.copytree(run, folder / run.name))


def test_the_verdict_is_the_local_one_and_the_workers_did_the_work(
    run: Path, cluster: str, tmp_path: Path
) -> None:
    here, there = copied(run, tmp_path / "here"), copied(run, tmp_path / "there")
    local = zonequake(here, "--master", "local[1]")
    distributed = zonequake(there, "--master", cluster, "--driver-host", "127.0.0.1")
    assert local.returncode == distributed.returncode, distributed.stderr
    told, elsewhere = verdict(here), verdict(there)
    place, other = told.pop("analyzed"), elsewhere.pop("analyzed")
    assert told == elsewhere
    assert place["master"] == "local[1]"
    assert [executor["name"] for executor in place["executors"]] == ["driver"]
    assert other["master"] == cluster
    assert other["executors"]
    assert "driver" not in {executor["name"] for executor in other["executors"]}


def test_spark_submits_master_is_the_one_that_judges(
    run: Path, cluster: str, tmp_path: Path
) -> None:
    there = copied(run, tmp_path)
    command = [SPARK_SUBMIT, "--master", cluster, "--conf", "spark.driver.host=127.0.0.1"]
    ended = finished([*map(str, command), submit.__file__, str(there)])
    document = verdict(there)
    assert document["exit_code"] == ended.returncode, ended.stderr
    assert document["analyzed"]["master"] == cluster
    assert "driver" not in {one["name"] for one in document["analyzed"]["executors"]}


def test_spark_defaults_conf_wins_under_spark_submit(
    run: Path, cluster: str, tmp_path: Path
) -> None:
    there = copied(run, tmp_path)
    given = {"spark.master": cluster, "spark.driver.host": "127.0.0.1"}
    lines = [f"{name} {value}\n" for name, value in given.items()]
    (tmp_path / "spark-defaults.conf").write_text("".join(lines))
    command = [str(SPARK_SUBMIT), submit.__file__, str(there)]
    ended = finished(command, SPARK_CONF_DIR=str(tmp_path))
    document = verdict(there)
    assert document["exit_code"] == ended.returncode, ended.stderr
    assert document["analyzed"]["master"] == cluster
    assert "driver" not in {one["name"] for one in document["analyzed"]["executors"]}


def test_a_connect_server_without_executors_ends_the_analysis_with_what_waits(
    run: Path, tmp_path: Path
) -> None:
    there = copied(run, tmp_path)
    python = {"PYSPARK_PYTHON": sys.executable}
    with (
        standalone(tmp_path / "cluster", workers=0) as master,
        connect_server(tmp_path / "connect", {**os.environ, **python}, master=master) as remote,
    ):
        ended = zonequake(there, "--remote", remote)
    assert ended.returncode == 255, ended.stderr
    assert "Traceback" not in ended.stderr
    document = verdict(there)
    assert document["verdict"] == "harness-failed"
    assert "the Spark Connect server has run none of the tasks that wait" in document["headline"]
    assert "it has no executor" in document["headline"]


def answered(url: str) -> Any:
    """The document that a server of this machine answers with."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.loads(answer.read())


@pytest.mark.parametrize(
    "host", ["10.255.255.1", "127.0.0.2"], ids=["nothing answers", "connections are refused"]
)
def test_executors_that_can_not_reach_the_driver_end_it_with_its_address(
    run: Path, cluster: str, tmp_path: Path, host: str
) -> None:
    """After a minute, as `test_placement.py` has it, or once Spark gives up before."""
    there = copied(run, tmp_path)
    given = {"spark.driver.host": host, "spark.driver.bindAddress": "127.0.0.1"}
    options = [word for each in given.items() for word in ("--conf", "=".join(each))]
    ended = finished(
        [str(SPARK_SUBMIT), "--master", cluster, *options, submit.__file__, str(there)]
    )
    assert ended.returncode == 255, ended.stderr
    assert "Traceback" not in ended.stderr
    document = verdict(there)
    assert document["verdict"] == "harness-failed"
    assert f"can't connect to this process at {host}" in document["headline"]
    assert "--driver-host" in document["headline"]


def rest(pages: int, path: str) -> Any:
    """What a Connect server's own REST says."""
    return answered(f"http://127.0.0.1:{pages}/api/v1/applications{path}")


def executors_of(pages: int, application: str) -> dict[tuple[str, str], int]:
    """The tasks of each executor, by its name and address."""
    return {
        (each["id"], each["hostPort"].partition(":")[0]): each["totalTasks"]
        for each in rest(pages, f"/{application}/executors")
        if each["id"] != "driver"
    }


def test_through_connect_the_verdict_names_the_executors_that_the_server_shows(
    run: Path, tmp_path: Path
) -> None:
    there, pages = copied(run, tmp_path), free_port()
    python = {"PYSPARK_PYTHON": sys.executable}
    with (
        standalone(tmp_path / "cluster", workers=2) as master,
        connect_server(
            tmp_path / "connect", {**os.environ, **python}, master=master, pages=pages
        ) as remote,
    ):
        (application,) = (each["id"] for each in rest(pages, ""))
        ends_s = time.monotonic() + 120
        while len(executors_of(pages, application)) < 2:
            assert time.monotonic() < ends_s, "both executors register"
            time.sleep(0.2)
        ended = zonequake(there, "--remote", remote)
        shown = executors_of(pages, application)
    document = verdict(there)
    assert document["exit_code"] == ended.returncode, ended.stderr
    place = document["analyzed"]
    assert (place["master"], place["application"]) == (master, application)
    told = {(each["name"], each["address"]): each["tasks"] for each in place["executors"]}
    assert told.keys() == {worked for worked, tasks in shown.items() if tasks}
    assert len(told) == 2, "each took one of the first two tasks"
    assert all(0 < tasks <= shown[worked] for worked, tasks in told.items())


@pytest.mark.parametrize(
    ("master", "exit_code"), [("somewhere", 254), (f"spark://127.0.0.1:{free_port()}", 255)]
)
def test_a_master_that_is_not_there_is_an_error_without_a_stack(
    run: Path, tmp_path: Path, master: str, exit_code: int
) -> None:
    there = copied(run, tmp_path)
    ended = zonequake(there, "--master", master)
    assert ended.returncode == exit_code
    assert master.removeprefix("spark://") in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "\tat org.apache" not in ended.stderr
    assert verdict(there)["verdict"] == "harness-failed"
