"""Spark's tasks over samples of metrics, without Spark."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

from tests.histories.made_metrics import STALE, MadeSeries, write_metrics
from zonequake_analysis.inputs.prometheus.remote_read import FILE
from zonequake_analysis.metrics.shown_changes import merged, shown_of
from zonequake_analysis.metrics.tasks.compared import Change
from zonequake_analysis.metrics.tasks.curve import Curve
from zonequake_analysis.metrics.tasks.scan import RowGroup, merge, scan, series_table
from zonequake_analysis.metrics.tasks.selected import (
    ROWS_OF_A_BUCKET,
    SAMPLES_OF_A_BUCKET,
    buckets_for,
    by_series,
    select,
    wanted,
)
from zonequake_analysis.metrics.tasks.series_number import xxh64
from zonequake_analysis.metrics.tasks.steps import quantiles, steps
from zonequake_analysis.storage.location import Location

START_MS = 1_700_000_000_000
NAN = float("nan")


@pytest.mark.parametrize("size", [0, 1, 3, 4, 7, 8, 31, 32, 33, 63, 64, 100])
def test_the_number_of_a_series_is_xxh64(size: int) -> None:
    data, seed = random.Random(size).randbytes(size), 42 << size % 50
    assert xxh64(data, seed) == xxhash.xxh64_intdigest(data, seed)


@pytest.fixture
def groups(tmp_path: Path) -> list[RowGroup]:
    """Three row groups of a minute: a level, a series that ends, and values that are no numbers."""
    series = [
        MadeSeries(metric="level", labels={"pod": "p-0"}, value=lambda s: float(s % 7)),
        MadeSeries(metric="b_total", value=lambda s: STALE if s == 40 else s if s < 40 else None),
        MadeSeries(metric="odd", value=lambda s: NAN if s in (3, 50) else -1.0),
        MadeSeries(metric="none", value=lambda s: NAN),
    ]
    write_metrics(tmp_path, series, start_ms=START_MS, seconds=60)
    file = tmp_path / "metrics" / FILE
    rows = pq.read_table(file).sort_by("ts_ms")
    pq.write_table(rows, file, row_group_size=-(-rows.num_rows // 3))
    return [RowGroup(file=Location.of(file), number=n, named=True) for n in range(3)]


def by_tasks(tasks: list[list[RowGroup]], folder: Path) -> pa.Table:
    made = [
        one for n in range(len(tasks)) for _, one in scan(tasks, Location.of(folder), 1, n)
    ]  # one bucket
    return series_table([merge(0, made)])


def test_tasks_of_a_row_group_each_find_the_series_that_one_task_finds(
    groups: list[RowGroup], tmp_path: Path
) -> None:
    one = by_tasks([groups], tmp_path / "one")
    three = by_tasks([[group] for group in groups], tmp_path / "three")
    assert str(one.to_pylist()) == str(three.to_pylist())
    found = {row["metric"]: row for row in one.to_pylist()}
    assert found["level"]["target"] == "p-0"
    assert (found["b_total"]["samples"], found["b_total"]["stale_marks"]) == (41, 1)
    assert (found["b_total"]["least"], found["b_total"]["most"]) == (0.0, 39.0)
    assert found["odd"]["least"] == -1.0
    assert np.isnan(found["odd"]["most"]), "NaN is larger than any number"
    assert np.isnan(found["none"]["least"])
    read = [pq.read_table(tmp_path / name).sort_by("t_ms") for name in ("one", "three")]
    assert read[0].num_rows == read[1].num_rows == 3 * 60 + 41


def test_a_counter_that_fell_began_again_and_a_gap_has_no_step() -> None:
    t_ms = np.array([0, 1000, 2000, 9000, 10_000])
    value = np.array([5.0, 8.0, 2.0, 4.0, NAN])
    known = np.array([True, True, True, True, False])
    step, there = steps(t_ms, value, known, counter=True, scrape_ms=1000)
    assert there.tolist() == [False, True, True, False, False]
    assert step[there].tolist() == [3.0, 2.0]
    step, there = steps(t_ms, value, known, counter=False, scrape_ms=1000)
    assert step[there].tolist() == [3.0, -6.0]


def test_a_quantile_lies_between_the_ends_of_its_bucket_or_at_the_last_end() -> None:
    t_ms, there = np.array([1000, 2000, 3000]), np.array([True, True, True])
    buckets = [
        (float("inf"), t_ms, np.array([10.0, 10.0, 0.0]), there),
        (0.1, t_ms, np.array([10.0, 0.0, 0.0]), np.array([True, False, True])),
        (0.01, t_ms, np.array([5.0, 4.0, 0.0]), there),
        (None, t_ms, np.array([0.0, 0.0, 0.0]), there),
    ]
    found = quantiles(buckets)
    assert found["p50"].t_ms.tolist() == [1000, 2000], "nothing was observed before 3000"
    assert found["p50"].value.tolist() == [0.01, 0.01]
    assert found["p99"].value[0] == pytest.approx(0.01 + 0.09 * 4.9 / 5)


def test_samples_of_many_stretches_are_selected_whatever_their_order(tmp_path: Path) -> None:
    file = tmp_path / "part.parquet"
    t_ms = list(range(0, 1000, 10))
    samples = {"series": [7] * 100, "t_ms": t_ms, "value": [1.0] * 100, "stale": [False] * 100}
    pq.write_table(pa.table(samples), file)
    stretches = [(500, 520), (0, 10), (505, 600), (990, 5000), (-9, 0), (300, 300)]
    chosen = wanted([7], [0], stretches)
    made = [one for _, one in select([[Location.of(file)]], chosen, 0)]
    (found,) = by_series(made)
    assert found.t_ms.tolist() == [
        at for at in t_ms if any(begin <= at < end for begin, end in stretches)
    ]


def test_a_task_holds_neither_too_many_samples_nor_too_many_rows() -> None:
    assert buckets_for(1) == 1
    assert buckets_for(SAMPLES_OF_A_BUCKET + 1) == 2
    assert buckets_for(1, rows=ROWS_OF_A_BUCKET) == 1
    assert buckets_for(1, rows=3 * ROWS_OF_A_BUCKET) == 3


def change(number: int, score: float | None, family: str) -> Change:
    return Change(
        span=number % 2,
        span_kind="fault",
        span_name="kill",
        metric="zonequake_store_loop_lag_seconds",
        measure="level",
        labels={"number": str(number)},
        target="p-0",
        family=family,
        unit="",
        before=0.0,
        scale=1.0,
        during=score,
        at_ms=START_MS,
        after=None,
        score=score,
        samples=4,
        gap_ms=0,
    )


def line(row: Change) -> Curve:
    number = int(row.labels["number"])
    return Curve(start_ms=0, end_ms=9, t_ms=[number], value=[1.0], begins=[True])


def test_what_tasks_chose_has_the_strongest_of_all_rows() -> None:
    draw = random.Random(1)
    rows = [
        change(number, draw.choice([None, *map(float, range(12))]), draw.choice("abcdef"))
        for number in range(400)
    ]
    of_all = shown_of(rows, line)
    chosen = merged([shown_of(rows[at::7], line) for at in range(7)])
    assert chosen == of_all
    assert all(row.curve == line(row) for row in of_all.strongest)
    assert all(row.curve is None for row in of_all.saturated)
    assert len(of_all.strongest) == 20
    assert {row.score for row in of_all.strongest} <= {10.0, 11.0}
    of_family = [(row.span, row.family) for row in of_all.strongest]
    assert max(map(of_family.count, of_family)) == 2
    assert len(of_all.saturated) == sum(row.during is not None for row in rows)
