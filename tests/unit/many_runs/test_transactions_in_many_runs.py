"""A transaction is one operation to `compare` and `trend`, whatever its steps are."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.histories.judged_runs import JudgedRun, write_run
from zonequake_analysis.inputs.run_folder import read_description
from zonequake_analysis.many_runs.folders import read_load, read_run
from zonequake_analysis.many_runs.trend_rows import rows_of
from zonequake_analysis.storage.location import Location


def made(folder: Path, *, transactions: bool = True) -> Path:
    return write_run(folder, JudgedRun(transactions=transactions, seed=3))


def test_each_transaction_is_one_operation_of_its_own_kind(tmp_path: Path) -> None:
    load = read_load(Location.of(made(tmp_path)))
    assert load is not None
    assert len(load.due_ns) == 4000
    assert (load.kind == "transaction").sum() == 400
    assert "append" not in load.kind


def test_rates_and_latencies_of_all_operations_are_those_without_steps(tmp_path: Path) -> None:
    plain = read_run(made(tmp_path / "plain", transactions=False)).estimates
    found = read_run(made(tmp_path / "together")).estimates
    for name in ("before.rate", "faults.rate", "before.all.p99", "faults.all.p50"):
        assert found[name] == plain[name], name
    assert found["faults.rate"].value == pytest.approx(100.0, rel=0.01)


def test_transactions_have_latencies_and_a_trend_of_their_own(tmp_path: Path) -> None:
    run = made(tmp_path)
    found = read_run(run)
    assert found.estimates["faults.transaction.p99"].value > 0
    rows = {row.objective for row in rows_of(found, read_description(run).expectations)}
    assert "faults.transaction.p99" in rows
    assert "faults.append.p99" not in rows


def test_tables_that_know_no_steps_are_read_as_before(tmp_path: Path) -> None:
    run = made(tmp_path, transactions=False)
    before = read_run(run)
    for file in (run / "tables" / "ops").iterdir():
        pq.write_table(pq.read_table(file).drop_columns(["step"]), file)
    assert read_run(run) == before
