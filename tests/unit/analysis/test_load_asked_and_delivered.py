"""A load that delivered less than half of what was asked for shows too little, and says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.unit.analysis.made_up_evidence import evidence, found
from zonequake_analysis.inputs.run_folder import RecordedEvent, read_description
from zonequake_analysis.judgement.judge import judge
from zonequake_analysis.measures.load_rate import LoadRate, load_rate
from zonequake_analysis.measures.tally import BINS
from zonequake_analysis.measures.timeline import Latencies, Timeline
from zonequake_analysis.report.summary import headline
from zonequake_analysis.verdict import Check, Kind, Verdict, worst

SECOND = 1_000_000_000


def phase(name: str, at_s: float) -> RecordedEvent:
    return RecordedEvent(kind="run.phase", time=int(at_s * SECOND), data={"phase": name})


PHASES = [phase("before", 10), phase("faults", 20), phase("quiet", 30), phase("final", 32)]


def drawn(ok_per_s: int, bad_per_s: int = 0, *, seconds: int = 40) -> Timeline:
    """So many operations in each second, also in those of other phases."""
    functions = Latencies(
        counts=np.zeros((seconds, BINS), np.int64),
        max_ns=np.zeros(seconds, np.int64),
        ok=np.full(seconds, ok_per_s, np.int64),
        bad=np.full(seconds, bad_per_s, np.int64),
    )
    return Timeline(
        start_ns=0,
        slice_ns=SECOND,
        slices=seconds,
        latencies={"write": functions},
        partitions=(),
        counts={},
    )


def pause(*times_s: tuple[float, float], name: str = "calm") -> list[RecordedEvent]:
    """A pause of the load, and when each of its times began and ended."""
    told = [
        (kind, at_s)
        for start_s, end_s in times_s
        for kind, at_s in (
            ("fault.start", start_s),
            ("fault.effective", start_s),
            ("fault.stop", end_s),
            ("fault.recovered", end_s),
        )
    ]
    data = {"fault": name, "type": "load_pause"}
    return [
        RecordedEvent(kind=kind, time=int(at_s * SECOND), data=dict(data)) for kind, at_s in told
    ]


def load_check(rate: LoadRate | None, **changes: Any) -> Check:
    checks = judge(evidence(load=rate, **changes))
    return next(check for check in checks if check.name == "load")


def rate(delivered: float, asked: float | None = 140.0, seconds: float = 20.0) -> LoadRate:
    return LoadRate(asked_per_s=asked, operations=int(delivered * seconds), seconds=seconds)


def test_operations_of_the_load_phases_count_whatever_their_outcome_and_no_others() -> None:
    measured = load_rate(140.0, drawn(100, 20), PHASES)
    assert measured == LoadRate(asked_per_s=140.0, operations=2400, seconds=20.0)
    assert measured.delivered_per_s == 120.0


def test_a_pause_of_the_load_that_the_plan_asked_for_is_no_time_of_load() -> None:
    paused = [*pause((22, 27)), *pause((38, 39), name="later")]
    measured = load_rate(140.0, drawn(100), [*PHASES, *paused])
    assert measured is not None
    assert measured.seconds == 15.0


def test_between_the_times_of_a_repeated_pause_the_load_is_expected() -> None:
    """The load doesn't come back after the first one."""
    gone = drawn(140)
    gone.latencies["write"].ok[15:] = 0
    measured = load_rate(140.0, gone, [*PHASES, *pause((15, 17), (26, 28))])
    assert measured == LoadRate(asked_per_s=140.0, operations=700, seconds=16.0)
    assert load_check(measured).verdict is Verdict.UNKNOWN


def test_a_pause_that_nothing_ended_lasts() -> None:
    lasting = pause((22, 27))[:2]
    measured = load_rate(140.0, drawn(100), [*PHASES, *lasting])
    assert measured is not None
    assert measured.seconds == 12.0


def test_a_run_that_broke_off_counts_up_to_its_end() -> None:
    measured = load_rate(140.0, drawn(100), [*PHASES[:2], phase("end", 25)])
    assert measured is not None
    assert measured.seconds == 15.0


def test_without_the_phases_nothing_is_measured() -> None:
    assert load_rate(140.0, drawn(100), []) is None
    assert load_rate(140.0, replace(drawn(1), latencies={}), PHASES) == LoadRate(
        asked_per_s=140.0, operations=0, seconds=20.0
    )


@pytest.mark.parametrize(
    ("delivered", "verdict"),
    [(140, Verdict.PASSED), (70, Verdict.PASSED), (69, Verdict.UNKNOWN), (0, Verdict.UNKNOWN)],
)
def test_less_than_half_is_unknown(delivered: float, verdict: Verdict) -> None:
    check = load_check(rate(delivered))
    assert (check.verdict, check.kind) == (verdict, Kind.COVERAGE)
    assert f"{delivered} of 140 operations per second" in check.summary
    assert check.judged


@pytest.mark.parametrize(("delivered", "verdict"), [(3, Verdict.PASSED), (0, Verdict.UNKNOWN)])
def test_the_rate_of_a_closed_loop_is_a_ceiling(delivered: float, verdict: Verdict) -> None:
    check = load_check(replace(rate(delivered), is_ceiling=True))
    assert (check.verdict, check.judged) == (verdict, True)
    assert f"made {delivered} operations per second in a closed loop" in check.summary
    assert "the scenario allows 140" in check.summary


@pytest.mark.parametrize("unknown", [None, rate(3, None), rate(3, 0.0), rate(3, seconds=4.0)])
def test_what_is_not_known_is_not_judged(unknown: LoadRate | None) -> None:
    check = load_check(unknown)
    assert not check.judged
    assert check.summary.startswith("not judged: ")


def test_times_of_several_clocks_are_not_compared() -> None:
    assert not load_check(rate(3), one_clock=False).judged


def headline_of(*, short: bool = False, **changes: Any) -> str:
    e = evidence(load=rate(31), **changes)
    checks = judge(e)
    judgement: Any = SimpleNamespace(
        evidence=e, checks=checks, verdict=worst(check.verdict for check in checks)
    )
    return headline(judgement, short=short)


SENTENCE = (
    "The load delivered 31 of 140 operations per second that the scenario asked for, "
    "less than half."
)


def test_the_headline_says_so_in_a_sentence_of_its_own_behind_any_verdict() -> None:
    assert headline_of() == SENTENCE
    violated = headline_of(found=found({("sets", "phantom"): 2}))
    assert violated == f"2 values were read that no operation wrote. {SENTENCE}"
    problems = headline_of(uncovered=3, bad_events=("events.jsonl:1: rubbish",))
    assert problems.endswith(f". {SENTENCE}")
    assert problems.count("delivered") == 1


def test_a_short_headline_has_the_first_sentence_of_a_summary_and_no_more_than_200_characters() -> (
    None
):
    many = tuple(f"history/load-0.jsonl, line {n}: found no key" for n in range(1, 40))
    quality = replace(evidence().quality, told_faults=many)
    told = headline_of(short=True, quality=quality)
    assert told.startswith("history/load-0.jsonl, line 1: found no key; history/load-0.jsonl, ")
    assert told.endswith(f" … {SENTENCE}")
    assert len(told) <= 200 + len(f" … {SENTENCE}")
    two = replace(quality, told_faults=("a line is wrong. Its words are many",))
    assert headline_of(short=True, quality=two) == f"a line is wrong … {SENTENCE}"
    assert headline_of(quality=two) == f"a line is wrong. Its words are many. {SENTENCE}"


@pytest.mark.parametrize("short", [False, True])
def test_a_headline_tells_three_checks_and_counts_the_others(short: bool) -> None:
    e = evidence()
    checks = [
        Check(kind=Kind.SAFETY, name=f"check-{n}", verdict=Verdict.VIOLATED, summary=f"{n} lost")
        for n in range(5)
    ]
    judgement: Any = SimpleNamespace(evidence=e, checks=checks, verdict=Verdict.VIOLATED)
    assert headline(judgement, short=short) == "0 lost; 1 lost; 2 lost; and 2 more."


def test_a_load_as_asked_is_not_in_the_headline() -> None:
    e = evidence(load=rate(139))
    judgement: Any = SimpleNamespace(evidence=e, checks=judge(e), verdict=Verdict.PASSED)
    assert "delivered" not in headline(judgement)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("plan: {spec: {zones: [{name: a}], load: {registerRate: 100.0, listRate: 40.0}}}", 140.0),
        (
            "plan: {spec: {zones: [{name: a}, {name: b}], load: {registerRate: 10, listRate: 4}}}",
            28,
        ),
        ("load: {register_rate: 7}", 7.0),
        ("load: {listRate: 7, transactions: {rate: 5, steps: 3}}", 12.0),
        ("load: {listRate: 7, transactions: null}", 7.0),
        ("plan: {spec: {zones: [{name: a}], load: {pods: 2}}}", None),
        ("seed: 1", None),
    ],
)
def test_the_rate_is_that_of_the_plan_for_all_its_zones(
    tmp_path: Path, text: str, asked: float | None
) -> None:
    (tmp_path / "run.yaml").write_text(text)
    assert read_description(tmp_path).load_per_s == asked


@pytest.mark.parametrize(
    ("load", "is_closed", "has_pressure"),
    [
        ("loop: closed, pressure: {processes: 3}", True, True),
        ("loop: open, pressure: null", False, False),
        ("pods: 1", False, False),
    ],
)
def test_a_run_says_whether_its_loop_was_closed_and_whether_it_had_pressure(
    tmp_path: Path, load: str, is_closed: bool, has_pressure: bool
) -> None:
    (tmp_path / "run.yaml").write_text(f"plan: {{spec: {{load: {{{load}}}}}}}")
    description = read_description(tmp_path)
    assert (description.load_is_closed, description.has_pressure) == (is_closed, has_pressure)


ASKED = "registerRate: 100.0, registerReads: 0.5, registerCas: 0.25, listRate: 40, listReads: 0.9"


@pytest.mark.parametrize(
    ("load", "zones", "asked"),
    [
        (ASKED, "[{name: a}]", {"cas": 25.0, "write": 25.0, "append": pytest.approx(4.0)}),
        ("transactions: {rate: 5, steps: 3}", "[{name: a}, {name: b}]", {"transaction": 10.0}),
        ("listRate: 40", "[{name: a}]", {}),
    ],
)
def test_a_run_says_how_often_each_function_was_asked_for(
    tmp_path: Path, load: str, zones: str, asked: dict[str, float]
) -> None:
    (tmp_path / "run.yaml").write_text(f"plan: {{spec: {{zones: {zones}, load: {{{load}}}}}}}")
    assert read_description(tmp_path).asked_per_s == asked


@pytest.mark.parametrize(
    ("per_s", "tried", "is_closed", "verdict"),
    [
        (10.0, False, False, Verdict.UNKNOWN),
        (10.0, True, False, Verdict.PASSED),
        (0.5, False, False, Verdict.PASSED),  # 10 of the 20 s: by chance
        (10.0, False, True, Verdict.PASSED),  # a closed loop's rate promises nothing
    ],
)
def test_a_function_that_was_asked_for_and_never_tried_makes_a_run_unknown(
    per_s: float, tried: bool, is_closed: bool, verdict: Verdict
) -> None:
    e = evidence(load=LoadRate(asked_per_s=140.0, operations=2800, seconds=20.0))
    counts = dict(e.counts) | ({("load", "transaction", "ok"): 7} if tried else {})
    description = replace(
        e.description, asked_per_s={"transaction": per_s}, load_is_closed=is_closed
    )
    (coverage,) = [
        check
        for check in judge(replace(e, counts=counts, description=description))
        if check.name == "coverage"
    ]
    assert coverage.verdict is verdict
    told = f"no transaction was tried, though the scenario asks for {per_s:g} per second"
    assert (told in coverage.summary) == (verdict is Verdict.UNKNOWN)


@pytest.mark.parametrize(
    ("f", "asked", "verdict"),
    [
        ("cas", {}, Verdict.PASSED),  # other tools' word for one that was refused
        ("cas", {"cas": 5.0}, Verdict.UNKNOWN),
        ("append", {}, Verdict.UNKNOWN),
    ],
)
def test_a_kind_of_which_none_worked_makes_a_run_unknown_but_for_an_imported_cas(
    f: str, asked: dict[str, float], verdict: Verdict
) -> None:
    e = evidence()
    counts = {("load", "write", "ok"): 9, ("final", "read", "ok"): 9, ("load", f, "fail"): 3}
    changed = replace(e, counts=counts, description=replace(e.description, asked_per_s=asked))
    (coverage,) = [check for check in judge(changed) if check.name == "coverage"]
    assert coverage.verdict is verdict
    assert (f"no {f} worked" in coverage.summary) == (verdict is Verdict.UNKNOWN)
