"""Metrics of the run folder that moved when the faults began: they explain, they never measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from zonequake_analysis.inputs.remote_read import SCHEMA as SAMPLES

MOST_SHOWN = 12
MIN_SAMPLES = 4
"""Samples before and after that a comparison needs."""

_QUIET = ("go_", "promhttp_", "prometheus_", "scrape_", "python_info", "process_start_time")
"""Prefixes of series that say nothing about the store."""

_MOST = 1e300
"""Values beyond it, and those that are no numbers, are left out: their differences are none."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedMetric:
    """A series whose level changed with the first fault; `spark` are points in 0..1."""

    name: str
    labels: str
    before: float
    during: float
    spark: tuple[tuple[float, float], ...]


def read_samples(run: Path) -> tuple[pa.Table, list[str]]:
    """The samples of a run, and a sentence for each file that holds none that can be read.

    Metrics are never judged, so that what can't be read is told and left out.
    """
    tables, problems = [SAMPLES.empty_table()], []
    for file in sorted((run / "metrics").glob("*.parquet")):
        name = f"metrics/{file.name}"
        try:
            table = pq.ParquetFile(file).read()
        except (pa.ArrowException, OSError, ValueError) as error:
            first = str(error).strip().partition("\n")[0]
            problems.append(f"{name}: {first}; expected a Parquet file of samples")
            continue
        columns = []
        for field in SAMPLES:
            found = table.column_names.count(field.name)
            try:
                columns.append(table.column(field.name).cast(field.type))
            except (pa.ArrowException, KeyError) as error:
                words = "it is missing" if not found else str(error).partition("\n")[0]
                problems.append(f"{name}, field `{field.name}`: {words}, expected {field.type}")
                break
        else:
            tables.append(pa.table(columns, schema=SAMPLES).drop_null())
    return pa.concat_tables(tables), problems


def moved_metrics(
    samples: pa.Table, *, wall_offset_ns: int, faults_ns: int | None, span_ns: tuple[int, int]
) -> list[MovedMetric]:
    """Series ranked by how far their median moved, in units of their spread before the faults.

    Counters (`_total`, `_count`, `_sum`) are compared as increases between scrapes, never across
    a restart or a stale marker. Empty without samples or without faults.
    """
    if not len(samples) or faults_ns is None:
        return []
    table = samples.sort_by([("series_id", "ascending"), ("ts_ms", "ascending")])
    ids = table.column("series_id").to_numpy()
    stale = table.column("stale").to_numpy(zero_copy_only=False)
    at_ns = table.column("ts_ms").to_numpy() * 1e6 - wall_offset_ns
    values = table.column("value").to_numpy()
    values = np.where(stale | ~(np.abs(values) < _MOST), np.nan, values)
    edges = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    ranked = []
    for first, last in zip(edges, [*edges[1:], len(ids)], strict=True):
        name = table.column("metric")[int(first)].as_py()
        if name.startswith(_QUIET) or name.endswith("_bucket"):
            continue
        times, series = at_ns[first:last], values[first:last]
        if name.endswith(("_total", "_count", "_sum")):
            times, series = _increases(times, series)
        before, during = series[times < faults_ns], series[times >= faults_ns]
        before, during = before[~np.isnan(before)], during[~np.isnan(during)]
        if len(before) < MIN_SAMPLES or len(during) < MIN_SAMPLES:
            continue
        level, peak = float(np.median(before)), float(np.quantile(during, 0.9))
        spread = float(np.quantile(before, 0.9) - np.quantile(before, 0.1)) + abs(level) * 0.05
        distance = abs(peak - level) / (spread or 1e-9)
        if distance > 2:
            labels = dict(table.column("labels")[int(first)].as_py())
            ranked.append((distance, name, labels, level, peak, times, series))
    ranked.sort(key=lambda item: -item[0])
    return [
        MovedMetric(
            name=name,
            labels=_shown(labels),
            before=level,
            during=peak,
            spark=_spark(times, series, span_ns),
        )
        for _, name, labels, level, peak, times, series in ranked[:MOST_SHOWN]
    ]


def _increases(times: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Per second, between neighbours; a fall is a restart and counts from zero."""
    step = np.diff(values)
    step = np.where(step < 0, values[1:], step)
    seconds = np.maximum(np.diff(times) / 1e9, 1e-3)
    return times[1:], step / seconds


def _shown(labels: Mapping[str, str]) -> str:
    kept = {
        k: v for k, v in labels.items() if k not in ("__name__", "job", "instance", "namespace")
    }
    return ", ".join(f"{name}={value}" for name, value in sorted(kept.items()))


def _spark(
    times: Floats, values: Floats, span_ns: tuple[int, int]
) -> tuple[tuple[float, float], ...]:
    known = ~np.isnan(values)
    times, values = times[known], values[known]
    low, high = float(values.min()), float(values.max())
    start, end = span_ns
    xs = np.clip((times - start) / max(1, end - start), 0, 1)
    ys = (values - low) / ((high - low) or 1.0)
    return tuple((round(float(x), 4), round(float(y), 3)) for x, y in zip(xs, ys, strict=True))
