"""The work of a task on row groups of `metrics/*.parquet`: it writes rows, and counts by series.

    row groups ──▶ tables/metrics/hour=…/part-….parquet
              └──▶ a row for each series, of the task's own samples ──merged──▶ tables/metric_series

Samples come in runs of one series, so numbers are taken by run, and only names by series.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from zonequake_analysis.errors import SamplesError
from zonequake_analysis.inputs.prometheus.remote_read import LABELS
from zonequake_analysis.metrics.stored_tables import Part
from zonequake_analysis.metrics.tasks.series_number import of_id, of_text
from zonequake_analysis.spark_pass.in_tasks import Made, from_bytes, to_bytes
from zonequake_analysis.storage.location import Location

HOUR_MS = 3_600_000
_BATCH_ROWS = 64 * 1024
_MOST_SAID = 300

_ROWS = pa.schema(
    [
        ("metric", pa.string()),
        ("labels", LABELS),
        ("target", pa.string()),
        ("series", pa.int64()),
        ("t_ms", pa.int64()),
        ("value", pa.float64()),
        ("stale", pa.bool_()),
    ]
)
"""The columns of the files of `tables/metrics`; its hour is the folder's."""

_NUMBERS = ("samples", "stale_marks", "first_ms", "last_ms", "known", "nans", "least", "most")
_MERGED = ("sum", "sum", "min", "max", "sum", "sum", "min", "max")
_FACTS = pa.schema(
    [
        ("series", pa.int64()),
        ("metric", pa.string()),
        ("labels", LABELS),
        ("target", pa.string()),
        *((name, pa.int64()) for name in _NUMBERS[:6]),
        *((name, pa.float64()) for name in _NUMBERS[6:]),
    ]
)
"""`known`: samples with a value, of which `nans` are none; `least`, `most`: of the others."""

_SERIES_COLUMNS = _FACTS.names[:8] + _FACTS.names[10:]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """A row group of a file; `named`: whether it has `series_id` and `ts_ms`, as `pull` writes.

    `by_labels`: series are numbered by their labels all the same, as those of another file are.
    """

    file: Location
    number: int
    named: bool
    by_labels: bool = False

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        by_name = ["series_id", "ts_ms"] if self.named else ["t_ms"]
        return ["metric", "labels", *by_name, "value", "stale"]


@contextmanager
def reading(file: Location) -> Iterator[None]:
    """Raises SamplesError, which names the file, instead of what Parquet's reader or the file
    system say of it. A store's LocationError stays as it is.
    """
    try:
        yield
    except (OSError, ValueError, OverflowError, pa.ArrowException) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SamplesError(f"{file}: {' '.join(said.split())[:_MOST_SAID]}") from error


def scan(tasks: Sequence[Sequence[RowGroup]], folder: Location, buckets: int, number: int) -> Made:
    """Writes the rows of a task's row groups below `folder`; yields the facts of its series."""
    known = _Series()
    parts: dict[Location, Part] = {}
    for group in tasks[number]:
        for rows in _rows(group, known):
            hours = np.floor_divide(rows["t_ms"].to_numpy(), HOUR_MS)
            for hour in np.unique(hours):
                place = folder / f"hour={hour}"
                some = rows if (hours == hour).all() else rows.filter(pa.array(hours == hour))
                part = parts.setdefault(place, Part(_ROWS))
                for batch in some.to_batches():
                    part.add(batch)
    for place, part in parts.items():
        place.make_folder()  # an object store has no folders
        (place / f"part-{number:05d}.parquet").write(part.content())
    facts = known.facts()
    of_bucket = facts["series"].to_numpy() % buckets
    for bucket in np.unique(of_bucket).tolist():
        yield bucket, to_bytes(facts.filter(pa.array(of_bucket == bucket)))


def merge(_bucket: int, made: list[bytes]) -> bytes:
    """Returns the facts of each series from those of tasks."""
    return to_bytes(_merged(pa.concat_tables([from_bytes(one) for one in made])))


def series_table(made: Sequence[bytes]) -> pa.Table:
    """Returns the rows of `tables/metric_series`: one for each series, in the order of `made`."""
    facts = pa.concat_tables([_FACTS.empty_table(), *(from_bytes(one) for one in made)])
    known, nans = facts["known"], facts["nans"]
    nan, none = pa.scalar(float("nan")), pa.scalar(None, pa.float64())
    # NaN is larger than any number, as in Spark.
    least = pc.if_else(pc.equal(known, nans), nan, facts["least"])
    most = pc.if_else(pc.greater(nans, 0), nan, facts["most"])
    empty = pc.equal(known, 0)
    for name, column in (("least", least), ("most", most)):
        place = facts.schema.get_field_index(name)
        facts = facts.set_column(place, name, pc.if_else(empty, none, column))
    return facts.select(_SERIES_COLUMNS)


def _merged(facts: pa.Table) -> pa.Table:
    rows = facts.append_column("row", pa.array(np.arange(facts.num_rows)))
    by_series = rows.group_by("series", use_threads=False).aggregate(
        [*zip(_NUMBERS, _MERGED, strict=True), ("row", "min")]
    )
    names = facts.select(_FACTS.names[:4]).take(by_series["row_min"])
    for name, how in zip(_NUMBERS, _MERGED, strict=True):
        names = names.append_column(name, by_series[f"{name}_{how}"])
    return names.cast(_FACTS)


@dataclass(slots=True)
class _Series:
    """The series that a task has seen, and numbers of each run of samples."""

    places: dict[tuple[str, int | bytes], int] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)
    labels: list[list[tuple[str, str]]] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    runs: list[pa.Table] = field(default_factory=list)

    def place(self, metric: str, name: int | bytes, labels: pa.MapScalar) -> int:
        """Returns where the series stands, which has these labels if it is new."""
        found = self.places.get((metric, name))
        if found is None:
            found = self.places[metric, name] = len(self.numbers)
            own = [(key, value) for key, value in labels.as_py() or []]
            given = dict(own)
            self.numbers.append(
                of_id(metric, name) if isinstance(name, int) else of_text(metric, name)
            )
            self.metrics.append(metric)
            self.labels.append(own)
            self.targets.append(given.get("pod") or given.get("instance") or "")
        return found

    def facts(self) -> pa.Table:
        """Returns a row for each series."""
        names = [
            pa.array(self.numbers, pa.int64()),
            pa.array(self.metrics, pa.string()),
            pa.array(self.labels, LABELS),
            pa.array(self.targets, pa.string()),
        ]
        if not self.runs:
            return _FACTS.empty_table()
        runs = pa.concat_tables(self.runs)
        of_series = [column.take(runs["place"]) for column in names]
        columns = [*of_series, *(runs[name] for name in _NUMBERS)]
        return _merged(pa.Table.from_arrays(columns, schema=_FACTS))


def _rows(group: RowGroup, known: _Series) -> Iterator[pa.Table]:
    """Yields the rows of a row group as the table has them. Raises SamplesError, LocationError."""
    with reading(group.file), group.file.open() as stream:
        batches = pq.ParquetFile(stream).iter_batches(
            _BATCH_ROWS, row_groups=[group.number], columns=group.columns, use_threads=False
        )
        for batch in batches:
            if batch.num_rows:
                yield _typed(pa.Table.from_batches([batch]).combine_chunks(), group, known)


def _typed(rows: pa.Table, group: RowGroup, known: _Series) -> pa.Table:
    _check_given(rows)
    metric = rows["metric"].cast(pa.string()).combine_chunks()
    labels = rows["labels"].cast(LABELS).combine_chunks()
    t_ms = rows["ts_ms" if group.named else "t_ms"].cast(pa.int64()).to_numpy()
    stale = rows["stale"].cast(pa.bool_()).to_numpy()
    codes = metric.dictionary_encode()
    names: NDArray[Any] | list[bytes]
    if group.named:
        names = rows["series_id"].cast(pa.int64()).to_numpy()
        changed = np.diff(names) != 0
    else:
        names = [_text(labels[row]) for row in range(len(labels))]
        changed = np.fromiter(map(bytes.__ne__, names[1:], names), bool, len(names) - 1)
    changed |= np.diff(codes.indices.to_numpy()) != 0
    starts = np.concatenate([[0], np.flatnonzero(changed) + 1])
    own: list[int | bytes]
    if group.named and group.by_labels:
        own = [_text(labels[row]) for row in starts.tolist()]
    else:
        own = [int(names[row]) if group.named else names[row] for row in starts.tolist()]
    places = np.array(
        [
            known.place(metric[row].as_py(), name, labels[row])
            for row, name in zip(starts.tolist(), own, strict=True)
        ],
        np.int64,
    )
    of_row = np.repeat(places, np.diff([*starts, len(t_ms)]))
    value = rows["value"].cast(pa.float64()).combine_chunks()
    value = pc.if_else(pa.array(~stale), value, pa.scalar(None, pa.float64()))
    known.runs.append(_numbers(places, starts, t_ms, value, stale))
    columns = [
        metric,
        labels,
        pa.array(known.targets, pa.string()).take(pa.array(of_row)),
        pa.array(np.array(known.numbers, np.int64)[of_row]),
        pa.array(t_ms),
        value,
        pa.array(stale),
    ]
    return pa.Table.from_arrays(columns, schema=_ROWS)


def _check_given(rows: pa.Table) -> None:
    """Raises ValueError for a sample that lacks its time, its value or the name of its series."""
    for name in rows.column_names:
        none = rows[name].is_null()
        if name == "value":  # a marker that ends a series has none
            none = pc.and_(none, pc.invert(rows["stale"].cast(pa.bool_())))
        if name != "labels" and pc.any(none).as_py():
            raise ValueError(f"found a null in the column {name}, expected a value in each sample")


def _numbers(
    places: NDArray[np.int64],
    starts: NDArray[np.int64],
    t_ms: NDArray[np.int64],
    value: pa.Array,
    stale: NDArray[np.bool_],
) -> pa.Table:
    """Returns the numbers of each run of samples."""
    given = value.is_valid().to_numpy(zero_copy_only=False)
    values = np.asarray(value.fill_null(0.0).to_numpy(), np.float64)
    nan = given & np.isnan(values)
    number = given & ~nan
    some = np.add.reduceat(number, starts, dtype=np.int64) > 0
    least = np.minimum.reduceat(np.where(number, values, np.inf), starts)
    most = np.maximum.reduceat(np.where(number, values, -np.inf), starts)
    return pa.table(
        {
            "place": pa.array(places),
            "samples": pa.array(np.diff([*starts, len(t_ms)])),
            "stale_marks": pa.array(np.add.reduceat(stale, starts, dtype=np.int64)),
            "first_ms": pa.array(np.minimum.reduceat(t_ms, starts)),
            "last_ms": pa.array(np.maximum.reduceat(t_ms, starts)),
            "known": pa.array(np.add.reduceat(given, starts, dtype=np.int64)),
            "nans": pa.array(np.add.reduceat(nan, starts, dtype=np.int64)),
            "least": pa.array(least, mask=~some),
            "most": pa.array(most, mask=~some),
        }
    )


def _text(labels: pa.MapScalar) -> bytes:
    """Returns labels as Spark's `to_json` writes them, by name."""
    pairs = sorted(labels.as_py() or [])
    return msgspec.json.encode([{"key": key, "value": value} for key, value in pairs])
