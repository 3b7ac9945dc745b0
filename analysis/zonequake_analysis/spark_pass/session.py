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

from zonequake_analysis.cluster.connect_url import connect_server, without_options
from zonequake_analysis.cluster.masters import check_master
from zonequake_analysis.cluster.options import check_own_address, check_together
from zonequake_analysis.cluster.registration import ended_if_not_taken
from zonequake_analysis.errors import SessionError
from zonequake_analysis.executors.manifest import ENVIRONMENT, PYTHON, check_given
from zonequake_analysis.jvm import local_jvm
from zonequake_analysis.spark_pass.class_archive import ArchivedRun
from zonequake_analysis.spark_pass.placement import check_placement, check_reachable, check_server
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
    check_together(master, remote, driver_host, archives)
    if master is not None:
        check_master(master)
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
        with executors_python(archives), ended_if_not_taken(wanted):
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


def _first_line(error: BaseException) -> str:
    """Returns the first line of Java's message; its stack is no text for people."""
    told = getattr(error, "java_exception", None)
    return str(told if told is not None else error).strip().partition("\n")[0]
