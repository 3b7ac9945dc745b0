"""A system's metrics of its own load: shown as its package declares them, and missing in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.histories.made_metrics import MadeSeries, write_metrics
from tests.spark.report.made_up_pages import made_up_judgement
from tests.unit.analysis.tasks_without_spark import without_spark
from zonequake_analysis.errors import RunFolderError
from zonequake_analysis.inputs.prometheus.server_metrics import OF_STORE, ServerMetric
from zonequake_analysis.inputs.run_folder import read_description
from zonequake_analysis.measures.availability.windows import Unavailability
from zonequake_analysis.metrics.metric_facts import MetricFacts, metric_facts, of_nodes
from zonequake_analysis.report.moved_metrics import span_cards, unknown_load
from zonequake_analysis.report.page import render_page

START_MS = 1_700_000_000_000
SECONDS, BROKE_S, HEALED_S = 120, 60, 80
FSYNC, HANDLED = "etcd_disk_wal_fsync_duration_seconds", "grpc_server_handling_seconds"
CPU, PENDING = "process_cpu_seconds_total", "etcd_server_proposals_pending"
DECLARED = (
    ServerMetric(metric=HANDLED, measure="p99", words="p99 of requests in the member"),
    ServerMetric(metric=PENDING, measure="level", words="proposals waiting"),
    ServerMetric(metric=FSYNC, measure="p99", words="p99 of the log's fsync"),
    ServerMetric(metric=CPU, measure="rate", words="CPU"),
    ServerMetric(metric="go_goroutines", measure="level", words="goroutines"),
)
MEMBER = {"component": "target", "pod": "zq-etcd-default-0"}
LOAD = {"component": "load", "instance": "10-0-0-1:8081"}


def broken(second: int) -> bool:
    return BROKE_S <= second < HEALED_S


def summed(rate: Callable[[bool], float]) -> Callable[[int], float]:
    return lambda s: sum(rate(broken(one)) for one in range(s + 1))


def histogram(metric: str, slow_s: str, **labels: str) -> list[MadeSeries]:
    """Ten a second within 1 ms, and while it is broken within `slow_s`."""
    fast = summed(lambda slow: 0.0 if slow else 10.0)
    buckets = {"0.001": fast, slow_s: summed(lambda _: 10.0), "+Inf": summed(lambda _: 10.0)}
    return [
        MadeSeries(metric=f"{metric}_bucket", value=value, labels={**MEMBER, **labels, "le": le})
        for le, value in buckets.items()
    ]


def etcd_like() -> list[MadeSeries]:
    """An etcd's series; the load has one of the same name, and moves more."""
    return [
        *histogram(HANDLED, "2.0", grpc_method="Txn"),
        *histogram(FSYNC, "1.024"),
        MadeSeries(metric=PENDING, value=lambda s: 40.0 if broken(s) else s % 3, labels=MEMBER),
        MadeSeries(metric=CPU, value=summed(lambda b: 0.99 if b else 0.2), labels=MEMBER),
        MadeSeries(metric=CPU, value=summed(lambda b: 9.0 if b else 0.1), labels=LOAD),
        MadeSeries(metric="python_gc_total", value=float, labels=LOAD),
        MadeSeries(metric="go_goroutines", value=lambda s: 90.0 + 900 * broken(s), labels=MEMBER),
    ]


def window() -> Unavailability:
    return Unavailability(
        zone="z1",
        partition=0,
        function="write",
        start_ns=BROKE_S * 10**9,
        end_ns=HEALED_S * 10**9,
        certain_ns=10**9,
        proven_ns=10**9,
        failed=3,
        vantages=("probe-0",),
        total=True,
        causes=(),
    )


@pytest.fixture
def facts_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., MetricFacts]:
    for module in ("table", "whole_run", "changes"):
        monkeypatch.setattr(f"zonequake_analysis.metrics.{module}.in_tasks", without_spark)

    def facts(declared: Sequence[ServerMetric] | None) -> MetricFacts:
        write_metrics(tmp_path, etcd_like(), start_ms=START_MS, seconds=SECONDS)
        found = metric_facts(
            None,  # type: ignore[arg-type]
            tmp_path,
            faults=[],
            windows=[window()],
            events=[],
            start_ns=0,
            end_ns=SECONDS * 10**9,
            wall_offset_ns=START_MS * 1_000_000,
            declared=declared,
        )
        assert found is not None
        assert found.problem == ""
        return found

    return facts


def test_a_members_latency_and_saturation_stand_in_the_order_of_their_declaration(
    facts_of: Callable[..., MetricFacts],
) -> None:
    facts = facts_of(DECLARED)
    assert facts.spans is not None
    found = {one.metric: one for one in of_nodes(facts, facts.spans.spans[0])}
    assert {one.target for one in found.values()} == {MEMBER["pod"]}, "the load's CPU is no load"
    assert found[HANDLED].labels["grpc_method"] == "Txn"
    assert found[HANDLED].during > 1 > 0.001 >= (found[HANDLED].before or 0)
    assert (found[CPU].unit, round(found[CPU].during, 2)) == ("seconds per second", 0.99)
    assert found["go_goroutines"].during == 990, "declared, so it isn't left out as quiet"
    judged = made_up_judgement(partitions=3)
    judged = replace(judged, evidence=replace(judged.evidence, metrics=facts))
    (card,) = span_cards(judged)
    assert [row.metric for row in card.load][2:] == [one.words for one in DECLARED]
    assert unknown_load(facts) == ""


def test_a_misspelt_name_is_a_sentence_of_the_report(
    facts_of: Callable[..., MetricFacts], tmp_path: Path
) -> None:
    misspelt = msgspec.structs.replace(DECLARED[2], metric="etcd_disk_wal_fsync_seconds")
    facts = facts_of([*DECLARED[:2], misspelt])
    assert facts.not_scraped == ["etcd_disk_wal_fsync_seconds"]
    judged = made_up_judgement(partitions=3)
    judged = replace(judged, evidence=replace(judged.evidence, metrics=facts))
    page = render_page(tmp_path, judged, told=lambda _: None)
    assert "there is no sample of etcd_disk_wal_fsync_seconds: not scraped, or the" in page


def test_a_name_that_only_the_load_tells_is_not_scraped_of_the_system(
    facts_of: Callable[..., MetricFacts],
) -> None:
    of_load = ServerMetric(metric="python_gc_total", measure="rate", words="collections")
    assert facts_of([of_load]).not_scraped == ["python_gc_total"]


def test_a_system_that_declares_nothing_is_said_to_give_none(
    facts_of: Callable[..., MetricFacts],
) -> None:
    facts = facts_of(())
    assert facts.saturation == []
    assert unknown_load(facts).startswith("The system under test gives no metrics of its own load")


def test_a_run_from_before_declarations_is_shown_as_our_stores_and_nothing_is_missing(
    facts_of: Callable[..., MetricFacts],
) -> None:
    facts = facts_of(None)
    assert (facts.server_metrics, facts.not_scraped) == (OF_STORE, [])
    assert unknown_load(facts) == unknown_load(None) == ""


def test_the_record_of_a_run_says_what_was_declared(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("run: r\n")
    assert read_description(tmp_path).server_metrics is None
    file.write_text("server_metrics: []\n")
    assert read_description(tmp_path).server_metrics == ()
    file.write_bytes(msgspec.yaml.encode({"server_metrics": DECLARED}))
    assert read_description(tmp_path).server_metrics == DECLARED
    file.write_text("server_metrics: [{metric: x_seconds, measure: p98, words: x}]\n")
    with pytest.raises(RunFolderError, match="Invalid enum value 'p98'"):
        read_description(tmp_path)


@pytest.mark.parametrize(
    ("metric", "measure", "words"),
    [
        ("etcd-fsync", "p99", "found the name 'etcd-fsync', expected letters, digits and _"),
        ("x_seconds", "p98", "found the measure 'p98', expected level, rate, p50 or p99"),
        ("x_seconds_bucket", "p99", "a histogram is named without _bucket"),
        ("x_seconds_bucket", "rate", "a histogram is named without _bucket"),
        ("x_total", "level", "expected rate of a name that ends in _total"),
        ("x_waiting", "rate", "and of no other"),
    ],
)
def test_a_declaration_that_would_show_nothing_is_a_problem(
    metric: str, measure: str, words: str
) -> None:
    given = ServerMetric(metric=metric, measure=measure, words="w")  # type: ignore[arg-type]
    assert words in given.problem
    assert [one.problem for one in (*DECLARED, *OF_STORE) if one.problem] == []
