"""What a vantage that didn't probe may hide: no data is not success, nor failure of any length."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.unit.analysis.made_up_probes import SECOND, island, vantage
from zonequake_analysis.inputs.run_folder import Expectations, RecordedEvent
from zonequake_analysis.judgement.latency import P99s
from zonequake_analysis.judgement.objectives import objective_checks
from zonequake_analysis.measures.availability.probes import Island
from zonequake_analysis.measures.availability.windows import Availability, availability
from zonequake_analysis.verdict import Check, Verdict


def seen(*islands: Island) -> Availability:
    return availability([vantage(), vantage("load-1")], islands, [])


def test_a_silence_hides_no_more_than_itself_and_the_failures_that_touch_it() -> None:
    alone = island(10, 10.5, silent=True)
    assert seen(alone).hidden_ns == SECOND // 2
    before, after = island(8, 10, silent=False), island(10.5, 12, silent=False)
    assert seen(before, alone, after).hidden_ns == 4 * SECOND
    far = island(20, 29, silent=False)
    assert seen(before, alone, far).hidden_ns == 2.5 * SECOND
    of_another = island(10, 19, silent=False, name="load-1")
    assert seen(alone, of_another).hidden_ns == SECOND // 2
    assert seen(far).hidden_ns == 0


def quiet(at_s: float) -> RecordedEvent:
    return phase("quiet", at_s)


def phase(name: str, at_s: float) -> RecordedEvent:
    return RecordedEvent(kind="run.phase", time=int(at_s * SECOND), data={"phase": name})


@pytest.mark.parametrize(
    ("last_s", "events", "one_clock", "silent_s"),
    [
        # One stops for good, and the other one goes on; or both stop long before the load does.
        ((20, 30), [], True, [10]),
        ((20, 30), [quiet(30)], True, [10]),
        ((20, 20), [quiet(30)], True, [10, 10]),
        ((20, 20), [quiet(30)], False, []),
        # Both go on until the load ends, or nothing says that it went on.
        ((30, 29.8), [], True, []),
        ((30, 30.4), [quiet(30)], True, []),
        ((20, 20), [], True, []),
    ],
)
def test_a_vantage_that_stops_for_good_is_silent_until_the_load_ends(
    last_s: tuple[float, float], events: list[RecordedEvent], one_clock: bool, silent_s: list[int]
) -> None:
    vantages = [vantage(f"load-{n}", last_s=last) for n, last in enumerate(last_s)]
    found = availability(vantages, [], events, one_clock=one_clock)
    silences = [(one.possible[1] - one.possible[0]) / SECOND for one in found.silences]
    assert silences == silent_s
    assert found.hidden_ns == max(silent_s, default=0) * SECOND


def test_failures_until_a_vantage_stops_for_good_may_have_gone_on() -> None:
    gone = [vantage("load-0", last_s=20), vantage("load-1", last_s=30)]
    assert availability(gone, [island(15, 20)], []).hidden_ns == 15 * SECOND


@pytest.mark.parametrize(
    ("first_s", "events", "one_clock", "silent_s"),
    [
        ((0, 18), [phase("before", 0), phase("faults", 10)], True, [8]),
        ((18, 18), [phase("before", 0), phase("faults", 10)], True, [8, 8]),
        ((18, 18), [phase("before", 0), phase("faults", 10)], False, []),
        # It began as the load did, or nothing says when that was.
        ((0, 10.3), [phase("before", 0), phase("faults", 10)], True, []),
        ((5, 9), [phase("before", 0), phase("faults", 10)], True, []),
        ((0, 18), [phase("before", 0)], True, []),
    ],
)
def test_a_vantage_that_begins_after_the_faults_is_silent_until_then(
    first_s: tuple[float, float], events: list[RecordedEvent], one_clock: bool, silent_s: list[int]
) -> None:
    vantages = [vantage(f"load-{n}", first_s=first) for n, first in enumerate(first_s)]
    found = availability(vantages, [], events, one_clock=one_clock)
    silences = [(one.possible[1] - one.possible[0]) / SECOND for one in found.silences]
    assert silences == silent_s
    check = judged(found, Expectations(max_window_ms=500))
    assert check.verdict is (Verdict.UNKNOWN if silent_s else Verdict.PASSED)


@pytest.mark.parametrize(
    ("others", "missing"),
    [
        ([], ()),
        ([("z", 1), ("y", 0)], (("y", 0), ("z", 1))),
        ([("z", 2)], ()),
        ([("z", 3)], (("z", 3),)),
    ],
)
def test_a_partition_that_no_vantage_probed_shows_no_window_and_keeps_no_limit(
    others: list[tuple[str, int]], missing: tuple[tuple[str, int], ...]
) -> None:
    """`z/2` has both classes, `z/3` one."""
    more = [(0, "read"), (2, "read"), (2, "write"), (3, "read")]
    probed = [msgspec.structs.replace(vantage(), partition=p, function=f) for p, f in more]
    found = availability([vantage(), *probed], [], [], partitions=[("z", 0), ("z", 0), *others])
    assert found.never_probed == missing
    check = judged(found, Expectations(max_window_ms=500))
    assert check.verdict is (Verdict.UNKNOWN if missing else Verdict.PASSED)
    told = f"{len(missing)} partitions were never probed, or not by every class: "
    assert (told in check.summary) is bool(missing)
    assert judged(found, Expectations()).verdict is Verdict.PASSED
    long = replace(found, windows=availability([vantage()], [island(10, 16)], []).windows)
    assert judged(long, Expectations(max_window_ms=500)).verdict is Verdict.SLO_BREACHED


def judged(found: Availability, limits: Expectations) -> Check:
    evidence: Any = SimpleNamespace(
        description=SimpleNamespace(expectations=limits, has_control=False),
        availability=found,
        rebalances=(),
        p99=P99s(),
        one_clock=True,
    )
    return next(check for check in objective_checks(evidence) if check.name == "availability")


@pytest.mark.parametrize(
    ("limits", "verdict"),
    [
        (Expectations(), Verdict.PASSED),
        (Expectations(max_window_ms=4000), Verdict.PASSED),
        (Expectations(max_window_ms=3000), Verdict.UNKNOWN),
        (Expectations(max_window_ms=9000, max_reset_window_ms=3000), Verdict.UNKNOWN),
    ],
)
def test_a_limit_is_shown_where_nothing_longer_can_be_hidden(
    limits: Expectations, verdict: Verdict
) -> None:
    check = judged(seen(island(8, 10, silent=False), island(10, 12, silent=True)), limits)
    assert check.verdict is verdict
    assert check.excluded == 1
    assert "1 times a vantage did not probe" in check.summary
    hidden = "which can hide a window of 4,000 ms, longer than the 3,000 ms that are allowed"
    assert (hidden in check.summary) is (verdict is Verdict.UNKNOWN)
