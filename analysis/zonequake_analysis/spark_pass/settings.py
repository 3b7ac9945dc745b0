"""The settings of a session by the amount of data, before anything of Spark is imported.

JVM flags depend on the amount of data: a small analysis spends its time on compiling, so it does
without generated code, which would slow down a large one. The optimizing compiler costs either more
than it saves, as Python does most of the work.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING

from zonequake_analysis.jvm.java_command import is_known
from zonequake_analysis.spark_pass.class_archive import ArchivedRun, archive_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
"""The default master."""

APPLICATION = "zonequake analyze"

SMALL_BYTES = 128 * 1024 * 1024
"""Up to this much history, the start of the JVM and of its compilers takes longer than the work."""

PORTABLE = {
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
    "spark.shuffle.compress": "false",  # operations are compressed, and hashes can't be
    # Else each step of a query tells the JVM its line of Python, in five calls.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
DRIVER_HOST, BIND_ADDRESS = "spark.driver.host", "spark.driver.bindAddress"
_ON_ONE_MACHINE = {
    DRIVER_HOST: "127.0.0.1",
    BIND_ADDRESS: "127.0.0.1",
}
"""Only for local masters: executors on another machine could not connect to it."""


class Size(StrEnum):
    """The amount of data that the session is tuned for."""

    SMALL = "small"
    LARGE = "large"


MEMORY = "spark.driver.memory"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_BY_SIZE = {
    Size.SMALL: {
        MEMORY: "1g",
        JAVA_OPTIONS: "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    },
    Size.LARGE: {
        MEMORY: "2g",
        JAVA_OPTIONS: "-XX:+UseParallelGC -XX:TieredStopAtLevel=1",
    },
}


def size_of(history_bytes: int) -> Size:
    """Returns the size to tune for, by that of the histories.

    Metrics don't count, however many: all of their work is Python's, in tasks of a bounded size.
    """
    return Size.SMALL if history_bytes <= SMALL_BYTES else Size.LARGE


def is_local(master: str) -> bool:
    """Returns whether this master runs all tasks in the driver's own process."""
    return master.partition("[")[0] == "local"  # `local-cluster[…]` starts executors


def runs_locally(spark: SparkSession) -> bool:
    """Returns whether a session runs all tasks in this process's JVM, so that no executor can be
    lost; not if it goes through Spark Connect, whose server is another process.
    """
    context = getattr(spark, "_sc", None)
    return context is not None and is_local(context.master)


def defaults(size: Size, master: str, recorded: ArchivedRun | None) -> dict[str, str]:
    """Returns what a session at this master sets where no other source has.

    `recorded`: the kind of run whose classes the JVM may write into an archive, if there is none.
    """
    by_size = _BY_SIZE[size]
    cores = os.cpu_count() or 2
    local = _ON_ONE_MACHINE if is_local(master) else {}
    # A driver on a cluster is a pod for one analysis: no later session would read its archive.
    archive = archive_options(recorded, own_command=is_known()) if local else archive_options(None)
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return {
        **PORTABLE,
        **_STATIC,
        **local,
        **by_size,
        JAVA_OPTIONS: f"{by_size[JAVA_OPTIONS]} {archive}".strip(),
        "spark.sql.shuffle.partitions": str(2 if size is Size.SMALL else 4 * cores),
    }
