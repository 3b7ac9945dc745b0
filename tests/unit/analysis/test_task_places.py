"""A task tells the executor that it runs on, and the verdict counts what tasks told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.unit.analysis.test_placement import AtServer
from zonequake_analysis.cluster import task_places
from zonequake_analysis.cluster.task_places import (
    TaskPlace,
    executor_above,
    keep_places,
    own_place,
    places_of,
)
from zonequake_analysis.spark_pass.placement import placement_of

TELLS = """
import os
from zonequake_analysis.cluster.task_places import executor_above
if os.fork() == 0:  # as a worker of Spark's daemon
    print(*executor_above(os.getpid()), flush=True)
    os._exit(0)
os.wait()
"""


def session(*told: bytes, master: str = "spark://a:1") -> AtServer:
    conf = {"master": master, "app.id": "app-1", "driver.host": "10.0.0.9"}
    found = AtServer({f"spark.{name}": value for name, value in conf.items()})
    keep_places(found, told)
    return found


def line(task: int, executor: str, address: str) -> bytes:
    return f'[{task},"{executor}","{address}"]\n'.encode()


def test_a_process_finds_the_executor_that_started_the_one_above_it() -> None:
    spark = str(Path(pyspark.__file__).parents[1])
    own = str(Path(task_places.__file__).parents[2])
    told = subprocess.run(
        ["sh", "-c", '"$0" -c "$1"; true', sys.executable, TELLS,
         "--executor-id", "7", "--hostname", "10.0.0.5"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([own, spark])},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout == "7 10.0.0.5\n"


def process(folder: Path, pid: int, parent: int, *command: str) -> None:
    """Writes what the kernel shows of a process."""
    own = folder / str(pid)
    own.mkdir()
    (own / "cmdline").write_bytes(b"".join(f"{word}\0".encode() for word in command))
    (own / "status").write_text(f"Name:\tx\nTgid:\t{pid}\nPPid:\t{parent}\nTracerPid:\t0\n")


def test_without_an_executor_above_it_a_process_tells_its_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "here")
    process(tmp_path, 1, 0, "java", "SparkSubmit", "--executor-id")
    process(tmp_path, 8, 1, "python", "-m", "pyspark.daemon")
    process(tmp_path, 9, 77, "python")
    assert executor_above(8, tmp_path) == ("", "here")
    assert executor_above(9, tmp_path) == ("", "here"), "one whose parent is not shown"
    assert executor_above(5, tmp_path) == ("", "here"), "no such folder, as without Linux"
    process(tmp_path, 20, 1, "java", "X", "--executor-id", "3", "--hostname", "::1", "--cores", "1")
    process(tmp_path, 21, 20, "python", "-m", "pyspark.daemon")
    assert executor_above(21, tmp_path) == ("3", "::1")


def test_a_place_is_a_line_and_lines_may_be_joined() -> None:
    found = session()
    keep_places(found, [own_place() + line(4, "1", "b"), b"", line(4, "1", "b")])
    assert len(places_of(found)) == 2
    assert TaskPlace(4, "1", "b") in places_of(found)
    assert places_of(session()) == frozenset(), "another session has its own"


def test_the_verdict_counts_the_tasks_of_each_executor_once() -> None:
    told = [line(1, "1", "w2"), line(2, "0", "w1"), line(3, "0", "w1") + line(2, "0", "w1")]
    found = placement_of(session(*told))
    assert found is not None
    assert [(e.name, e.address, e.tasks) for e in found.executors] == [
        ("0", "w1", 2),
        ("1", "w2", 1),
    ]


def test_a_server_that_runs_tasks_in_its_own_process_is_the_driver() -> None:
    found = placement_of(session(line(1, "", "h"), line(2, "", "h"), master="local[2]"))
    assert found is not None
    (driver,) = found.executors
    assert (driver.name, driver.address, driver.tasks) == ("driver", "10.0.0.9", 2)


def test_an_executor_whose_number_can_not_be_found_is_told_by_its_machine() -> None:
    found = placement_of(session(line(1, "", "machine-3")))
    assert found is not None
    (executor,) = found.executors
    assert (executor.name, executor.address, executor.tasks) == ("", "machine-3", 1)
