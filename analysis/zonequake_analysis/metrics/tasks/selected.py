"""Samples of chosen series, from `tables/metrics`: tasks read them, and bring them together.

files ──▶ samples of the series wanted, in the stretches wanted ──bucket──▶ by series and time
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zonequake_analysis.metrics.tasks.steps import Bools, Floats, Ints
from zonequake_analysis.spark_pass.in_tasks import Made, from_bytes, to_bytes
from zonequake_analysis.storage.location import Location

SAMPLES_OF_A_BUCKET = 500_000
"""Samples that a task holds at once, about: some 80 bytes each, with what is computed of them."""

ROWS_OF_A_BUCKET = 50_000
"""Rows of `metric_changes`, series × spans, that a task holds at once: some 600 bytes each."""

FILES_OF_A_TASK = 4
_BATCH_ROWS = 64 * 1024
_COLUMNS = ["series", "t_ms", "value", "stale"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Series by ascending number, each with its bucket. `stretches`: those of time, start_ms ≤ t <
    end_ms, in unix ms; None for all.
    """

    series: Ints
    bucket: Ints
    stretches: Sequence[tuple[int, int]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesSamples:
    """The samples of one series, by time. `value`: NaN where not `known`."""

    series: int
    t_ms: Ints
    value: Floats
    known: Bools
    stale: Bools


def wanted(
    series: Sequence[int], bucket: Sequence[int], stretches: Sequence[tuple[int, int]] | None = None
) -> Wanted:
    """Returns the selection of these series."""
    numbers, buckets = np.array(series, np.int64), np.array(bucket, np.int64)
    order = np.argsort(numbers)
    return Wanted(series=numbers[order], bucket=buckets[order], stretches=stretches)


def select(tasks: Sequence[Sequence[Location]], chosen: Wanted, number: int) -> Made:
    """Yields the samples wanted of a task's files, by bucket."""
    for file in tasks[number]:
        with file.open() as stream:
            batches = pq.ParquetFile(stream).iter_batches(
                _BATCH_ROWS, columns=_COLUMNS, use_threads=False
            )
            for batch in batches:
                yield from _by_bucket(batch, chosen)


def _by_bucket(batch: pa.RecordBatch, chosen: Wanted) -> Made:
    series, t_ms = (batch[name].to_numpy() for name in _COLUMNS[:2])
    place = np.minimum(np.searchsorted(chosen.series, series), len(chosen.series) - 1)
    kept = chosen.series[place] == series
    if chosen.stretches is not None:
        # A time is in a stretch if more of them have begun by then than have ended.
        begun, ended = (
            np.searchsorted(np.sort([one[at] for one in chosen.stretches]), t_ms, side="right")
            for at in (0, 1)
        )
        kept &= begun > ended
    bucket = chosen.bucket[place]
    for one in np.unique(bucket[kept]).tolist():
        some = batch.filter(pa.array(kept & (bucket == one)))
        yield one, to_bytes(pa.Table.from_batches([some]))


def by_series(made: Sequence[bytes]) -> Iterator[SeriesSamples]:
    """Yields each series of a bucket, by number. A sample that several files have is there once; of
    a stale marker and a value at one time it is the value.
    """
    rows = pa.concat_tables([from_bytes(one) for one in made]).combine_chunks()
    series, t_ms, stale = (
        rows[name].to_numpy(zero_copy_only=False) for name in ("series", "t_ms", "stale")
    )
    known = rows["value"].is_valid().to_numpy(zero_copy_only=False)
    value = rows["value"].to_numpy(zero_copy_only=False)
    order = np.lexsort((stale, t_ms, series))
    order = order[_changes(series[order]) | _changes(t_ms[order])]
    series, t_ms, stale, known, value = (
        column[order] for column in (series, t_ms, stale, known, value)
    )
    ends = np.flatnonzero(np.diff(series, append=series[-1:] ^ 1))
    start = 0
    for end in (ends + 1).tolist():
        some = slice(start, end)
        yield SeriesSamples(
            series=int(series[start]),
            t_ms=t_ms[some],
            value=value[some],
            known=known[some],
            stale=stale[some],
        )
        start = end


def _changes(column: Ints) -> Bools:
    """Returns where a value is another than the one before; the first one is."""
    return np.asarray(np.diff(column, prepend=column[:1] ^ 1) != 0)


def of_tasks(files: Sequence[Location]) -> list[Sequence[Location]]:
    """Returns the files of each task."""
    return [files[at : at + FILES_OF_A_TASK] for at in range(0, len(files), FILES_OF_A_TASK)]


def buckets_for(samples: int, *, rows: int = 0) -> int:
    """Returns the number of buckets for so many samples, of which so many rows are made."""
    return max(1, -(-samples // SAMPLES_OF_A_BUCKET), -(-rows // ROWS_OF_A_BUCKET))
