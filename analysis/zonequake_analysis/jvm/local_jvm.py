"""Starts the JVM of a local master while this process still imports its modules.

PySpark waits for two scripts and another JVM, which only put a command together. `begin` starts
that command, `attach` connects to what it started:

    begin ──▶ java … SparkSubmit … pyspark-shell ──▶ port and secret in a file ──▶ attach
      └── imports of Python, meanwhile

Where the command isn't known, PySpark starts its JVM.
"""

from __future__ import annotations

import atexit
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zonequake_analysis.errors import RunFolderError
from zonequake_analysis.inputs.completeness import RecordedRun
from zonequake_analysis.jvm.java_command import OF_LAUNCHER, command_of, installed_spark, is_known
from zonequake_analysis.spark_pass.class_archive import ArchivedRun
from zonequake_analysis.spark_pass.settings import (
    APPLICATION,
    JAVA_OPTIONS,
    LOCAL,
    MEMORY,
    defaults,
    is_local,
    size_of,
)

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]

_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
_START_S = 120.0
_POLL_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """A JVM that has been started. `file`: where it writes its port and its secret."""

    options: Mapping[str, str]
    process: subprocess.Popen[bytes]
    folder: tempfile.TemporaryDirectory[str]
    file: Path

    def end(self) -> None:
        """Ends it unused: it would go on to write into a folder that is gone."""
        self.process.kill()
        self.process.communicate()
        self.folder.cleanup()


_begun: _Begun | None = None


def begin(run: RecordedRun, *, master: str | None = None, reads_metrics: bool = False) -> None:
    """Starts the JVM that the analysis of a folder of this machine will need, if that is known.

    `reads_metrics`: the analysis will read them from a live server.

    None begins for a folder that can't be judged: the analysis says why.
    """
    global _begun
    master = master or LOCAL
    if _begun is not None or run.location.local is None or not is_local(master):
        return
    with suppress(OSError, RunFolderError):
        history_bytes, _ = run.histories.size_bytes, run.description
        if history_bytes:
            kind = ArchivedRun.of(has_metrics=reads_metrics or bool(run.metrics_bytes))
            size = size_of(history_bytes)
            _begun = _started(options(master, defaults(size, master, kind)))


def options(master: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Returns what Spark is told as it starts at this master."""
    return {"spark.master": master, "spark.app.name": APPLICATION, **settings}


def attach(wanted: Mapping[str, str]) -> None:
    """Gives PySpark the JVM that has begun with these options, else one that begins now.

    Does nothing if PySpark has a JVM, or where it has to start it by itself. Raises OSError.
    """
    global _begun
    begun, _begun = _begun, None
    if begun is not None and begun.options != wanted:
        begun.end()
        begun = None
    from pyspark import SparkContext

    if SparkContext._gateway is None and (begun := begun or _started(wanted)) is not None:
        # PySpark imports this, and pandas with it, at the first text for the JVM; now that waits.
        import pyspark.testing.utils  # noqa: F401

        SparkContext._ensure_initialized(gateway=_connected(begun))


def end() -> None:
    """Ends this process's JVM at once, used or not, without a word of what it did."""
    _end_unused()
    if "pyspark" in sys.modules:
        from pyspark import SparkContext

        process = getattr(SparkContext._gateway, "proc", None)
        if process is not None:
            process.kill()
            process.wait()


def _started(wanted: Mapping[str, str]) -> _Begun | None:
    if not is_known() or any(name in wanted for name in OF_LAUNCHER):
        return None
    home, _ = installed_spark()
    folder = tempfile.TemporaryDirectory(prefix="zonequake-jvm-")
    file = Path(folder.name) / "connection"
    process = subprocess.Popen(
        command_of(wanted, memory=wanted[MEMORY], java_options=wanted.get(JAVA_OPTIONS, "")),
        stdin=subprocess.PIPE,  # the JVM ends when it is closed: with this process
        env={
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_CONNECT_MODE": "0",
            "PYTHONHASHSEED": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(file),
        },
        preexec_fn=_ignore_ends,  # PySpark's ignores Ctrl-C: both are for this process
    )
    return _Begun(options=dict(wanted), process=process, folder=folder, file=file)


def _ignore_ends() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _connected(begun: _Begun) -> JavaGateway:
    """Waits until the JVM says where it listens. Raises OSError if it ended, or never says so."""
    from pyspark import java_gateway

    ends_s = time.monotonic() + _START_S
    while not begun.file.exists():
        if begun.process.poll() is not None or time.monotonic() > ends_s:
            begun.end()
            raise OSError(f"its JVM ended with code {begun.process.returncode}")
        time.sleep(_POLL_S)
    written = begun.file.read_bytes()
    begun.folder.cleanup()
    port, length = struct.unpack_from(">ii", written)
    secret = written[8 : 8 + length].decode()
    os.environ.update({_PORT: str(port), _SECRET: secret})  # where PySpark looks for a JVM
    try:
        gateway = java_gateway.launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name in (_PORT, _SECRET):
            del os.environ[name]
    gateway.proc = begun.process
    return gateway


def _end_unused() -> None:
    if _begun is not None:
        _begun.end()


atexit.register(_end_unused)
