"""What the data nodes counted as answered, against the history's answers, over all of judging."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.analysis import made_up_evidence
from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.inputs.shapes import Function, OutcomeCode, RoleCode
from zonequake_analysis.judgement.evidence import Evidence
from zonequake_analysis.judgement.judge import judge
from zonequake_analysis.measures.answered_writes import HistoryWrites, answered_writes
from zonequake_analysis.measures.counted_resets import RecordedResets
from zonequake_analysis.measures.tally import extent, tally
from zonequake_analysis.measures.timeline import PartitionRow, Timeline, timeline
from zonequake_analysis.metrics.counters import ANSWERED, Counted
from zonequake_analysis.metrics.metric_facts import MetricFacts
from zonequake_analysis.metrics.scrapes import Gap, Targets
from zonequake_analysis.verdict import Check, Verdict, worst

LAST_MS = 200_000
WRITES = HistoryWrites(
    zones=frozenset({"z1"}), answered=100, open=5, last_ms=190_000, leaders=frozenset("ab")
)


def node(target: str, first: int, repeated: int = 0, **more: Any) -> list[Counted]:
    """What one node counted."""
    zone = more.pop("zone", "z1")
    return [
        Counted(
            metric=ANSWERED,
            labels={"zone": zone, "request": request},
            target=target,
            total=total,
            seen_ms=None,
            **more,
        )
        for request, total in (("first", first), ("repeated", repeated))
    ]


def facts(*counted: Counted, **more: Any) -> MetricFacts:
    targets = Targets(
        first_ms=more.pop("first_ms", 0),
        last_ms=LAST_MS,
        samples=1,
        series=1,
        scrape_ms={"": 1000, "a": 1000},
        gaps=more.pop("gaps", ()),
    )
    return MetricFacts(targets=targets, counted=counted, start_ms=10_000, **more)


def evidence(some: MetricFacts, writes: HistoryWrites | None = WRITES) -> Evidence:
    return made_up_evidence.evidence(metrics=some, writes=writes)


def judged(e: Evidence) -> Check:
    """The check, out of all checks of the run; the others find nothing."""
    checks = judge(e)
    (found,) = (one for one in checks if one.name == "store-counters")
    assert worst(one.verdict for one in checks if one is not found) is Verdict.PASSED
    return found


@pytest.mark.parametrize(
    "counted",
    [
        [*node("a", 60), *node("b", 40)],
        [*node("a", 60, 3), *node("b", 45)],
        [*node("a", 60), *node("b", 38, 2)],
        [*node("a", 60), *node("b", 40), *node("b", 900, zone="other")],
    ],
    ids=["as many", "unknown ones, too", "one answer came again", "another zone"],
)
def test_answers_that_the_history_holds_pass(counted: list[Counted]) -> None:
    found = judged(evidence(facts(*counted)))
    assert (found.verdict, found.judged) == (Verdict.PASSED, True)
    assert "can't be told" not in found.summary


def test_a_history_that_lacks_answered_writes_is_unknown() -> None:
    found = judged(evidence(facts(*node("a", 70), *node("b", 40))))
    assert (found.verdict, found.violations) == (Verdict.UNKNOWN, 5)
    assert "it lacks 5 writes, or a client that keeps no history" in found.summary


def test_a_history_that_lacks_them_is_unknown_though_a_node_was_not_scraped_all_the_time() -> None:
    gap = Gap(target="a", start_ms=1, end_ms=9000, ended=True)
    assert judged(evidence(facts(*node("a", 110), gaps=[gap]))).violations == 5


def test_a_history_with_answers_that_no_node_counted_is_unknown() -> None:
    found = judged(evidence(facts(*node("a", 60), *node("b", 37, 2))))
    assert (found.verdict, found.violations) == (Verdict.UNKNOWN, 1)
    assert "1 of its answers were counted by no node" in found.summary


GAP = Gap(target="a", start_ms=1, end_ms=9000, ended=True)
FEW = [*node("a", 60), *node("b", 9)]


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda: evidence(facts(*FEW, gaps=[GAP])), "a began again, or was not scraped all"),
        (lambda: evidence(facts(*node("a", 60), *node("b", 9, whole=False))), "b began again"),
        (lambda: evidence(facts(*node("a", 60))), "no counter of b was scraped"),
        (lambda: evidence(facts(*FEW, first_ms=8000)), "first scrape came after the history's"),
        (
            lambda: evidence(facts(*FEW), replace(WRITES, last_ms=LAST_MS - 2000)),
            "last scrape came before the history's last write",
        ),
        (lambda: evidence(facts(*FEW), replace(WRITES, leaders=frozenset())), "no journal says"),
        (lambda: replace(evidence(facts(*FEW)), one_clock=False), "several clocks"),
    ],
)
def test_fewer_answers_tell_nothing_if_some_may_not_have_been_scraped(
    made: Callable[[], Evidence], told: str
) -> None:
    (found,) = (one for one in judge(made()) if one.name == "store-counters")
    assert (found.verdict, found.judged) == (Verdict.PASSED, True)
    assert re.search(f"fewer than the history holds can't be told: .*{told}", found.summary)


def test_operations_that_are_refused_for_a_faulty_key_may_be_those_that_are_missing() -> None:
    plain = evidence(facts(*node("a", 70), *node("b", 40)))
    some = replace(plain, quality=replace(plain.quality, refused_operations=5))
    (found,) = (one for one in judge(some) if one.name == "store-counters")
    assert found.verdict is Verdict.PASSED


def test_more_answers_after_a_reset_are_not_judged() -> None:
    """A write of the lost lineage whose answer was lost, too, has its effect again."""
    for zone, judges in (("z1", False), ("other", True)):
        resets = RecordedResets(begun=Counter({zone: 1}))
        e = evidence(facts(*node("a", 110), resets=resets))
        (found,) = (one for one in judge(e) if one.name == "store-counters")
        assert found.judged == judges


@pytest.mark.parametrize(
    "e",
    [
        evidence(facts()),
        evidence(facts(*node("a", 900)), None),
        evidence(facts(*node("a", 900)), replace(WRITES, zones=frozenset({"z2"}))),
    ],
    ids=["no counters", "no writes", "another zone"],
)
def test_without_counters_of_the_historys_zones_nothing_is_judged(e: Evidence) -> None:
    assert not judged(e).judged


def test_writes_that_no_history_has_are_counted_and_so_nothing_is_judged() -> None:
    e = evidence(facts(*node("a", 60), *node("b", 60)))
    assert judged(e).verdict is Verdict.UNKNOWN
    found = judged(replace(e, description=replace(e.description, has_pressure=True)))
    assert (found.judged, found.verdict) == (False, Verdict.PASSED)
    assert "load.pressure" in found.summary


def test_the_last_answered_write_is_found_whatever_else_ended_later() -> None:
    rows = [
        (Function.WRITE, OutcomeCode.OK, 30),
        (Function.APPEND, OutcomeCode.OK, 50),
        (Function.APPEND, OutcomeCode.INFO, 70),
        (Function.READ, OutcomeCode.OK, 90),
    ]
    ops = pa.table(
        {
            "role": [RoleCode.PROBE.value] * 4,
            "f": [f.value for f, _, _ in rows],
            "outcome": [outcome.value for _, outcome, _ in rows],
            "sched": [0] * 4,
            "fin": [fin for _, _, fin in rows],
            "partition_id": [1] * 4,
            "zone": ["z1"] * 4,
            "partition": [0] * 4,
            "step": pa.nulls(4, pa.int32()),
        }
    )
    found = tally(ops, extent(0, 100))
    assert found.last_write_ns == 50
    reads = tally(ops.slice(3), extent(0, 100))
    assert reads.last_write_ns is None
    assert timeline([reads, found], start_ns=0, end_ns=100).last_write_ns == 50
    assert timeline([reads], start_ns=0, end_ns=100).last_write_ns is None


def test_the_historys_writes_are_those_of_all_roles_and_reads_are_none() -> None:
    counts = {
        ("load", "write", "ok"): 3,
        ("probe", "append", "ok"): 4,
        ("load", "cas", "ok"): 5,
        ("load", "read", "ok"): 600,
        ("probe", "append", "info"): 1,
        ("load", "write", "fail"): 7,
    }
    rows: list[Any] = [
        PartitionRow(zone=zone, partition=0, good=None, bad=None)  # type: ignore[arg-type]
        for zone in ("z1", "z2")
    ]
    drawn = Timeline(
        start_ns=0,
        slice_ns=1,
        slices=1,
        latencies={},
        partitions=tuple(rows),
        counts=counts,
        last_write_ns=5_000_000,
    )

    def leads(zone: str, leader: str | None) -> RecordedEvent:
        return RecordedEvent(
            kind="leader.change", time=1, zone=zone, partition=0, data={"leader": leader}
        )

    events = [leads("z1", "a"), leads("z2", None), leads("z3", "c")]
    assert answered_writes(drawn, events, wall_offset_ns=2_000_000) == HistoryWrites(
        zones=frozenset({"z1", "z2"}), answered=12, open=1, last_ms=7, leaders=frozenset("a")
    )
