"""The only place that builds a SparkSession: a laptop, `spark-submit`, a master, or Spark Connect.

Only unset options are set, so that `spark-submit --conf` and a cluster's own defaults win.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from zonequake_analysis.errors import SessionError
from zonequake_analysis.executors.manifest import ENVIRONMENT, PYTHON, check_fits, check_given
from zonequake_analysis.jvm import local_jvm
from zonequake_analysis.run_argument import SPARK_REMOTE
from zonequake_analysis.spark_pass.class_archive import ArchivedRun
from zonequake_analysis.spark_pass.placement import (
    check_own_address,
    check_placement,
    check_reachable,
    check_server,
    connect_server,
    without_options,
)
from zonequake_analysis.spark_pass.settings import (
    APPLICATION,
    BIND_ADDRESS,
    DRIVER_HOST,
    LOCAL,
    PORTABLE,
    Size,
    defaults,
    is_local,
)


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
    if remote is not None:
        connect_server(remote)
        for option, value in (("--master", master), ("--driver-host", driver_host)):
            if value is not None:
                raise SessionError(
                    f"found {option} beside --remote, expected one of them: a Spark Connect server "
                    "has a master and a driver of its own"
                )
    elif SPARK_REMOTE in os.environ:  # PySpark refuses it, in words that hold its token
        raise SessionError(
            f"found {SPARK_REMOTE} in the environment, expected no such variable here: only "
            "`zonequake analyze` without --master and --driver-host takes it"
        )
    if archives is not None:
        _check_archives(archives, master, remote)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if remote is not None:
        return _connected(remote)
    builder = SparkSession.builder.appName(APPLICATION)
    try:
        given = _given()
        wanted = given.get("spark.master", None) or master or LOCAL
        if master is not None and wanted != master:
            raise SessionError(
                f"found --master {without_options(master)} beside spark-submit's "
                f"{without_options(wanted)}, expected one of them"
            )
        check_given(given.get("spark.archives", "") or "")
        unset = defaults(size, wanted, recorded) | dict(settings or {})
        if archives is not None:
            unset["spark.archives"] = f"{archives.resolve().as_uri()}#{ENVIRONMENT}"
        if driver_host is not None:
            unset[DRIVER_HOST] = driver_host
        check_reachable(wanted, context=given.get("spark.kubernetes.context", None))
        host = given.get(DRIVER_HOST, None) or unset.get(DRIVER_HOST)
        if host is not None and BIND_ADDRESS not in unset and not given.contains(BIND_ADDRESS):
            check_own_address(host)
        builder = builder.master(wanted)
        if is_local(wanted):
            local_jvm.attach(local_jvm.options(wanted, unset))
        for name, value in unset.items():
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


def _connected(remote: str) -> SparkSession:
    """Returns a session of the server. Raises SessionError, without the options of its URL."""
    check_server(remote)
    try:
        session = SparkSession.builder.appName(APPLICATION).remote(remote).getOrCreate()
        for name, value in PORTABLE.items():
            session.conf.set(name, value)
    except Exception as error:  # noqa: BLE001 - of Spark's client, or of what it is built on
        told = _first_line(error)
        if any(value in told for value in connect_server(remote).values):
            told = f"{type(error).__name__}, in words that hold options of its URL"
        # Its cause has these words, too, and would be in a trace.
        raise SessionError(
            f"no session began at {without_options(remote)} ({told}); expected a Spark Connect "
            "server that takes the options of the URL, and no MASTER in the environment"
        ) from None
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
        where = without_options(remote or master or LOCAL)
        raise SessionError(
            f"found --archives {archives} with {where}, expected --master of a cluster: on a local "
            "master tasks run in this Python, and Spark Connect's server has its own"
        )
    check_fits(archives)


def _first_line(error: BaseException) -> str:
    """Returns the first line of Java's message; its stack is no text for people."""
    told = getattr(error, "java_exception", None)
    return str(told if told is not None else error).strip().partition("\n")[0]
