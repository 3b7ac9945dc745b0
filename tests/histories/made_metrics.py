"""Samples as a run's Prometheus would have had them, written as `pull` writes them.

A `MadeSeries` says its value at each scrape; None is a scrape that is missing, `STALE` the marker
behind its last sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zonequake_analysis.inputs.prometheus.remote_read import (
    FILE,
    LABELS,
    SCHEMA,
    STALE_BITS,
    series_id,
)

STALE = float(np.array([STALE_BITS], np.uint64).view(np.float64)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeSeries:
    """One series; `value(second)` counts from the run's begin."""

    metric: str
    value: Callable[[int], float | None]
    labels: Mapping[str, str] = field(default_factory=dict)


def rows(series: Iterable[MadeSeries], *, start_ms: int, seconds: range) -> pa.Table:
    """The samples of some series, one a second."""
    columns: dict[str, list[object]] = {name: [] for name in SCHEMA.names}
    for one in series:
        labels = sorted(one.labels.items())
        number = series_id((("__name__", one.metric), *labels))
        for second in seconds:
            value = one.value(second)
            if value is None:
                continue
            columns["metric"].append(one.metric)
            columns["labels"].append(labels)
            columns["series_id"].append(number)
            columns["ts_ms"].append(start_ms + second * 1000)
            columns["value"].append(value)
            columns["stale"].append(bool(np.float64(value).view(np.uint64) == STALE_BITS))
    arrays = [
        pa.array(columns[name], LABELS if name == "labels" else SCHEMA.field(name).type)
        for name in SCHEMA.names
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def write_metrics(run: Path, series: Iterable[MadeSeries], *, start_ms: int, seconds: int) -> None:
    """Writes them into a run folder, ten minutes to a row group."""
    (run / "metrics").mkdir(exist_ok=True)
    made = list(series)
    with pq.ParquetWriter(run / "metrics" / FILE, SCHEMA, compression="zstd") as writer:
        for first in range(0, seconds, 600):
            stretch = range(first, min(first + 600, seconds))
            writer.write_table(rows(made, start_ms=start_ms, seconds=stretch))
