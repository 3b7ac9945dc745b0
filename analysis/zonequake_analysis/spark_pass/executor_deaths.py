"""Ends an analysis whose executors die one after another, instead of waiting with them forever.

A standalone master starts a new executor for each that dies, without an end, if they get as far as
to register with the driver: one that can't unpack its archive does. Their tasks wait meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext
from pyspark.sql import SparkSession

from zonequake_analysis.errors import SessionError
from zonequake_analysis.pods.executors import is_kubernetes
from zonequake_analysis.spark_pass.placement import executors_of
from zonequake_analysis.spark_pass.settings import is_local

MOST_DEATHS = 8
"""So many executors may die before any has finished a task."""
_POLL_S = 1.0


@contextmanager
def ended_if_executors_die(spark: SparkSession) -> Iterator[None]:
    """Cancels the jobs inside if MOST_DEATHS executors died and none ever finished a task.

    Raises SessionError then. Does nothing on a local master, and through Spark Connect, which
    shows no executors.
    """
    context = getattr(spark, "_sc", None)
    if context is None or is_local(context.master):
        yield
        return
    ended = threading.Event()
    told: list[str] = []

    def watch() -> None:
        while not ended.wait(_POLL_S):
            why = why_they_die(context)
            if why is not None:
                told[:] = [why]
                context.cancelAllJobs()  # again and again: the next one may begin just now

    watcher = threading.Thread(target=watch, name="executor-deaths", daemon=True)
    watcher.start()
    try:
        yield
    except Exception as error:
        if told:
            raise SessionError(told[0]) from error
        raise
    finally:
        ended.set()
        watcher.join()


def why_they_die(context: SparkContext) -> str | None:
    """Returns what to tell if executors only die; None while it may still go well."""
    executors = [each for each in executors_of(context) if each.id() != "driver"]
    dead = [each for each in executors if not each.isActive()]
    if len(dead) < MOST_DEATHS or any(each.completedTasks() for each in executors):
        return None
    reason = dead[-1].removeReason()
    said = " ".join(reason.get().split())[:200] if reason.isDefined() else "no reason is known"
    hint = (
        "a pod that is out of memory needs more of it (spark.executor.memoryOverhead)"
        if is_kubernetes(str(context.master))
        else "their own words are in `stderr` below the worker's folder work/app-…. An archive "
        "needs 600 MB in Java's temporary folder (java.io.tmpdir)"
    )
    return (
        f"{len(dead)} executors of {context.master} died before any of them finished a task (the "
        f"last one: {said}); {hint}"
    )
