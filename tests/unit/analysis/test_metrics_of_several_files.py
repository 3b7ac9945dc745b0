"""A series that several files of a run's metrics hold is one series, and counts once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.histories.made_metrics import MadeSeries, rows
from tests.unit.analysis.tasks_without_spark import without_spark
from zonequake_analysis.metrics.counters import LOAD_OPERATIONS
from zonequake_analysis.metrics.metric_facts import MetricFacts, metric_facts

START_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("table", "whole_run"):
        monkeypatch.setattr(f"zonequake_analysis.metrics.{module}.in_tasks", without_spark)


def samples(seconds: range) -> pa.Table:
    series = [MadeSeries(metric=LOAD_OPERATIONS, labels={"pod": "load-0"}, value=float)]
    return rows(series, start_ms=START_MS, seconds=seconds)


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
