"""The objective of latency: absolute beside relative, and against a control in the same run."""

from __future__ import annotations

import json
from math import nan
from pathlib import Path

import numpy as np
import pytest

from tests.unit.analysis.told_runs import check as entry
from tests.unit.analysis.told_runs import told
from zonequake_analysis.inputs.run_folder import Expectations, RecordedEvent, read_description
from zonequake_analysis.judgement.judge import _p99s, of_one_clock
from zonequake_analysis.judgement.latency import P99s, latency_check
from zonequake_analysis.judgement.pull_request import render_summary
from zonequake_analysis.measures.tally import BINS
from zonequake_analysis.measures.timeline import Latencies, Timeline
from zonequake_analysis.verdict import Check, Verdict

MS = 1e6
LIMITS = Expectations(p99_ratio=3, p99_ratio_above_ms=30, max_p99_ms=150)


def judged(
    before_ms: float,
    control_ms: float,
    during_ms: float,
    limits: Expectations,
    *,
    has_control: bool = True,
) -> Check:
    p99 = P99s(before_ns=before_ms * MS, control_ns=control_ms * MS, during_ns=during_ms * MS)
    return latency_check(p99, limits, has_control=has_control)


@pytest.mark.parametrize(
    ("before_ms", "control_ms", "during_ms", "verdict", "words"),
    [
        (14.7, 40, 64, Verdict.PASSED, "1.60 times as in the control"),
        (14.7, 12, 40, Verdict.PASSED, "2.72 times as before"),
        (7, 8, 29, Verdict.PASSED, "a ratio counts above 30 ms"),
        (7, 8, 31, Verdict.SLO_BREACHED, "3.88 times as in the control; more than 3 times"),
        (14.7, 20, 64, Verdict.SLO_BREACHED, "3.20 times as in the control; more than 3 times"),
        (20, 70, 160, Verdict.SLO_BREACHED, "more than the 150 ms that are allowed"),
        (200, 20, 210, Verdict.UNKNOWN, "and so was it without the faults: was there too little"),
        (103, 396, 306, Verdict.UNKNOWN, "0.77 times as in the control; more than the 150 ms"),
        (103, 396, 1300, Verdict.SLO_BREACHED, "more than 3 times"),
        (20, 40, 200, Verdict.SLO_BREACHED, "more than the 150 ms that are allowed; more than 3"),
    ],
)
def test_what_the_machine_costs_is_no_breach_and_what_the_store_costs_is_one(
    before_ms: float, control_ms: float, during_ms: float, verdict: Verdict, words: str
) -> None:
    check = judged(before_ms, control_ms, during_ms, LIMITS)
    assert check.verdict is verdict
    assert words in check.summary
    for shown in (before_ms, control_ms, during_ms):
        assert f"{shown:,.1f} ms" in check.summary


def test_a_control_that_is_planned_and_missing_leaves_the_latency_unknown() -> None:
    check = judged(10, nan, 20, LIMITS)
    assert check.verdict is Verdict.UNKNOWN
    assert "the control, which was to say what is the machine's, is missing" in check.summary
    assert judged(10, nan, 20, LIMITS, has_control=False).verdict is Verdict.PASSED
    assert judged(10, nan, 64, LIMITS, has_control=False).verdict is Verdict.SLO_BREACHED
    assert judged(10, nan, 160, LIMITS).verdict is Verdict.SLO_BREACHED, "no control excuses it"


def test_nothing_is_judged_without_limits_and_nothing_is_known_without_phases() -> None:
    assert judged(10, nan, 900, Expectations(), has_control=False).verdict is Verdict.PASSED
    unmeasured = latency_check(P99s(), LIMITS, has_control=False)
    assert (unmeasured.verdict, unmeasured.checked) == (Verdict.UNKNOWN, 0)
    assert latency_check(P99s(), Expectations(), has_control=False).verdict is Verdict.PASSED


def test_events_of_one_clock_are_of_the_historys_only_if_it_has_the_same() -> None:
    events = [RecordedEvent(kind="run.phase", time=1, clock=clock) for clock in ("a", "a", "")]
    assert of_one_clock(events)
    assert of_one_clock(events, ("a",))
    assert not of_one_clock(events, ("b",))
    assert not of_one_clock([], ("a", "b"))


def test_phases_of_another_clock_than_the_operations_say_nothing_of_latency() -> None:
    slow = P99s(before_ns=10 * MS, during_ns=900 * MS)
    for limits, verdict in ((LIMITS, Verdict.UNKNOWN), (Expectations(), Verdict.PASSED)):
        check = latency_check(slow, limits, has_control=False, one_clock=False)
        assert (check.verdict, check.checked) == (verdict, 0)
        assert "several clocks" in check.summary


def test_a_control_that_is_no_slower_than_the_quiet_time_excuses_nothing() -> None:
    assert P99s(before_ns=10, control_ns=9, during_ns=20).against == "before"
    assert P99s(before_ns=10, control_ns=11, during_ns=20).against == "control"
    assert P99s(before_ns=10, during_ns=20).ratio == 2
    assert P99s(control_ns=10, during_ns=20).against == ""


def timeline(by_second: list[int]) -> Timeline:
    """A run of so many seconds, each with a hundred operations in the bin that is given."""
    counts = np.zeros((len(by_second), BINS), np.int64)
    for second, place in enumerate(by_second):
        counts[second, place] = 100
    none = np.zeros(len(by_second), np.int64)
    return Timeline(
        start_ns=0,
        slice_ns=1_000_000_000,
        slices=len(by_second),
        latencies={"read": Latencies(counts=counts, max_ns=none, ok=none, bad=none)},
        partitions=(),
        counts={},
    )


def phases(**seconds: int) -> list[RecordedEvent]:
    return [
        RecordedEvent(kind="run.phase", time=at * 1_000_000_000, data={"phase": name})
        for name, at in seconds.items()
    ]


def test_each_phase_has_its_own_p99_and_the_control_is_in_neither_of_the_others() -> None:
    drawn = timeline([100, 100, 300, 300, 200, 200])
    found = _p99s(drawn, phases(before=0, control=2, faults=4, quiet=6))
    assert found.before_ns < found.during_ns < found.control_ns
    without = _p99s(drawn, phases(before=0, faults=4, quiet=6))
    assert np.isnan(without.control_ns)
    assert without.before_ns == found.control_ns
    assert np.isnan(_p99s(drawn, phases(before=0)).during_ns)


def test_the_plan_of_a_run_says_whether_there_is_a_control_to_compare_with(tmp_path: Path) -> None:
    expected = {"p99Ratio": 3, "p99RatioAboveMilliseconds": 30, "maxP99Milliseconds": 150}
    for control in ({"pool": "default", "nodes": 3}, None):
        plan: dict[str, object] = {"spec": {"control": control, "faults": []}}
        document = {"plan": plan, "expectations": expected}
        (tmp_path / "run.yaml").write_text(json.dumps(document))
        described = read_description(tmp_path)
        assert described.has_control is (control is not None)
        assert described.expectations == LIMITS


def test_the_summary_of_a_run_says_what_the_latency_was_judged_against() -> None:
    found = judged(14.7, 40, 64, LIMITS)
    run = told(entry("latency", summary=found.summary, checked=found.checked))
    line = next(line for line in render_summary([run]).splitlines() if line.startswith("Latency"))
    assert "14.7 ms before, 40.0 ms in the control and 64.0 ms during" in line
    assert "as in the control" in line
    idle = told(entry("latency", checked=0))
    assert "Latency:" not in render_summary([idle])
