"""A series that several files of a run's metrics hold is one series, and counts once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.histories.made_metrics import STALE, MadeSeries, rows
from tests.unit.analysis.tasks_without_spark import without_spark
from zonequake_analysis.metrics.counters import LOAD_OPERATIONS
from zonequake_analysis.metrics.metric_facts import MetricFacts, metric_facts
from zonequake_analysis.metrics.tasks.selected import by_series
from zonequake_analysis.spark_pass.in_tasks import to_bytes

START_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("table", "whole_run"):
        monkeypatch.setattr(f"zonequake_analysis.metrics.{module}.in_tasks", without_spark)


def samples(seconds: range, *, last: float | None = None) -> pa.Table:
    """A counter of its own seconds; `last`: its last sample, if another one."""
    series = MadeSeries(
        metric=LOAD_OPERATIONS,
        labels={"pod": "load-0"},
        value=lambda s: last if last is not None and s == seconds[-1] else float(s),
    )
    return rows([series], start_ms=START_MS, seconds=seconds)


def without_id(table: pa.Table) -> pa.Table:
    """The same as the data source `prometheus` gives it."""
    return table.drop_columns(["series_id"]).rename_columns({"ts_ms": "t_ms"})


def facts_of(run: Path, *tables: pa.Table) -> MetricFacts:
    (run / "metrics").mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, run / "metrics" / f"{number}.parquet")
    found = metric_facts(
        None,  # type: ignore[arg-type]
        run,
        faults=[],
        windows=[],
        events=[],
        start_ns=0,
        end_ns=10**11,
        wall_offset_ns=START_MS * 1_000_000,
    )
    assert found is not None
    assert found.problem == ""
    return found


@pytest.mark.parametrize(("until_s", "from_s"), [(20, 0), (10, 10)], ids=["same", "next"])
def test_a_series_is_one_though_only_one_of_its_files_has_its_id(
    tmp_path: Path, until_s: int, from_s: int
) -> None:
    with_id, without = samples(range(until_s)), without_id(samples(range(from_s, 20)))
    facts = facts_of(tmp_path, with_id, without)
    assert [(one.total, one.whole) for one in facts.counted] == [(19, True)]
    assert facts.targets is not None
    assert facts.targets.series == 1


def test_a_sample_that_two_files_hold_is_no_scrape_of_its_own(tmp_path: Path) -> None:
    every_15_s = range(0, 60, 15)
    facts = facts_of(tmp_path, samples(every_15_s, last=STALE), samples(every_15_s))
    assert facts.targets is not None
    assert facts.targets.scrape_ms["load-0"] == 15_000
    assert facts.targets.gaps == []
    assert [(one.total, one.whole) for one in facts.counted] == [(45, True)]
    assert [one.seen_ms for one in facts.counted] == [START_MS + 15_000]


def test_a_step_of_a_counter_is_not_hidden_by_the_same_sample_again() -> None:
    """What stays is one step between two scrapes, by which quantiles of histograms are told."""
    made = [
        to_bytes(
            pa.table(
                {
                    "series": pa.array([7, 7, 9], pa.int64()),
                    "t_ms": pa.array([1000, 2000, 2000], pa.int64()),
                    "value": pa.array([1.0, 5.0, 3.0]),
                    "stale": pa.array([False, False, False]),
                }
            )
        )
    ] * 2
    seven, nine = by_series(made)
    assert (seven.t_ms.tolist(), seven.value.tolist()) == ([1000, 2000], [1.0, 5.0])
    assert (nine.t_ms.tolist(), nine.value.tolist()) == ([2000], [3.0])
