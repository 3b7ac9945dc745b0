"""A real HDFS on loopback: NameNode and DataNode of Hadoop, of the version that PySpark carries.

Both run in one Java machine, from Hadoop's own library for tests and the client that PySpark has.
It trusts the name that each client gives itself: it asks for no credentials.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import hdfs_native

from tests.foreign.maven import SPARKS_OWN, Library
from tests.processes.store.ports import free_ports

_HADOOP = Library(
    group="org.apache.hadoop",
    name="hadoop-client-minicluster",
    version="3.5.0",
    sha256="06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c",
)
_START_S = 300.0
"""A Java machine that loads its classes beside other work."""

_OF_THIS_MACHINE = ("HADOOP_CONF_DIR", "HADOOP_HOME", "HADOOP_USER_NAME", "HADOOP_PROXY_USER")


@dataclass(frozen=True, slots=True, kw_only=True)
class HdfsServer:
    """The servers, in one process."""

    uri: str
    process: subprocess.Popen[bytes]

    def environment(self) -> dict[str, str]:
        """What a process needs to speak to it: nothing of this machine's own Hadoop."""
        return {name: value for name, value in os.environ.items() if name not in _OF_THIS_MACHINE}


@contextmanager
def serving(folder: Path) -> Iterator[HdfsServer]:
    """Runs an empty HDFS."""
    (own,) = SPARKS_OWN.glob("hadoop-client-api-*.jar")
    assert own.stem.endswith(_HADOOP.version), f"PySpark has {own.name}: take the same version"
    port = free_ports(1)[0]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
             "-cp", f"{_HADOOP.fetched()}:{SPARKS_OWN}/*",
             "org.apache.hadoop.test.MiniDFSClusterManager", "-format", "-datanodes", "1",
             "-nnport", str(port), f"-Dhdfs.minidfs.basedir={folder / 'data'}"],
            cwd=folder,
            stdout=log,
            stderr=log,
        )  # fmt: skip
    try:
        uri = f"hdfs://127.0.0.1:{port}"
        _await_files(uri, server, folder / "log")
        yield HdfsServer(uri=uri, process=server)
    finally:
        server.kill()  # a test may have stopped it
        server.wait(timeout=180)


@contextmanager
def silent(server: HdfsServer) -> Iterator[None]:
    """Stops the servers: connections open, and nothing answers.

    A thread that runs goes on until the one that took the signal had its turn on a busy machine.
    """
    server.process.send_signal(signal.SIGSTOP)
    try:
        threads = Path(f"/proc/{server.process.pid}/task")
        while any(_state(thread) != "T" for thread in threads.iterdir()):
            time.sleep(0.01)
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


def _state(thread: Path) -> str:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]


def _await_files(uri: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Waits until a file can be written, which needs both servers."""
    client = hdfs_native.Client(uri, {"dfs.client.failover.max.attempts": "0"})
    options = hdfs_native.WriteOptions(overwrite=True)
    ends_s = time.monotonic() + _START_S
    while True:
        try:
            with client.create("/.ready", options) as file:
                file.write(b"x")
        except (OSError, RuntimeError):
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < ends_s, log.read_text()
            time.sleep(0.2)
        else:
            client.delete("/.ready")
            return
