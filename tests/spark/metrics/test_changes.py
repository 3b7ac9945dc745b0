"""What moved in a fault and in a window, from a run folder's samples, by Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

from tests.histories.made_metrics import STALE, MadeSeries, write_metrics
from zonequake_analysis.measures.availability.fault_times import Repetition
from zonequake_analysis.measures.availability.windows import Unavailability
from zonequake_analysis.measures.rebalances import FaultLanding
from zonequake_analysis.metrics.metric_facts import MetricFacts, Moved, metric_facts, of_nodes

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

START_MS = 1_700_000_000_000
SECONDS = 180
KILLED, BACK = 60, 90
"""Seconds from and to which the fault lasts."""

Known = tuple[Path, MetricFacts]


def noise(second: int) -> float:
    """Between -1 and 1, and the same in each run."""
    return ((second * 2654435761) % 1000) / 500 - 1


def in_fault(second: int) -> bool:
    return KILLED <= second < BACK


def counter(quiet: float, during: float) -> dict[int, float]:
    """A counter's values by second: `quiet` a second, with noise, and `during` in the fault."""
    values, total = {}, 0.0
    for second in range(SECONDS):
        total += during if in_fault(second) else quiet * (1 + 0.05 * noise(second))
        values[second] = total
    return values


def buckets(second: int) -> dict[str, float]:
    """Ten commits a second: within 1 ms, and between 10 and 100 ms in the fault."""
    slow = 10.0 * max(0, min(second, BACK - 1) - KILLED + 1)
    every = 10.0 * second
    return {"0.001": every - slow, "0.01": every - slow, "0.1": every, "+Inf": every}


def made() -> list[MadeSeries]:
    requests, errors = counter(100, 20), counter(0, 3)
    restarted = counter(100, 100)
    node = {"pod": "zq-default-0", "instance": "10.0.0.1:8080"}
    other = {"pod": "zq-default-1", "instance": "10.0.0.2:8080"}

    def born_again(second: int) -> float | None:
        """Its process is gone from 60 to 69, and counts from zero then."""
        if second < KILLED:
            return restarted[second]
        if second == KILLED:
            return STALE
        return None if second < KILLED + 10 else restarted[second] - restarted[KILLED + 9]

    series = [
        MadeSeries(metric="up", labels=node, value=lambda s: 1.0),
        MadeSeries(metric="zonequake_store_client_requests_total", labels=node, value=requests.get),
        MadeSeries(metric="zonequake_load_errors_total", labels=node, value=errors.get),
        MadeSeries(metric="zonequake_store_turns_total", labels=other, value=born_again),
        MadeSeries(metric="zonequake_store_term", labels=node, value=lambda s: 3.0),
        MadeSeries(
            metric="zonequake_store_loop_lag_seconds",
            labels=node,
            value=lambda s: 0.4 if s == 75 else 0.01 + 0.001 * noise(s),
        ),
        # 0, 1 or 2 a second: nothing else is seen in the fault than chance brings.
        MadeSeries(
            metric="zonequake_store_seldom_total",
            labels=node,
            value=lambda s: float(s + (s % 5 == 0)),
        ),
        # Grows all the time: its level says nothing, its rate does.
        MadeSeries(metric="zonequake_store_applied_index", labels=node, value=lambda s: 50.0 * s),
        MadeSeries(metric="zonequake_store_restful", labels=node, value=lambda s: noise(s)),
    ]
    series += [
        MadeSeries(
            metric=f"zonequake_store_catch_up_{name}_bytes",
            labels=node | {"partition": str(partition)},
            value=lambda s: 1e6 if in_fault(s) else 0.0,
        )
        for name in ("sent", "done", "total")
        for partition in range(8)
    ]
    series += [
        MadeSeries(
            metric="zonequake_store_commit_seconds_bucket",
            labels=node | {"environment": "log", "le": le},
            value=lambda s, le=le: buckets(s)[le],  # type: ignore[misc]
        )
        for le in buckets(0)
    ]
    return series


def landing() -> FaultLanding:
    return FaultLanding(
        name="kill-peer",
        times=1,
        effective=1,
        type="pod_kill",
        targets=("zq-default-0",),
        each=(
            Repetition(start_ns=KILLED * 10**9, over_ns=BACK * 10**9, targets=("zq-default-0",)),
        ),
        start_ns=KILLED * 10**9,
        effective_ns=KILLED * 10**9,
        stop_ns=None,
        recovered_ns=BACK * 10**9,
        over_ns=BACK * 10**9,
        asked="",
        landed="",
        progress=None,
        partition=None,
        missed="",
    )


def window() -> Unavailability:
    return Unavailability(
        zone="z1",
        partition=3,
        function="write",
        start_ns=75 * 10**9,
        end_ns=75 * 10**9 + 200_000_000,
        certain_ns=100_000_000,
        proven_ns=100_000_000,
        failed=3,
        vantages=("load-0",),
        total=True,
        causes=(),
    )


@pytest.fixture(scope="module")
def known(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Known:
    run = tmp_path_factory.mktemp("run")
    write_metrics(run, made(), start_ms=START_MS, seconds=SECONDS)
    facts = metric_facts(
        spark,
        run,
        faults=[landing()],
        windows=[window()],
        events=[],
        start_ns=0,
        end_ns=SECONDS * 10**9,
        wall_offset_ns=START_MS * 1_000_000,
    )
    assert facts is not None
    assert facts.problem == ""
    return run, facts


def moved(known: Known, metric: str, span: int = 0) -> list[Moved]:
    return [one for one in known[1].moved if (one.metric, one.span) == (metric, span)]


def changes(spark: SparkSession, known: Known, metric: str, span: int = 0) -> list[Row]:
    table = spark.read.parquet(str(known[0] / "tables" / "metric_changes"))
    return table.where((table.metric == metric) & (table.span == span)).collect()


def test_every_sample_is_in_the_table_with_its_labels_and_target(
    spark: SparkSession, known: Known
) -> None:
    written = pq.read_table(known[0] / "metrics" / "prometheus.parquet")
    table = spark.read.parquet(str(known[0] / "tables" / "metrics"))
    assert {"metric", "labels", "target", "t_ms", "value", "stale"} <= set(table.columns)
    assert table.count() == written.num_rows
    (row,) = table.where("stale").collect()
    assert (row["metric"], row["target"]) == ("zonequake_store_turns_total", "zq-default-1")
    assert row["value"] is None
    assert row["t_ms"] == START_MS + KILLED * 1000


def test_a_counter_that_slowed_down_is_told_by_its_rate_with_its_unit(known: Known) -> None:
    (one,) = moved(known, "zonequake_store_client_requests_total")
    assert (one.measure, one.unit) == ("rate", "times per second")
    assert one.before == pytest.approx(100, rel=0.05)
    assert one.during == pytest.approx(20)
    assert one.after == pytest.approx(100, rel=0.05)
    assert KILLED <= (one.at_ms - START_MS) / 1000 < BACK


def test_the_strongest_come_with_their_curves_from_before_the_fault_until_after(
    known: Known,
) -> None:
    (one,) = moved(known, "zonequake_store_client_requests_total")
    assert one.curve is not None
    seconds = [(t_ms - START_MS) / 1000 for t_ms in one.curve.t_ms]
    assert seconds[0] < KILLED - 20
    assert seconds[-1] > BACK + 20
    assert min(one.curve.value) == pytest.approx(20)
    assert max(one.curve.value) == pytest.approx(100, rel=0.06)


def test_what_began_with_the_fault_is_told_though_it_stood_still_before(known: Known) -> None:
    (one,) = moved(known, "zonequake_load_errors_total")
    assert (one.before, one.during, one.after) == (0.0, 3.0, 0.0)


def test_a_short_peak_is_told_in_the_window_that_it_fell_into(known: Known) -> None:
    (one,) = moved(known, "zonequake_store_loop_lag_seconds", span=1)
    assert (one.during, one.unit) == (0.4, "seconds")
    assert one.at_ms == START_MS + 75_000


def test_a_quantile_comes_from_the_buckets_steps(known: Known) -> None:
    found = {one.measure: one for one in moved(known, "zonequake_store_commit_seconds")}
    assert found["p99"].before == pytest.approx(0.00099)
    assert found["p99"].during == pytest.approx(0.01 + 0.09 * 0.99)
    assert found["p99"].unit == "seconds"
    assert found["p99"].labels["environment"] == "log"
    assert "le" not in found["p99"].labels


def test_a_family_has_two_places_at_most_among_the_strongest(known: Known) -> None:
    catch_up = [one for one in known[1].moved if "catch_up" in one.metric and one.span == 0]
    assert len(catch_up) == 2
    assert len([one for one in known[1].moved if one.span == 0]) <= 10


def test_steady_growth_and_noise_are_no_change(known: Known) -> None:
    assert moved(known, "zonequake_store_applied_index") == []
    assert moved(known, "zonequake_store_restful") == []
    assert moved(known, "zonequake_store_seldom_total") == []


def test_no_rate_spans_a_stale_marker_and_a_gap_is_a_gap(spark: SparkSession, known: Known) -> None:
    (row,) = changes(spark, known, "zonequake_store_turns_total")
    assert row["gap_ms"] == 10_000, "from the marker to the first sample after it"
    assert row["during"] == pytest.approx(100, rel=0.06), "not 0, and not what it fell by"
    assert row["score"] < 3
    targets = known[1].targets
    assert targets is not None
    gaps = [(gap.target, gap.start_ms - START_MS, gap.end_ms - START_MS) for gap in targets.gaps]
    assert gaps == [("zq-default-1", 59_000, 70_000)]


def test_a_series_without_a_sample_in_a_span_has_no_value_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    def silent(second: int) -> float | None:
        return None if 70 <= second < 100 else float(second % 7)

    write_metrics(
        tmp_path,
        [
            MadeSeries(metric="a_level", labels={"pod": "x"}, value=silent),
            MadeSeries(metric="other", labels={"pod": "y"}, value=lambda s: float(s % 5)),
        ],
        start_ms=START_MS,
        seconds=SECONDS,
    )
    facts = metric_facts(
        spark,
        tmp_path,
        faults=[],
        windows=[window()],
        events=[],
        start_ns=0,
        end_ns=SECONDS * 10**9,
        wall_offset_ns=START_MS * 1_000_000,
    )
    assert facts is not None
    (row,) = changes(spark, (tmp_path, facts), "a_level")
    assert (row["samples"], row["during"], row["score"]) == (0, None, None)
    assert row["gap_ms"] > 3000


def test_the_load_of_the_node_that_mattered_stands_beside(known: Known) -> None:
    facts = known[1]
    assert facts.spans is not None
    shown = {(one.metric, one.measure): one for one in of_nodes(facts, facts.spans.spans[0])}
    assert shown["zonequake_store_commit_seconds", "p99"].during == pytest.approx(0.0991)
    assert shown["zonequake_store_loop_lag_seconds", "level"].target == "zq-default-0"


def test_samples_that_cannot_be_read_are_a_problem_in_words(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "prometheus.parquet").write_bytes(b"PAR1 and no more")
    facts = metric_facts(
        spark,
        tmp_path,
        faults=[],
        windows=[],
        events=[],
        start_ns=0,
        end_ns=1,
        wall_offset_ns=0,
    )
    assert facts is not None
    assert "can't be read as samples" in facts.problem
