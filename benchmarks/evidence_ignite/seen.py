"""Reads from a run's tables what a picture shows of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow.dataset as ds

from benchmarks.evidence_ignite.picture import Latency, Seen, Window
from zonequake_analysis.inputs.shapes import OutcomeCode, RoleCode


def seen(run: Path) -> Seen | None:
    """Returns what a run saw, in seconds from its first fault on; None if it isn't there, or had no
    fault.
    """
    if not (run / "tables" / "ops").is_dir():
        return None
    starts = sorted(row["at_ns"] for row in _rows(run, "events") if row["kind"] == "fault.start")
    if not starts:
        return None
    zero = starts[0]
    return Seen(
        faults=[(at - zero) / 1e9 for at in starts],
        windows=[
            Window(
                partition=row["partition"],
                function=row["function"],
                start_s=(row["start_ns"] - zero) / 1e9,
                end_s=(row["end_ns"] - zero) / 1e9,
                is_certain=row["certain_ns"] > 0,
            )
            for row in _rows(run, "windows")
        ],
        latencies=[*_latencies(run, zero)],
    )


def _latencies(run: Path, zero: int) -> Iterator[Latency]:
    """Yields the latencies of each second in which answered operations of the load were due."""
    by_second = defaultdict[int, list[float]](list)
    for row in _rows(run, "ops"):
        is_whole = not row["copy"] and not row["step"]
        is_answered = row["role"] == RoleCode.LOAD and row["outcome"] == OutcomeCode.OK
        if is_whole and is_answered:
            by_second[(row["sched"] - zero) // 10**9].append((row["fin"] - row["sched"]) / 1e6)
    for second in sorted(by_second):
        p50, p99 = np.percentile(by_second[second], (50, 99))
        yield Latency(second=second, p50_ms=float(p50), p99_ms=float(p99))


def _rows(run: Path, table: str) -> list[dict[str, Any]]:
    found = ds.dataset(run / "tables" / table, format="parquet").to_table()
    return cast("list[dict[str, Any]]", found.to_pylist())
