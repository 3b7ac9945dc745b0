"""A window that a reset ended names it, and has a limit of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.spark.report.made_up_pages import made_up_judgement
from tests.unit.analysis.made_up_probes import SECOND, island, vantage
from zonequake_analysis.inputs.run_folder import Expectations, RecordedEvent
from zonequake_analysis.judgement.latency import P99s
from zonequake_analysis.judgement.objectives import objective_checks
from zonequake_analysis.measures.availability.windows import (
    Availability,
    Unavailability,
    availability,
)
from zonequake_analysis.report.page import render_page
from zonequake_analysis.report.write import verdict_document
from zonequake_analysis.verdict import Check, Verdict


def window(*events: RecordedEvent, one_clock: bool = True) -> Unavailability:
    """From 10 s to 16 s."""
    failed = island(10, 16, failed=60, inside_ns=1)
    (found,) = availability([vantage()], [failed], events, one_clock=one_clock).windows
    return found


def event(kind: str, at_s: float, partition: int | None = 0, **data: object) -> RecordedEvent:
    return RecordedEvent(
        kind=kind,
        time=int(at_s * SECOND),
        zone="z",
        partition=partition,
        node="n2",
        data=data,
    )


def test_a_reset_within_the_window_is_among_its_causes_behind_the_fault() -> None:
    fault = event("fault.start", 9.9, fault="outage", type="node_outage", targets=["n0", "n1"])
    reset = event("group.reset", 15.5, lineage=5)
    led = event("leader.change", 15.6, leader="n2", term=3)
    found = window(fault, reset, led)
    assert found.causes is not None
    assert [cause.kind for cause in found.causes] == ["fault.start", "group.reset", "leader.change"]
    assert found.causes[1].what == "reset: n2 goes on alone in lineage 5"
    assert found.by_reset


def test_a_reset_of_another_partition_or_after_the_window_explains_nothing() -> None:
    other = event("group.reset", 15.5, partition=1, lineage=5)
    late = event("group.reset", 16.5, lineage=5)
    assert not window(other, late).by_reset


@pytest.mark.parametrize(
    ("before", "within", "by_reset"),
    [((9,), (), False), ((9,), (15.5,), True), ((9.9,), (15.5,), True), ((9,), (10,), True)],
)
def test_a_reset_before_the_window_did_not_end_it_and_lends_it_no_limit(
    before: tuple[float, ...], within: tuple[float, ...], by_reset: bool
) -> None:
    told = [event("group.reset", at_s, lineage=5) for at_s in (*before, *within)]
    found = window(*told)
    assert found.by_reset is by_reset
    assert found.causes is not None
    assert [cause.kind for cause in found.causes] == ["group.reset"], "it may explain it"
    check = judged(found, Expectations(max_window_ms=500, max_reset_window_ms=7000))
    assert check.verdict is (Verdict.PASSED if by_reset else Verdict.SLO_BREACHED)


@pytest.mark.parametrize(
    ("limits", "verdict"),
    [
        (Expectations(max_reset_window_ms=7000), Verdict.PASSED),
        (Expectations(max_reset_window_ms=5000), Verdict.SLO_BREACHED),
        (Expectations(max_window_ms=500, max_reset_window_ms=7000), Verdict.PASSED),
        (Expectations(max_window_ms=500), Verdict.SLO_BREACHED),
    ],
)
def test_its_own_limit_stands_in_for_the_general_one(
    limits: Expectations, verdict: Verdict
) -> None:
    by_reset = window(event("group.reset", 15.5, lineage=5))
    check = judged(by_reset, limits)
    assert check.verdict is verdict
    assert "1 ended by a reset, the longest 6,000 ms" in check.summary


ENDED_AT_12 = event("pod.event", 12, partition=None, pod="n1", phase="Failed")


@pytest.mark.parametrize(
    ("limit_ms", "proof", "verdict"),
    [
        (4000, ENDED_AT_12, Verdict.PASSED),
        (3900, ENDED_AT_12, Verdict.SLO_BREACHED),
        (5900, event("pod.event", 12, phase="Running"), Verdict.SLO_BREACHED),
        (5900, event("pod.event", 9, phase="Failed"), Verdict.SLO_BREACHED),
        (5900, event("pod.event", 17, phase="Failed"), Verdict.SLO_BREACHED),
    ],
)
def test_a_reset_has_its_time_from_the_proof_of_the_last_loss(
    limit_ms: float, proof: RecordedEvent, verdict: Verdict
) -> None:
    first = event("pod.event", 11, partition=None, pod="n0", phase="Succeeded")
    found = window(
        event("group.reset", 15.5, lineage=5),
        *((proof, first) if proof is ENDED_AT_12 else (proof,)),
    )
    limits = Expectations(max_window_ms=500, max_reset_after_proof_ms=limit_ms)
    check = judged(found, limits)
    assert check.verdict is verdict
    assert ("4,000 ms after the proof" in check.summary) == (proof is ENDED_AT_12)


@pytest.mark.parametrize(
    ("members", "proven_s"),
    [
        # The pod is a member's, so its end may be what had to be proven.
        ([(1, ["n0", "n1", "n2"])], 4),
        ([(1, ["n0", "n2"]), (11, ["n0", "n1"])], 4),
        # It is not, or not any more, or not yet: it says nothing about this partition.
        ([(1, ["n0", "n2"])], 6),
        ([(1, ["n0", "n1"]), (9, ["n0", "n2"])], 6),
        ([(1, ["n0", "n2"]), (17, ["n0", "n1"])], 6),
    ],
)
def test_the_end_of_another_partitions_pod_proves_no_loss(
    members: list[tuple[float, list[str]]], proven_s: float
) -> None:
    changes = [event("partition.changed", at_s, stable=nodes) for at_s, nodes in members]
    elsewhere = event("partition.changed", 2, partition=1, stable=["n1"])
    told = sorted([*changes, elsewhere, ENDED_AT_12], key=lambda each: each.time)
    assert window(*told).proven_ns == pytest.approx(proven_s * SECOND, abs=2)
    pending = event("partition.changed", 1, stable=["n0", "n2"], pending=["n1"])
    assert window(pending, ENDED_AT_12).proven_ns == pytest.approx(4 * SECOND, abs=2)


def test_the_whole_window_is_judged_beside_what_lies_behind_the_proof() -> None:
    found = window(event("group.reset", 15.5, lineage=5), ENDED_AT_12)
    limits = Expectations(max_reset_window_ms=5000, max_reset_after_proof_ms=4000)
    check = judged(found, limits)
    assert check.verdict is Verdict.SLO_BREACHED
    assert "5,000 ms with a reset or 4,000 ms after its proof" in check.summary


@pytest.mark.parametrize(
    ("limits", "verdict"),
    [
        (Expectations(max_window_ms=500), Verdict.SLO_BREACHED),
        (Expectations(max_window_ms=7000), Verdict.PASSED),
        (Expectations(max_window_ms=500, max_reset_window_ms=7000), Verdict.UNKNOWN),
        (Expectations(max_window_ms=500, max_reset_window_ms=5000), Verdict.SLO_BREACHED),
        (Expectations(max_window_ms=7000, max_reset_window_ms=7000), Verdict.PASSED),
        (Expectations(max_window_ms=500, max_reset_after_proof_ms=4000), Verdict.UNKNOWN),
        (Expectations(max_window_ms=500, max_reset_after_proof_ms=3900), Verdict.UNKNOWN),
        (Expectations(max_reset_window_ms=5000), Verdict.UNKNOWN),
    ],
)
def test_events_of_another_clock_neither_explain_a_window_nor_show_a_proof(
    limits: Expectations, verdict: Verdict
) -> None:
    found = window(event("group.reset", 15.5, lineage=5), ENDED_AT_12, one_clock=False)
    assert (found.causes, found.by_reset) == (None, None)
    assert found.told_cause == "cause not known: the events are of another clock"
    assert found.proven_ns == found.certain_ns
    check = judged(found, limits)
    assert check.verdict is verdict
    assert "causes aren't known, as events and history are of several clocks" in check.summary
    assert "after the proof" not in check.summary


def test_reports_tell_that_a_cause_is_not_known(tmp_path: Path) -> None:
    made = made_up_judgement(partitions=1)
    (known,) = made.evidence.availability.windows
    windows = (replace(known, causes=None),)
    e = replace(made.evidence, availability=replace(made.evidence.availability, windows=windows))
    made = replace(made, evidence=e)
    page = render_page(tmp_path, made, told=lambda _: None)
    assert "cause not known: the events are of another clock" in page
    assert "1 unexplained" not in page
    document = verdict_document(tmp_path, made)
    assert document.numbers["windows_unexplained"] is None
    assert [one.cause for one in document.windows] == [windows[0].told_cause]


def test_a_window_without_a_reset_keeps_the_general_limit() -> None:
    limits = Expectations(max_window_ms=500, max_reset_window_ms=7000)
    check = judged(window(event("leader.change", 15.6, leader="n2", term=3)), limits)
    assert check.verdict is Verdict.SLO_BREACHED
    assert "longer than 500 ms or 7,000 ms with a reset" in check.summary


def judged(found: Unavailability, expectations: Expectations) -> Check:
    evidence: Any = SimpleNamespace(
        description=SimpleNamespace(expectations=expectations, has_control=False),
        availability=Availability(
            windows=(found,),
            vantages=(vantage(),),
            silences=(),
            hidden_ns=0,
            resolution_ns=SECOND // 10,
        ),
        rebalances=(),
        p99=P99s(),
        one_clock=True,
    )
    return next(check for check in objective_checks(evidence) if check.name == "availability")
