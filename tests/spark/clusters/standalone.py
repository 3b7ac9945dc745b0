"""Spark's own classes as processes: a standalone master with workers, and a Connect server."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark

from tests.processes.store.ports import free_ports

BEGIN_S = 300.0
_SPARK_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
_CONNECT_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


def free_port() -> int:
    """A port that no outgoing connection takes until its server listens there."""
    return free_ports(1)[0]


@contextlib.contextmanager
def started(folder: Path, name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a class of Spark's deployment, and ends it with all that it started."""
    work = folder / name
    work.mkdir(parents=True)
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_DIR": str(work),
    }
    with (work / "log").open("wb") as log:
        process = subprocess.Popen(
            [_SPARK_CLASS, f"org.apache.spark.deploy.{arguments[0]}", *arguments[1:]],
            cwd=work,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def standalone(folder: Path, *, workers: int, page: int | None = None) -> Iterator[str]:
    """A cluster of so many workers with one core each; yields its master's URL.

    `page`: the port of the master's own page.
    """
    port, page = free_port(), page or free_port()
    with contextlib.ExitStack() as running:
        running.enter_context(
            started(
                folder, "master", "master.Master", "--host", "127.0.0.1",
                "--port", str(port), "--webui-port", str(page),
            )
        )  # fmt: skip
        _await_port(port)
        master = f"spark://127.0.0.1:{port}"
        for number in range(workers):
            running.enter_context(
                started(
                    folder, f"worker-{number}", "worker.Worker", "--host", "127.0.0.1",
                    "--cores", "1", "--memory", "1g", "--webui-port", str(free_port()), master,
                )
            )  # fmt: skip
        yield master


@contextlib.contextmanager
def connect_server(
    folder: Path,
    environment: Mapping[str, str],
    *,
    master: str = "local[2]",
    pages: int | None = None,
) -> Iterator[str]:
    """A Spark Connect server in this environment, on two cores or a cluster; yields its URL.

    `pages`: the port of Spark's pages and their REST; without one there are none.
    """
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.ui.enabled": str(pages is not None).lower(),
        "spark.ui.port": str(pages or 0),
        "spark.log.level": "ERROR",
    }
    folder.mkdir(parents=True)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(_SPARK_SUBMIT, "--class", _CONNECT_SERVER, "--master", master),
                *(word for each in settings.items() for word in ("--conf", "=".join(each))),
                "spark-internal",
            ],
            cwd=folder,
            env={**environment, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        _await_port(port)
        yield f"sc://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _await_port(port: int) -> None:
    ends_s = time.monotonic() + BEGIN_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
        except OSError:
            if time.monotonic() > ends_s:
                raise
            time.sleep(0.2)
        else:
            return
