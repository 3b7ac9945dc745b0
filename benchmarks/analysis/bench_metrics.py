"""A day of metrics, as a demo's store makes them, from Parquet to what moved: time and peak memory.

    python -m benchmarks.analysis.bench_metrics --hours 24 --folder /tmp/bench-metrics

390 series, one sample a second: 1.4 million samples an hour. Five data nodes with counters, gauges
of 16 partitions and the histogram of their commits; an operator; two load pods. A fault an hour,
each with a window: nodes lag, errors begin, catch-up sends bytes, and a target is not scraped for
half a minute.

Measured is a process of its own from its cold start on: the tables `metrics` and `metric_series`,
what moved in the faults and windows (`metric_changes`), gaps, counters, alerts. Peak memory is
that of the driver's JVM, where the tasks of `local[2]` run too, and of Python together, sampled
from /proc. The JVM has the settings of `zonequake analyze`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.analysis.engines import cost_of
from zonequake_analysis.inputs.prometheus.remote_read import FILE, LABELS, SCHEMA, series_id
from zonequake_analysis.inputs.prometheus.sample_files import metric_files
from zonequake_analysis.measures.availability.fault_times import Repetition
from zonequake_analysis.measures.availability.windows import Unavailability
from zonequake_analysis.measures.rebalances import FaultLanding
from zonequake_analysis.metrics.metric_facts import metric_facts
from zonequake_analysis.spark_pass.session import build_session
from zonequake_analysis.spark_pass.settings import size_of

START_MS = 1_700_000_000_000 // 3_600_000 * 3_600_000
HOUR_S = 3600
FAULT_S, FAULT_LENGTH_S = 1800, 30
"""Second of each hour at which its fault begins, and how long it lasts."""

ROW_GROUP_S = 600
LIMIT_GIB = 1.0
"""For a day (docs/performance.md)."""

_BUCKETS = ("0.0001", "0.001", "0.005", "0.01", "0.025", "0.1", "0.5", "2.0", "+Inf")
_COUNTERS = (
    "zonequake_store_client_requests_total",
    "zonequake_store_turns_total",
    "zonequake_store_entries_applied_total",
    "zonequake_store_cpu_seconds_total",
    "zonequake_store_catch_up_bytes_total",
)
_GAUGES = ("zonequake_store_loop_lag_seconds", "zonequake_store_data_used_bytes")
_OF_REPLICAS = ("commit_index", "term", "catch_up_sent_bytes")

Floats = NDArray[np.float64]
Made = NDArray[np.floating[Any]]


def series() -> Iterator[tuple[str, dict[str, str]]]:
    """Metric and labels of each series."""
    for number in range(5):
        node = {"pod": f"zq-default-{number}", "instance": f"zq-default-{number}:8080"}
        yield "up", node
        for metric in (*_COUNTERS, *_GAUGES):
            yield metric, node
        for environment in ("log", "data"):
            for le in _BUCKETS:
                labels = node | {"environment": environment, "le": le}
                yield "zonequake_store_commit_seconds_bucket", labels
        for metric in _OF_REPLICAS:
            for partition in range(16):
                labels = node | {"zone": "z1", "partition": str(partition)}
                yield f"zonequake_store_{metric}", labels
    for number in range(2):
        load = {"instance": f"load-{number}:8080"}
        for f in ("read", "write", "cas"):
            for outcome in ("ok", "fail", "info"):
                labels = load | {"role": "load", "f": f, "outcome": outcome}
                yield "zonequake_load_operations_total", labels
    yield "zonequake_operator_resets_total", {"instance": "operator:8080", "zone": "z1"}
    yield "zonequake_operator_data_lost_total", {"instance": "operator:8080", "zone": "z1"}


def values(metric: str, labels: dict[str, str], seconds: NDArray[np.int64], seed: int) -> Floats:
    """The values of a series at these seconds since the day began."""
    return np.asarray(_values(metric, labels, seconds, seed), np.float64)


def _values(metric: str, labels: dict[str, str], seconds: NDArray[np.int64], seed: int) -> Made:
    rng = np.random.default_rng([seed, int(seconds[0])])
    within = seconds % HOUR_S - FAULT_S
    fault = (within >= 0) & (within < FAULT_LENGTH_S)
    # Seconds of faults so far, at each second: what accumulates in them.
    faulty = seconds // HOUR_S * FAULT_LENGTH_S + np.clip(within, 0, FAULT_LENGTH_S)
    if metric == "zonequake_store_commit_seconds_bucket":
        share = min(1.0, _BUCKETS.index(labels["le"]) / 4)
        return np.floor(10.0 * (seconds * share - faulty * (share if share < 1 else 0)))
    if metric == "zonequake_store_catch_up_bytes_total":
        return faulty * 1e6
    if metric.endswith("_total"):
        if labels.get("outcome") == "info":
            return faulty * 3.0
        if labels.get("zone") or labels.get("outcome") == "fail":
            return np.zeros(len(seconds))
        return np.floor(100.0 * seconds - 60 * faulty + rng.random(len(seconds)) * 5)
    if metric.endswith("catch_up_sent_bytes"):
        return np.where(fault, 1e6 * rng.random(len(seconds)), 0.0)
    if metric.endswith("commit_index"):
        return np.asarray(np.floor(6.0 * seconds), np.float64)
    if metric.endswith("lag_seconds"):
        lag = np.where(fault, 0.4, 0.002)
        return np.multiply(lag, 1 + rng.random(len(seconds)))
    if metric.endswith("used_bytes"):
        return 1e8 + 100.0 * seconds
    return np.ones(len(seconds))


def write_day(run: Path, hours: int) -> int:
    """Writes the samples as `pull` writes them, by time; returns their number."""
    (run / "metrics").mkdir(parents=True)
    every = list(series())
    ids = [series_id((("__name__", metric), *labels.items())) for metric, labels in every]
    samples = 0
    with pq.ParquetWriter(run / "metrics" / FILE, SCHEMA, compression="zstd") as writer:
        for first in range(0, hours * HOUR_S, ROW_GROUP_S):
            seconds = np.arange(first, first + ROW_GROUP_S)
            within = seconds % HOUR_S - FAULT_S
            silent = (within >= 0) & (within < FAULT_LENGTH_S)
            kept = [
                seconds[~silent] if labels.get("pod") == "zq-default-1" else seconds
                for _, labels in every
            ]
            rows = pa.array(np.repeat(np.arange(len(every)), [len(one) for one in kept]))
            value = np.concatenate(
                [
                    values(metric, labels, at, number)
                    for number, ((metric, labels), at) in enumerate(zip(every, kept, strict=True))
                ]
            )
            columns = [
                pa.array([metric for metric, _ in every]).take(rows),
                pa.array([sorted(labels.items()) for _, labels in every], LABELS).take(rows),
                pa.array(ids, pa.int64()).take(rows),
                pa.array(START_MS + np.concatenate(kept) * 1000),
                pa.array(value),
                pa.array(np.zeros(len(value), bool)),
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=SCHEMA))
            samples += len(value)
    return samples


def faults(hours: int) -> list[FaultLanding]:
    """One an hour."""
    return [
        FaultLanding(
            name=f"kill-{hour}",
            times=1,
            effective=1,
            type="pod_kill",
            targets=(node := ("zq-default-1",)),
            start_ns=(begin := (hour * HOUR_S + FAULT_S) * 10**9),
            effective_ns=begin,
            stop_ns=None,
            recovered_ns=(over := begin + FAULT_LENGTH_S * 10**9),
            over_ns=over,
            each=(Repetition(start_ns=begin, over_ns=over, targets=node),),
            asked="",
            landed="",
            progress=None,
            partition=None,
            missed="",
        )
        for hour in range(hours)
    ]


def windows(hours: int) -> list[Unavailability]:
    """One in each fault."""
    return [
        Unavailability(
            zone="z1",
            partition=hour % 16,
            function="write",
            start_ns=(begin := (hour * HOUR_S + FAULT_S) * 10**9),
            end_ns=begin + 500_000_000,
            certain_ns=400_000_000 + hour,
            proven_ns=0,
            failed=4,
            vantages=("load-0",),
            total=True,
            causes=(),
        )
        for hour in range(hours)
    ]


def look(run: Path, hours: int) -> None:
    """The measured process: says what it found, in one line."""
    began = time.monotonic()
    spark = build_session(size=size_of(0), master="local[2]")
    facts = metric_facts(
        spark,
        run,
        faults=faults(hours),
        windows=windows(hours),
        events=[],
        start_ns=0,
        end_ns=hours * HOUR_S * 10**9,
        wall_offset_ns=START_MS * 1_000_000,
    )
    assert facts is not None
    assert facts.targets is not None, facts.problem
    assert facts.spans is not None
    found = {
        "seconds_in_process": round(time.monotonic() - began, 1),
        "spans": len(facts.spans.spans),
        "moved": len(facts.moved),
        "gaps": len(facts.targets.gaps),
        "problem": facts.problem,
    }
    print(json.dumps(found), flush=True)


def main() -> None:
    """Generates the day if it isn't there, and prints what looking at it costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/zonequake-bench-metrics"))
    parser.add_argument("--only", action="store_true", help="be the measured process")
    arguments = parser.parse_args()
    run: Path = arguments.folder
    if arguments.only:
        look(run, arguments.hours)
        return
    if not metric_files(run):
        samples = write_day(run, arguments.hours)
        print(json.dumps({"samples": samples}), flush=True)
    size = sum(file.size_bytes() for file in metric_files(run))
    cost = cost_of(
        [
            sys.executable,
            "-m",
            "benchmarks.analysis.bench_metrics",
            "--only",
            f"--hours={arguments.hours}",
            f"--folder={run}",
        ]
    )
    print(cost.output.decode(), end="")
    print(
        json.dumps(
            {
                "hours": arguments.hours,
                "bytes": size,
                "exit_code": cost.exit_code,
                "seconds": round(cost.seconds, 1),
                "cpu_seconds": round(cost.cpu_seconds, 1),
                "peak_gib": round(cost.peak_gib, 2),
                "limit_gib": LIMIT_GIB,
                "load_average": os.getloadavg(),
            }
        )
    )


if __name__ == "__main__":
    main()
