"""The only place that builds a SparkSession: a laptop, `spark-submit`, a master, or Spark Connect.

Only unset options are set, so that `spark-submit --conf` and a cluster's own defaults win. JVM
flags depend on the amount of data: a small analysis spends its time on compiling, so it does
without generated code, which would slow down a large one. The optimizing compiler costs either more
than it saves, as Python does most of the work.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from zonequake_analysis.errors import SessionError
from zonequake_analysis.executors.manifest import ENVIRONMENT, PYTHON, check_fits, check_given
from zonequake_analysis.spark_pass.class_archive import ArchivedRun, archive_options
from zonequake_analysis.spark_pass.placement import (
    check_placement,
    check_reachable,
    check_server,
    is_local,
)

LOCAL = "local[*]"
"""The default master."""

SMALL_BYTES = 128 * 1024 * 1024
"""Up to this much history, the start of the JVM and of its compilers takes longer than the work."""

_PORTABLE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.adaptive.enabled": "false",  # the layout is chosen at ingest; statistics add jobs
    "spark.sql.requireAllClusterKeysForCoPartition": "false",  # bucketed by partition is enough
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
    "spark.sql.legacy.bucketedTableScan.outputOrdering": "true",  # one sorted file per bucket
    # Not LZ4: Parquet's reader fails when it filters by a dictionary page of more than some KiB.
    "spark.sql.parquet.compression.codec": "snappy",
    "spark.sql.files.maxPartitionBytes": "64m",
}
_STATIC = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
_ON_ONE_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""Only for local masters: executors on another machine could not connect to it."""


class Size(StrEnum):
    """The amount of data that the session is tuned for."""

    SMALL = "small"
    LARGE = "large"


_JAVA = "spark.driver.extraJavaOptions"
_BY_SIZE = {
    Size.SMALL: {
        "spark.driver.memory": "1g",
        _JAVA: "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    },
    Size.LARGE: {
        "spark.driver.memory": "2g",
        _JAVA: "-XX:+UseParallelGC -XX:TieredStopAtLevel=1",
    },
}


def size_of(history_bytes: int, metrics_bytes: int = 0) -> Size:
    """Returns the size to tune for, by the sizes of the histories and of the metrics' files.

    A sample of metrics takes about 4 bytes, an operation's lines about 800, and the work is alike.
    """
    small = history_bytes <= SMALL_BYTES and metrics_bytes <= SMALL_BYTES // 16
    return Size.SMALL if small else Size.LARGE


def build_session(
    *,
    size: Size,
    master: str | None = None,
    remote: str | None = None,
    driver_host: str | None = None,
    archives: Path | None = None,
    settings: Mapping[str, str] | None = None,
    recorded: ArchivedRun | None = None,
) -> SparkSession:
    """Returns a session at `master` (default `local[*]`), or through Spark Connect at `remote`.

    `settings` come before the defaults of this module. Under `spark-submit` its `--master`,
    `--conf` and `spark-defaults.conf` win. `driver_host`: the address at which executors find this
    process; Spark's own choice if it is None and the master isn't local. `archives`: the file of
    `zonequake executor-archive` that executors of such a master take their Python from. `recorded`:
    the kind of run whose classes the JVM may write into an archive, if there is none.

    Raises:
        SessionError: Spark doesn't start, runs elsewhere than asked for, has no executor within
            REACH_S, or `archives` doesn't fit this process.
    """
    if archives is not None:
        _check_archives(archives, master, remote)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("zonequake analyze")
    try:
        if remote is not None:
            check_server(remote)
            session = builder.remote(remote).getOrCreate()
            for name, value in _PORTABLE.items():
                session.conf.set(name, value)
            return session
        given = _given()
        wanted = given.get("spark.master", None) or master or LOCAL
        if master is not None and wanted != master:
            raise SessionError(
                f"found --master {master} beside spark-submit's {wanted}, expected one of them"
            )
        check_given(given.get("spark.archives", "") or "")
        defaults = _defaults(size, wanted, recorded) | dict(settings or {})
        if archives is not None:
            defaults["spark.archives"] = f"{archives.resolve().as_uri()}#{ENVIRONMENT}"
        if driver_host is not None:
            defaults["spark.driver.host"] = driver_host
        check_reachable(wanted)
        builder = builder.master(wanted)
        for name, value in defaults.items():
            if not given.contains(name):
                builder = builder.config(name, value)
        with executors_python(archives):
            session = builder.getOrCreate()
    except SessionError:
        raise
    except Exception as error:  # an error of the JVM comes as its bridge's own error
        raise SessionError(
            f"Spark did not start ({_first_line(error)}); Java 17 is expected on PATH or in "
            "JAVA_HOME, and a master such as local[2] or spark://host:7077"
        ) from error
    check_placement(session, wanted)
    return session


def _given() -> SparkConf:
    """Returns the options of `spark-submit`, which only its JVM knows before there is a context."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()
    return SparkConf()


@contextmanager
def executors_python(archives: Path | None) -> Iterator[None]:
    """Names the archive's Python to the context that begins inside, and to no later one."""
    before = os.environ["PYSPARK_PYTHON"]
    if archives is not None:
        os.environ["PYSPARK_PYTHON"] = PYTHON
    try:
        yield
    finally:
        os.environ["PYSPARK_PYTHON"] = before


def _check_archives(archives: Path, master: str | None, remote: str | None) -> None:
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        raise SessionError(
            f"found archives={archives} under spark-submit, expected its own options: --archives "
            f"{archives}#{ENVIRONMENT} --conf spark.pyspark.python={PYTHON} "
            f"--conf spark.pyspark.driver.python={sys.executable}"
        )
    if remote is not None or is_local(master or LOCAL):
        raise SessionError(
            f"found --archives {archives} with {remote or master or LOCAL}, expected --master of a "
            "cluster: on a local master tasks run in this Python, and Spark Connect's server has "
            "its own"
        )
    check_fits(archives)


def _defaults(size: Size, master: str, recorded: ArchivedRun | None) -> dict[str, str]:
    by_size = _BY_SIZE[size]
    cores = os.cpu_count() or 2
    local = _ON_ONE_MACHINE if is_local(master) else {}
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return {
        **_PORTABLE,
        **_STATIC,
        **local,
        **by_size,
        # A driver on a cluster is a pod for one analysis: it would write the archive for nobody.
        _JAVA: f"{by_size[_JAVA]} {archive_options(recorded if local else None)}".strip(),
        "spark.sql.shuffle.partitions": str(2 if size is Size.SMALL else 4 * cores),
    }


def _first_line(error: BaseException) -> str:
    """Returns the first line of Java's message; its stack is no text for people."""
    told = getattr(error, "java_exception", None)
    return str(told if told is not None else error).strip().partition("\n")[0]
