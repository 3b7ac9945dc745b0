"""Ends an analysis whose tasks no executor will take, instead of waiting with them forever.

A standalone master starts a new executor for each that dies, without an end, if they get as far as
to register with the driver: one that can't unpack its archive does. And if the last worker goes, or
a Connect server has none, Spark waits for another one without a word.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, cast

from pyspark import SparkContext
from pyspark.sql import SparkSession

from zonequake_analysis.errors import SessionError
from zonequake_analysis.pods.executors import (
    is_kubernetes,
    why_none_came,
    why_none_will_come,
    why_one_is_barred,
)
from zonequake_analysis.spark_pass.placement import REACH_S, REGISTER_S, executors_of
from zonequake_analysis.spark_pass.settings import runs_locally

if TYPE_CHECKING:
    from pyspark.sql.connect.shell.progress import ProgressHandler

MOST_DEATHS = 8
"""So many executors may die before any has finished a task."""
_POLL_S = 1.0
_AGAIN = "then analyze the run again"


class Waited:
    """The time for which tasks have waited without an executor, by looks at both."""

    def __init__(self) -> None:
        self._since_s: float | None = None

    def look(self, now_s: float, *, waits: bool) -> float:
        """Returns for how long they wait by now; 0 if they don't."""
        if not waits:
            self._since_s = None
            return 0.0
        if self._since_s is None:
            self._since_s = now_s
        return now_s - self._since_s


class Watched(Protocol):
    """A place of Spark that may have no executor."""

    def why(self, now_s: float) -> str | None:
        """Returns what to tell if the tasks wait in vain; None while it may still go well."""

    def cancel(self) -> None:
        """Ends the jobs that run now."""

    def forget(self) -> None:
        """Ends the watch."""


class OfContext:
    """The executors of this process's own application."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._waited = Waited()

    def why(self, now_s: float) -> str | None:
        """Returns why they only die, or why none is left."""
        context = self._context
        executors = [each for each in executors_of(context) if each.id() != "driver"]
        waits = not any(each.isActive() for each in executors) and bool(
            context.statusTracker().getActiveStageIds()
        )
        waited_s = self._waited.look(now_s, waits=waits)
        return why_they_die(context, executors) or why_none_is_left(context, executors, waited_s)

    def cancel(self) -> None:
        """Cancels all jobs."""
        self._context.cancelAllJobs()

    def forget(self) -> None:
        """Does nothing: nothing was registered."""


class OfServer:
    """The tasks of a Spark Connect server, which shows no executors, but how far its stages are."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._waited = Waited()
        self._running: dict[str | None, tuple[int, int, int]] = {}
        self._handler = cast("ProgressHandler", self._progress)
        spark.registerProgressHandler(self._handler)

    def _progress(
        self,
        stages: Iterable[Any] | None,
        inflight_tasks: int,
        operation_id: str | None,
        done: bool,
    ) -> None:
        if done:
            self._running.pop(operation_id, None)
            return
        known = [stage for stage in stages or () if not stage.done]
        self._running[operation_id] = (
            inflight_tasks,
            sum(stage.num_completed_tasks for stage in known),
            sum(stage.num_tasks for stage in known),
        )

    def why(self, now_s: float) -> str | None:
        """Returns that no task runs, though some wait."""
        found = list(self._running.values())
        running = sum(running for running, _, _ in found)
        done, total = sum(done for _, done, _ in found), sum(total for _, _, total in found)
        waited_s = self._waited.look(now_s, waits=not running and done < total)
        if waited_s < REACH_S:
            return None
        return (
            f"the Spark Connect server has run none of the tasks that wait for {waited_s:.0f} s "
            f"({done} of {total} are done); it has no executor, or other work keeps all of them "
            f"busy: look at the workers of its cluster, {_AGAIN}"
        )

    def cancel(self) -> None:
        """Interrupts all operations of this session."""
        self._spark.interruptAll()

    def forget(self) -> None:
        """Takes no more progress."""
        self._spark.removeProgressHandler(self._handler)


@contextmanager
def ended_if_executors_die(spark: SparkSession) -> Iterator[None]:
    """Cancels the jobs inside if tasks wait, and no executor will take them.

    That is if MOST_DEATHS executors died and none ever finished a task, or none was there for
    REACH_S. Raises SessionError then. Does nothing on a local master.
    """
    if runs_locally(spark):
        yield
        return
    context = getattr(spark, "_sc", None)
    watched: Watched = OfServer(spark) if context is None else OfContext(context)
    ended = threading.Event()
    told: list[str] = []

    def watch() -> None:
        while not ended.wait(_POLL_S):
            why = watched.why(time.monotonic())
            if why is not None:
                told[:] = [why]
            if told:
                watched.cancel()  # again and again: the next one may begin just now

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
        watched.forget()


def why_they_die(context: SparkContext, executors: list[Any]) -> str | None:
    """Returns what to tell if executors only die; None while it may still go well."""
    dead = [each for each in executors if not each.isActive()]
    if len(dead) < MOST_DEATHS or any(each.completedTasks() for each in executors):
        return None
    hint = (
        "a pod that is out of memory needs more of it (spark.executor.memoryOverhead)"
        if is_kubernetes(str(context.master))
        else "their own words are in `stderr` below the worker's folder work/app-…. An archive "
        "needs 600 MB in Java's temporary folder (java.io.tmpdir)"
    )
    return (
        f"{len(dead)} executors of {context.master} died before any of them finished a task (the "
        f"last one: {_last_words(dead)}); {hint}"
    )


def why_none_is_left(context: SparkContext, executors: list[Any], waited_s: float) -> str | None:
    """Returns what to tell if tasks have waited so long without an executor; else None.

    A pod that has started may take longer to register.
    """
    if waited_s < REACH_S:
        return None
    cause, master = None, str(context.master)
    if is_kubernetes(master):
        cause = why_none_will_come(context) or why_one_is_barred(context) or why_none_came(context)
        if cause is None and waited_s < REGISTER_S:
            return None
    cause = cause or "its workers or their machines are gone, as a rule"
    return (
        f"no executor of {master} was there for {waited_s:.0f} s while tasks waited ("
        f"{len(executors)} had been; Spark says of the last one: {_last_words(executors)}); "
        f"{cause}: bring one back, {_AGAIN}"
    )


def _last_words(ended: list[Any]) -> str:
    """Returns Spark's reason for the end of the last executor."""
    reason = ended[-1].removeReason() if ended else None
    if reason is None or not reason.isDefined():
        return "no reason is known"
    return " ".join(reason.get().split())[:200]
