"""The only place that builds a SparkSession: a laptop, `spark-submit`, a master, or Spark Connect.

Only what is unset is set, so that `spark-submit --conf` and a cluster's own defaults win. JVM flags
depend on the amount of data: a small analysis spends its time on compiling, so it does without
generated code and the optimizing compiler; a large one would be slowed down by that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from enum import StrEnum

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from zonequake_analysis.errors import SessionError

SMALL_BYTES = 128 * 1024 * 1024
"""Up to this much history the start of the JVM and of its compilers outweighs the work."""

_PORTABLE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.adaptive.enabled": "false",  # the layout is chosen at ingest; statistics add jobs
    "spark.sql.requireAllClusterKeysForCoPartition": "false",  # bucketed by partition is enough
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
    "spark.sql.legacy.bucketedTableScan.outputOrdering": "true",  # one sorted file per bucket
    "spark.sql.parquet.compression.codec": "lz4_raw",
    "spark.sql.files.maxPartitionBytes": "64m",
}
_STATIC = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
}


class Size(StrEnum):
    """The amount of data that the session is tuned for."""

    SMALL = "small"
    LARGE = "large"


_BY_SIZE = {
    Size.SMALL: {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    },
    Size.LARGE: {
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    },
}


def size_of(history_bytes: int) -> Size:
    """Returns the size to tune for, by the size of the history files in bytes."""
    return Size.SMALL if history_bytes <= SMALL_BYTES else Size.LARGE


def build_session(
    *,
    size: Size,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session at `master` (default `local[*]`), or through Spark Connect at `remote`.

    `settings` come before the defaults of this module. Under `spark-submit` the master is already
    set and stays. Raises SessionError.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName("zonequake analyze")
    try:
        if remote is not None:
            session = builder.remote(remote).getOrCreate()
            for name, value in _PORTABLE.items():
                session.conf.set(name, value)
            return session
        from pyspark import SparkConf

        given = SparkConf()
        if master is not None:
            builder = builder.master(master)
        elif not given.contains("spark.master"):
            builder = builder.master("local[*]")
        cores = os.cpu_count() or 2
        defaults = {
            **_PORTABLE,
            **_STATIC,
            **_BY_SIZE[size],
            "spark.sql.shuffle.partitions": str(2 if size is Size.SMALL else 4 * cores),
            **(settings or {}),
        }
        for name, value in defaults.items():
            if not given.contains(name):
                builder = builder.config(name, value)
        return builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        raise SessionError(
            f"Spark did not start ({error}); Java 17 is expected on PATH or in JAVA_HOME"
        ) from error
