"""A standalone cluster on machines of their own, and a driver beside the store of the run.

Master and workers have no Python but that of an archive, and no folder of the driver's.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.foreign.s3_server import S3Server, serving
from tests.foreign.spoilt_runs import uploaded
from tests.spark.clusters.machines import (
    Machine,
    Network,
    await_true,
    java_class,
    network,
    spark_environment,
)

ANALYZE = "from zonequake_analysis.cli import app; app()"
LIMIT_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """A cluster of other machines, and the driver's place, which has the store beside it."""

    wire: Network
    server: S3Server
    master: Machine
    workers: dict[Machine, subprocess.Popen[bytes]]
    undo: contextlib.ExitStack

    @property
    def url(self) -> str:
        return f"spark://{self.master.address}:7077"

    def add_worker(self, **more: str) -> Machine:
        """One more worker, with one core; it has to find the master. `more`: of its environment."""
        machine = self.wire.machine(f"worker-{len(self.workers) + 1}")
        credentials = {
            name: value
            for name, value in self.server.environment().items()
            if name != "AWS_ENDPOINT_URL"  # the driver's goes with the tasks
        }
        command = java_class(
            "worker.Worker", "--host", machine.address, "--cores", "1", "--memory", "1g", self.url
        )
        self.workers[machine] = self.undo.enter_context(
            machine.running(*command, environment=spark_environment(machine) | credentials | more)
        )
        return machine

    def state(self) -> dict[str, Any]:
        """What the master's page says."""
        document: dict[str, Any] = json.loads(
            self.wire.answers(f"http://{self.master.address}:8080/json/")
        )
        return document

    def alive(self) -> set[str]:
        return {each["host"] for each in self.state()["workers"] if each["state"] == "ALIVE"}

    def environment(self) -> dict[str, str]:
        """The driver's; no name or place of a Python is in it."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_"))}
        path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
        return kept | self.server.environment() | {"PATH": path}

    def driver(self, uri: str, *options: str | Path) -> subprocess.Popen[str]:
        """An analysis that has begun."""
        command = [sys.executable, "-c", ANALYZE, uri, "--master", self.url, "--driver-host",
                   self.wire.address, *map(str, options)]  # fmt: skip
        return self.begun(command)

    def filled_in(self, command: str, name: str, run: Path, archive: Path) -> str:
        """A command of the page, with the places of this cluster and of a run that is uploaded."""
        places = {
            "s3://bucket/runs/x": uploaded(run, self.server, name),
            "spark://host:7077": self.url,
            "10.0.0.9": self.wire.address,
            "environment.tar.gz": str(archive),
        }
        for of_the_page, here in places.items():
            assert of_the_page in command
            command = command.replace(of_the_page, here)
        return command

    def begun(self, command: list[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*self.wire.here, *command],
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.undo.callback(_end_group, process)
        return process

    def frozen_in_the_middle(self, name: str, driver: subprocess.Popen[str]) -> None:
        """Stops the store as soon as the first of the operations' files is there: the analysis
        can't go on until `goes_on`."""
        place = self.server.bucket / name / "spoilt" / "tables" / "ops"

        def written() -> bool:
            assert driver.poll() is None, driver.communicate()
            return bool(list(place.glob("part-*")))

        await_true(written, "the first file of operations", within_s=LIMIT_S)
        self.server.process.send_signal(signal.SIGSTOP)

    def goes_on(self) -> None:
        self.server.process.send_signal(signal.SIGCONT)

    def verdict(self, name: str) -> bytes:
        return (self.server.bucket / name / "spoilt" / "verdict.json").read_bytes()

    def executors(self, name: str) -> set[str]:
        """Addresses of those that ran tasks."""
        return {each["address"] for each in json.loads(self.verdict(name))["analyzed"]["executors"]}


def _end_group(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


@contextlib.contextmanager
def cluster_elsewhere(folder: Path) -> Iterator[Elsewhere]:
    """A master without workers, and a store; what they write is in `folder`."""
    with contextlib.ExitStack() as undo:
        wire = undo.enter_context(network(folder / "machines"))
        server = undo.enter_context(serving(folder / "s3", host=wire.address, within=wire.here))
        master = wire.machine("master")
        command = java_class("master.Master", "--host", master.address, "--port", "7077")
        undo.enter_context(master.running(*command, environment=spark_environment(master)))
        begun = Elsewhere(wire=wire, server=server, master=master, workers={}, undo=undo)

        def answers() -> bool:
            try:
                return bool(begun.state()["status"] == "ALIVE")
            except subprocess.CalledProcessError:
                return False

        await_true(answers, f"a start of the master ({master.folder / 'log'})")
        yield begun


def with_two_workers(cluster: Elsewhere) -> list[Machine]:
    workers = [cluster.add_worker() for _ in range(2)]
    await_true(
        lambda: cluster.alive() == {worker.address for worker in workers}, "both workers' start"
    )
    return workers
