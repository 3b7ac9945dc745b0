"""A run's metrics from a live Prometheus: Spark's tasks read them, and write the run's files.

    history ──▶ its time ──▶ slices of metrics × time ──a task each──▶ metrics/from_prometheus/…
                                                     all written ──▶ metrics/from_prometheus.json

The slices are those of the data source `prometheus`. Plain tasks read them: Spark would plan such a
source on the driver, by the Python of executors, which an archive brings only to them. From then on
the run has metrics of its own, and no analysis needs the server again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
from pyspark.sql import SparkSession

from zonequake_analysis.errors import MetricsThere, PrometheusError
from zonequake_analysis.inputs.prometheus.live_server import LiveServer
from zonequake_analysis.inputs.prometheus.matchers import matchers_in
from zonequake_analysis.inputs.prometheus.remote_read import (
    PULLED_SAMPLES,
    SCHEMA,
    http_post,
    read,
    rows_of_file,
)
from zonequake_analysis.inputs.prometheus.sample_files import (
    METRICS,
    READ_FILE,
    READ_FOLDER,
    LiveRead,
    metric_files,
    utc,
)
from zonequake_analysis.inputs.prometheus.scrape_interval import measured_slices
from zonequake_analysis.inputs.prometheus.slices import Slice
from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.metrics.stored_tables import Part
from zonequake_analysis.spark_pass.in_tasks import Made, in_tasks
from zonequake_analysis.storage.causes import told_by_worker
from zonequake_analysis.storage.location import Location

AROUND_NS = 5 * 60 * 1_000_000_000
"""Time before and after a history: some scrapes of a minute each, so that counters are seen before
the first operation and after the last one."""

_FIRST_NS, _LAST_NS = 1_000_000_000_000_000_000, 4_000_000_000_000_000_000
"""The years 2001 and 2096: a time outside is no time of day."""

_CHECK_S = 10.0
_ANSWER_S = 300.0
"""Longest time for an answer: a server reads a few requests at once, and the others wait there."""

_NO_METRIC = "zonequake_asks_whether_remote_read_is_served"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOfRun:
    """The time that samples are read of: start_ms ≤ t < end_ms, unix ms."""

    start_ms: int
    end_ms: int


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The request that tasks divide into slices of about `samples` samples."""

    url: str
    matchers: tuple[str, ...]
    start_ms: int
    end_ms: int
    samples: int


class _File(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a task wrote."""

    name: str
    samples: int


def check_no_metrics(run: Location) -> None:
    """Raises MetricsThere for a run that has metrics, SamplesError, LocationError."""
    if files := metric_files(run):
        raise MetricsThere(
            f"found --prometheus for a run that has metrics, such as {files[0]}; expected a run "
            "without: leave the option out, or delete the folder metrics/ of the run to read them "
            "again"
        )


def check_serves(server: LiveServer) -> None:
    """Asks the server for no sample. Raises PrometheusError if it serves no remote_read, or none
    from here.
    """
    nothing = Slice(metrics=(_NO_METRIC,), start_ms=0, end_ms=1)
    for _ in read(http_post(server.url, timeout_s=_CHECK_S), nothing, []):
        pass


def time_of_run(
    *,
    start_ns: int,
    end_ns: int,
    wall_offset_ns: int,
    clocks: Sequence[str],
    events: Sequence[RecordedEvent],
) -> TimeOfRun:
    """Returns the time of a history, and some before and after it.

    A run of the harness says by its events when it began and ended: beyond that, the load of other
    runs would be counted. `clocks`: those of the history. Raises PrometheusError if the history
    doesn't say what time it was.
    """
    if len(clocks) > 1:
        shown = " and ".join(name or "none" for name in clocks)
        raise PrometheusError(
            f"found times of several clocks in the history, such as {shown}; "
            "expected one: which samples of Prometheus are of its time isn't known"
        )
    first_ns, last_ns = start_ns - AROUND_NS, end_ns + AROUND_NS
    if any(event.kind == "run.phase" for event in events):
        times = [event.time for event in events]
        first_ns = max(first_ns, min(start_ns, *times))
        last_ns = min(last_ns, max(end_ns, *times))
    if not _FIRST_NS <= start_ns + wall_offset_ns <= end_ns + wall_offset_ns <= _LAST_NS:
        raise PrometheusError(
            "found no time of day in the history, expected `wall` in its lines, unix ns: which "
            "samples of Prometheus are of its time isn't known. Import another tool's history "
            "again with --began TIME, or analyze without --prometheus"
        )
    return TimeOfRun(
        start_ms=(first_ns + wall_offset_ns) // 1_000_000,
        end_ms=(last_ns + wall_offset_ns) // 1_000_000 + 1,
    )


def read_live(
    spark: SparkSession,
    run: Location,
    server: LiveServer,
    time: TimeOfRun,
    *,
    check: Callable[[str], None],
    samples: int = PULLED_SAMPLES,
) -> LiveRead:
    """Has tasks write the samples of that time into the run's `metrics/`, and returns what they
    read. `check` is called with words for it before it counts as the run's, and may end it.
    `samples`: about as many in a task.

    Raises PrometheusError if the server refuses, or has no such sample; LocationError.
    """
    folder = run.resolve() / METRICS / READ_FOLDER
    folder.empty_folder()  # of a read that broke off
    asked = _Asked(
        url=server.url,
        matchers=tuple(matchers_in(server.match)),
        start_ms=time.start_ms,
        end_ms=time.end_ms,
        samples=samples,
    )
    files = []
    try:
        # Listed by a task, too: executors reach the server, and this process perhaps doesn't.
        for listed in in_tasks(spark, partial(_list, asked), _joined, tasks=1, buckets=1):
            cut = msgspec.msgpack.decode(listed, type=list[Slice])
            work = partial(_write, asked, cut, folder, secrets.token_hex(4))
            made = in_tasks(spark, work, _joined, tasks=len(cut), buckets=1) if cut else []
            files += [
                one for part in made for one in msgspec.msgpack.decode(part, type=list[_File])
            ]
    except Exception as error:
        if (told := told_by_worker(str(error), PrometheusError)) is None:
            raise
        raise PrometheusError(told) from error
    if not files:
        matching = f" that matches {server.match}" if server.match else ""
        raise PrometheusError(
            f"{server.url}: found no sample{matching} from {utc(time.start_ms)} to "
            f"{utc(time.end_ms)} UTC, expected those of the history's time: is it the server that "
            "scraped the system then, does it keep samples for so long, and is --prometheus-match "
            "right?"
        )
    found = LiveRead(
        url=server.url,
        match=server.match,
        start_ms=time.start_ms,
        end_ms=time.end_ms,
        samples=sum(one.samples for one in files),
        files=tuple(sorted(one.name for one in files)),
    )
    check(f"{found.samples:,} samples {found.words}")
    (run / METRICS / READ_FILE).write(msgspec.json.format(msgspec.json.encode(found)))
    return found


def _list(asked: _Asked, _number: int) -> Made:
    """Yields the slices that tasks are to read."""
    cut = measured_slices(
        http_post(asked.url, _ANSWER_S),
        asked.start_ms,
        asked.end_ms,
        asked.matchers,
        samples=asked.samples,
    )
    yield 0, msgspec.msgpack.encode(cut)


def _write(asked: _Asked, cut: Sequence[Slice], folder: Location, name: str, number: int) -> Made:
    """Writes the samples of a slice as a file, if there are any; yields what it wrote."""
    part = Part(SCHEMA)
    for found in read(http_post(asked.url, _ANSWER_S), cut[number], asked.matchers):
        part.add(rows_of_file(found))
    if part.rows:
        file = f"{name}-{number:05d}.parquet"
        folder.make_folder()  # an object store has no folders
        (folder / file).write(part.content())
        yield 0, msgspec.msgpack.encode([_File(name=file, samples=part.rows)])


def _joined(_bucket: int, made: list[bytes]) -> bytes:
    """Returns lists, one after the other, as one."""
    return msgspec.msgpack.encode([one for part in made for one in msgspec.msgpack.decode(part)])
