"""Numbers over time: latency, throughput and availability, for the report and for the SLOs.

Latencies go into logarithmic bins, 16 to an octave (4.4 % wide), counted per slice of time, so that
any percentile of any stretch of time comes from one small table. Maxima are exact. An open loop's
latency counts from the scheduled time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zonequake_analysis.schema import PROBE_DEADLINE_NS, Function, Outcome, Role

SLICES = 600
"""Slices of the whole run: about one for each pixel of the report's drawings."""

MIN_SLICE_NS = 100_000_000
BINS_PER_OCTAVE = 16

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Counts by slice and bin of one class of operations; `max_ns` per slice."""

    counts: Ints  # slices × bins
    max_ns: Ints
    ok: Ints
    bad: Ints

    def percentile_ns(self, fraction: float, first: int = 0, last: int | None = None) -> float:
        """The percentile over slices [first, last), nan if there were no operations."""
        return _percentile(self.counts[first:last].sum(axis=0), fraction)

    def percentiles_ns(self, fraction: float) -> Floats:
        """The percentile of each slice, nan where nothing happened."""
        return np.array([_percentile(row, fraction) for row in self.counts])


def _percentile(counts: Ints, fraction: float) -> float:
    total = counts.sum()
    if total == 0:
        return float("nan")
    place = int(np.searchsorted(np.cumsum(counts), fraction * total, side="left"))
    return float(2 ** ((place + 1) / BINS_PER_OCTAVE))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """One partition over time: what was answered in time and what wasn't, by probes if any."""

    zone: str
    partition: int
    good: Ints
    bad: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Everything by slices of `slice_ns` from `start_ns` on."""

    start_ns: int
    slice_ns: int
    slices: int
    latencies: dict[str, Latencies]  # by function, of role load
    partitions: tuple[PartitionRow, ...]
    counts: dict[tuple[str, str, str], int]  # (role, function, outcome) -> operations

    @property
    def end_ns(self) -> int:
        """End of the last slice."""
        return self.start_ns + self.slices * self.slice_ns

    def slice_of(self, at_ns: int) -> int:
        """The slice a moment lies in, within 0..slices."""
        return int(min(self.slices, max(0, (at_ns - self.start_ns) // self.slice_ns)))

    def total(self, *, role: str | None = None, outcome: str | None = None) -> int:
        """Operations of a role and outcome."""
        return sum(
            number
            for (its_role, _, its_outcome), number in self.counts.items()
            if role in (None, its_role) and outcome in (None, its_outcome)
        )


def timeline(ops: DataFrame, *, start_ns: int, end_ns: int) -> Timeline:
    """Reads everything that is drawn over time from `ops`, in one job."""
    slice_ns = max(MIN_SLICE_NS, (end_ns - start_ns) // SLICES + 1)
    slices = int((end_ns - start_ns) // slice_ns) + 1
    ok = F.col("outcome") == Outcome.OK.value
    probe = F.col("role") == Role.PROBE.value
    latency = F.when(ok, F.greatest(F.col("fin") - F.col("sched"), F.lit(1)))
    good = ok & (~probe | (latency <= PROBE_DEADLINE_NS))
    base = ops.select(
        "partition_id",
        "zone",
        "partition",
        "f",
        "role",
        "outcome",
        F.floor((F.col("sched") - start_ns) / slice_ns).cast("int").alias("slice"),
        latency.alias("latency"),
        F.when(ok, F.floor(F.log2(latency.cast("double")) * BINS_PER_OCTAVE).cast("int")).alias(
            "bin"
        ),
        good.alias("good"),
    )
    by_time = base.groupBy("slice", "role", "f", "outcome", "bin").agg(
        F.count(F.lit(1)).alias("n"), F.max("latency").alias("longest")
    )
    by_place = base.groupBy("partition_id", "slice").agg(
        F.count_if(probe & F.col("good")).alias("good"),
        F.count_if(probe & ~F.col("good")).alias("bad"),
        F.count_if(~probe & F.col("good")).alias("load_good"),
        F.count_if(~probe & ~F.col("good")).alias("load_bad"),
        F.max("partition").alias("partition"),
        F.first("zone").alias("zone"),
    )
    counts: dict[tuple[str, str, str], int] = {}
    classes = {f.name.lower(): _empty(slices) for f in Function}
    for row in by_time.toArrow().to_pylist():
        role, f = Role(row["role"]).name.lower(), Function(row["f"]).name.lower()
        outcome = Outcome(row["outcome"]).name.lower()
        counts[role, f, outcome] = counts.get((role, f, outcome), 0) + row["n"]
        at = min(max(row["slice"], 0), slices - 1)
        if role != "load":
            continue
        series = classes[f]
        if outcome == "ok":
            series.counts[at, min(row["bin"], series.counts.shape[1] - 1)] += row["n"]
            series.max_ns[at] = max(series.max_ns[at], row["longest"])
            series.ok[at] += row["n"]
        else:
            series.bad[at] += row["n"]
    probed = any(role == "probe" for role, _, _ in counts)
    good_name, bad_name = ("good", "bad") if probed else ("load_good", "load_bad")
    rows: dict[int, PartitionRow] = {}
    for row in by_place.toArrow().to_pylist():
        place = rows.setdefault(
            row["partition_id"],
            PartitionRow(
                zone=row["zone"] or "",
                partition=row["partition"],
                good=np.zeros(slices, dtype=np.int64),
                bad=np.zeros(slices, dtype=np.int64),
            ),
        )
        at = min(max(row["slice"], 0), slices - 1)
        place.good[at] += row[good_name]
        place.bad[at] += row[bad_name]
    return Timeline(
        start_ns=start_ns,
        slice_ns=slice_ns,
        slices=slices,
        latencies={
            f: series for f, series in classes.items() if series.ok.any() or series.bad.any()
        },
        partitions=tuple(sorted(rows.values(), key=lambda row: (row.zone, row.partition))),
        counts=counts,
    )


def _empty(slices: int) -> Latencies:
    bins = 40 * BINS_PER_OCTAVE  # up to 2^40 ns, 18 minutes
    return Latencies(
        counts=np.zeros((slices, bins), dtype=np.int64),
        max_ns=np.zeros(slices, dtype=np.int64),
        ok=np.zeros(slices, dtype=np.int64),
        bad=np.zeros(slices, dtype=np.int64),
    )


def all_of(classes: Iterable[Latencies]) -> Latencies:
    """Several classes as one."""
    given = list(classes)
    return Latencies(
        counts=np.sum([c.counts for c in given], axis=0),
        max_ns=np.max([c.max_ns for c in given], axis=0),
        ok=np.sum([c.ok for c in given], axis=0),
        bad=np.sum([c.bad for c in given], axis=0),
    )
