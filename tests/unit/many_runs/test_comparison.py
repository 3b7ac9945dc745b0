"""A planted regression is found, and a sound pair passes, with its numbers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from zonequake_analysis.judgement.verdict_json import CheckEntry, VerdictDocument
from zonequake_analysis.many_runs.bounds import Bounds, parse_bounds
from zonequake_analysis.many_runs.comparison import (
    Conclusion,
    RowOutcome,
    RunComparison,
    compare,
    fisher,
)
from zonequake_analysis.many_runs.measured_run import (
    MeasuredMetric,
    MeasuredRun,
    measured,
    of_verdict,
)
from zonequake_analysis.many_runs.quantities import Estimate
from zonequake_analysis.many_runs.tell_comparison import to_json, to_markdown, to_text
from zonequake_analysis.verdict import Verdict

P99, RATE, WINDOW = "faults.all.p99", "faults.rate", "window.longest"
DEFAULT = parse_bounds([])


def near(value: float, margin: float = 0.05) -> Estimate:
    return Estimate(value=value, low=value * (1 - margin), high=value * (1 + margin))


def run(
    name: str = "a",
    verdict: Verdict = Verdict.PASSED,
    *,
    scenario: str = "leader-kill",
    metrics: tuple[MeasuredMetric, ...] = (),
    target: str = "",
    hidden_ms: float = 0.0,
    **estimates: Estimate | float,
) -> MeasuredRun:
    named: Mapping[str, str] = {"p99": P99, "rate": RATE, "window": WINDOW}
    known: dict[str, Estimate | float] = {"p99": near(40.0), "rate": near(100.0), "window": 300.0}
    return MeasuredRun(
        folder=f"runs/{name}",
        run=name,
        scenario=scenario,
        seed="1",
        version="0.1.0",
        target=target,
        started_wall_ns=0,
        verdict=verdict,
        checks={"lost-writes": verdict},
        estimates={
            named.get(key, key): value if isinstance(value, Estimate) else Estimate.exact(value)
            for key, value in (known | estimates).items()
        },
        has_operations=True,
        metrics=metrics,
        hidden_window_ms=hidden_ms,
    )


def outcome(found: RunComparison, name: str) -> RowOutcome:
    return next(row.outcome for row in found.rows if row.quantity.name == name)


def test_a_sound_pair_passes() -> None:
    found = compare([run("a")], [run("b", p99=near(44.0), rate=near(97.0), window=420)], DEFAULT)
    assert found.conclusion is Conclusion.NO_REGRESSION
    assert found.exit_code == 0
    assert {row.outcome for row in found.rows} == {RowOutcome.WITHIN}


@pytest.mark.parametrize(
    ("name", "worse"),
    [
        (P99, run("b", p99=near(80.0))),
        (RATE, run("b", rate=near(70.0))),
        (WINDOW, run("b", window=Estimate(value=900, low=900, high=1100))),
    ],
)
def test_a_planted_regression_is_found_alone(name: str, worse: MeasuredRun) -> None:
    found = compare([run("a")], [worse], DEFAULT)
    assert found.exit_code == 3
    assert [r.quantity.name for r in found.rows if r.outcome is RowOutcome.REGRESSION] == [name]


def test_what_is_beyond_the_bound_and_within_the_interval_is_unknown_and_no_pass() -> None:
    wide = Estimate(value=80.0, low=30.0, high=math.inf)
    found = compare([run("a")], [run("b", p99=wide)], DEFAULT)
    assert outcome(found, P99) is RowOutcome.SUSPECT
    assert found.exit_code == 2
    assert "1 are beyond their bound" in found.headline
    assert "The intervals of 1 have no upper end" in found.headline
    assert to_text(found).startswith("? Unknown")
    closed = compare([run("a")], [run("b", p99=replace(wide, high=90.0))], DEFAULT)
    assert closed.exit_code == 2
    assert "no upper end" not in closed.headline


@pytest.mark.parametrize(("slower", "code"), [(1.0, 0), (1.1, 0), (1 / 3, 0), (3.0, 3)])
def test_latencies_three_times_as_long_are_a_regression_and_noise_is_none(
    slower: float, code: int
) -> None:
    base, candidate = (
        replace(
            run(name),
            estimates={
                "faults.all.p50": near(20 * factor),
                "faults.all.p95": near(40 * factor),
                P99: Estimate(value=90 * factor, low=60 * factor, high=math.inf),
            },
        )
        for name, factor in (("a", 1.0), ("b", slower))
    )
    found = compare([base], [candidate], DEFAULT)
    assert found.exit_code == code
    worse = [r.quantity.name for r in found.rows if r.outcome is RowOutcome.REGRESSION]
    assert worse == (["faults.all.p50"] if code else [])


def test_what_is_worse_for_certain_and_within_the_bound_is_no_regression() -> None:
    found = compare([run("a")], [run("b", p99=near(55.0))], DEFAULT)
    assert outcome(found, P99) is RowOutcome.WITHIN


def test_a_longer_window_counts_from_what_the_base_may_have_been() -> None:
    base = run("a", window=Estimate(value=300, low=300, high=1000))
    assert outcome(compare([base], [run("b", window=900)], DEFAULT), WINDOW) is RowOutcome.SUSPECT
    assert (
        outcome(compare([base], [run("b", window=1001)], DEFAULT), WINDOW) is RowOutcome.REGRESSION
    )


def judged_windows(hidden_ms: float, possible_ms: float = 400.0) -> MeasuredRun:
    """A run of a window of 300 ms, as its verdict tells it."""
    document = VerdictDocument(
        verdict=Verdict.PASSED,
        exit_code=0,
        checks=[CheckEntry(name="availability", verdict=Verdict.PASSED, summary="", checked=9)],
        numbers={
            "longest_window_certain_ms": 300.0,
            "longest_window_possible_ms": possible_ms,
            "longest_window_hidden_ms": hidden_ms,
        },
    )
    return measured("runs/b", "b", document, None, {})


def test_a_window_that_a_silence_may_hide_counts_only_if_none_is_known_to_be_as_long() -> None:
    assert judged_windows(5000.0).hidden_window_ms == 5000.0
    assert judged_windows(400.0).hidden_window_ms == 0
    assert judged_windows(0.0).hidden_window_ms == 0


def test_counts_of_windows_of_runs_with_silences_are_told_as_the_least() -> None:
    silent, whole = judged_windows(200.0), judged_windows(0.0)
    assert (silent.hides_windows, silent.hidden_window_ms, whole.hides_windows) == (True, 0, False)
    base, candidate = (
        replace(one, run=name, estimates={**run(name).estimates, "windows": Estimate.exact(2)})
        for one, name in ((whole, "a"), (silent, "b"))
    )
    found = compare([base], [candidate], DEFAULT)
    told = (
        "the numbers of windows, and of partitions with one, of 1 of 1 runs of the candidate are "
        "the least that there were, as silences of their probes may hide more: b"
    )
    assert [note for note in found.notes if "windows" in note] == [told]
    assert told in to_text(found)
    assert not any("windows" in note for note in compare([base], [base], DEFAULT).notes)


def test_a_run_in_which_silences_may_hide_a_longer_window_is_no_run_with_a_shorter_one() -> None:
    long, silent = run("a", window=4000), run("b", window=0, hidden_ms=9000)
    found = compare([long], [silent], DEFAULT)
    assert outcome(found, WINDOW) is RowOutcome.MISSING
    assert "the candidate has no longest window, certain" in found.headline
    assert found.notes[-1] == (
        "the longest window of 1 of 1 runs of the candidate is left out, as silences of their "
        "probes may hide a longer one: b"
    )
    of_sets = compare([long] * 3, [run("c", window=6000), silent, silent], DEFAULT)
    assert outcome(of_sets, WINDOW) is RowOutcome.REGRESSION
    assert "2 of 3 runs of the candidate" in of_sets.notes[-1]


def test_a_base_in_which_silences_may_hide_a_longer_window_shows_no_regression() -> None:
    silent, long = run("a", window=0, hidden_ms=9000), run("b", window=4000)
    found = compare([silent], [long], DEFAULT)
    assert outcome(found, WINDOW) is RowOutcome.MISSING
    assert found.headline.startswith("Unknown: the base has no longest window, certain.")
    assert "1 of 1 runs of the base" in found.notes[-1]
    assert outcome(compare([silent], [long], parse_bounds(["window=none"])), WINDOW) is (
        RowOutcome.SHOWN
    )


def test_what_a_silence_may_hide_does_not_matter_where_the_outcome_is_the_same() -> None:
    worse = compare([run("a", hidden_ms=2000)], [run("b", window=9000, hidden_ms=9900)], DEFAULT)
    assert outcome(worse, WINDOW) is RowOutcome.REGRESSION
    alike = compare([run("a")], [run("b", window=0, hidden_ms=700)], DEFAULT)
    assert outcome(alike, WINDOW) is RowOutcome.WITHIN
    better = compare([run("a", window=4000)], [run("b", window=0, hidden_ms=3700)], DEFAULT)
    assert outcome(better, WINDOW) is RowOutcome.WITHIN, "it may be no better than the bound"
    assert not any("left out" in note for one in (worse, alike, better) for note in one.notes)


def test_a_latency_that_no_client_minds_is_no_regression() -> None:
    slow = compare([run("a", p99=near(2.0))], [run("b", p99=near(9.0))], DEFAULT)
    assert outcome(slow, P99) is RowOutcome.WITHIN
    strict = compare(
        [run("a", p99=near(2.0))], [run("b", p99=near(9.0))], parse_bounds([], above_ms=5)
    )
    assert outcome(strict, P99) is RowOutcome.REGRESSION


def test_the_same_the_other_way_round_is_better() -> None:
    found = compare([run("a", p99=near(80.0))], [run("b")], DEFAULT)
    assert outcome(found, P99) is RowOutcome.BETTER
    assert found.exit_code == 0


def test_what_the_candidate_did_not_measure_is_unknown_and_no_pass() -> None:
    candidate = run("b")
    lacking = {k: v for k, v in candidate.estimates.items() if k != WINDOW}
    found = compare([run("a")], [replace(candidate, estimates=lacking)], DEFAULT)
    assert outcome(found, WINDOW) is RowOutcome.MISSING
    assert found.exit_code == 2


def test_runs_without_anything_that_has_a_bound_are_unknown() -> None:
    found = compare([run("a")], [run("b")], Bounds(by_family={}))
    assert found.exit_code == 2
    assert {row.outcome for row in found.rows} == {RowOutcome.SHOWN}


@pytest.mark.parametrize("verdict", [Verdict.UNKNOWN, Verdict.HARNESS_FAILED])
def test_a_run_that_showed_too_little_is_left_out(verdict: Verdict) -> None:
    slow = run("slow", verdict, p99=near(900.0))
    good = [run(f"b{i}") for i in range(3)]
    assert compare([run("a")], [*good, slow], DEFAULT).exit_code == 0
    alone = compare([run("a")], [slow], DEFAULT)
    assert alone.exit_code == 2
    assert alone.rows
    assert "1 of 1 runs of the candidate" in alone.headline


def test_a_violation_where_there_was_none_is_a_regression_whatever_the_numbers_say() -> None:
    found = compare([run("a")] * 9, [run("b")] * 8 + [run("c", Verdict.VIOLATED)], DEFAULT)
    assert found.exit_code == 3
    assert "1 of 9 candidate runs are violated" in found.headline


def violated(name: str, *checks: str, **estimates: Any) -> MeasuredRun:
    """A run in which just these checks are violated."""
    told = dict.fromkeys(("lost-writes", "stale-reads", "flicker"), Verdict.PASSED)
    told |= dict.fromkeys(checks, Verdict.VIOLATED)
    return replace(
        run(name, Verdict.VIOLATED if checks else Verdict.PASSED, **estimates), checks=told
    )


def test_a_check_that_only_the_candidate_violates_is_a_regression_by_its_name() -> None:
    base = violated("a", "flicker")
    found = compare([base], [violated("b", "flicker", "lost-writes")], DEFAULT)
    assert found.exit_code == 3
    assert found.newly_violated == ("lost-writes",)
    assert found.headline == (
        "Regression: lost-writes is violated in 1 of 1 candidate runs and in none of the base."
    )
    assert "lost-writes is violated in 1 of 1" in to_text(found)
    assert "lost-writes is violated in 1 of 1" in to_markdown(found).replace("&#45;", "-")
    told = json.loads(to_json(found))
    assert told["newly_violated"] == ["lost-writes"]
    assert compare([base], [violated("b", "flicker")], DEFAULT).exit_code == 0
    assert compare([violated("a", "flicker", "lost-writes")], [base], DEFAULT).exit_code == 0


def test_of_sets_a_check_is_new_if_no_base_run_violates_it() -> None:
    base = [violated("a", "flicker"), violated("b", "stale-reads"), violated("c")]
    after = [violated("d", "stale-reads"), violated("e", "flicker"), violated("f", "stale-reads")]
    assert compare(base, after, DEFAULT).exit_code == 0
    found = compare(base, [*after, violated("g", "lost-writes", "flicker")], DEFAULT)
    assert found.exit_code == 3
    assert "lost-writes is violated in 1 of 4 candidate runs" in found.headline


def test_a_first_violation_is_told_with_the_names_of_its_checks() -> None:
    found = compare([violated("a")], [violated("b", "flicker", "stale-reads")], DEFAULT)
    assert found.headline == (
        "Regression: 1 of 1 candidate runs are violated (stale-reads, flicker), none was."
    )


@pytest.mark.parametrize("name", ["lost", "stale"])
def test_one_more_wrong_answer_is_a_regression_without_being_asked_for(name: str) -> None:
    base, same, worse = (violated(who, **{name: n}) for who, n in (("a", 1), ("b", 1), ("c", 2)))
    assert compare([base], [same], DEFAULT).exit_code == 0
    found = compare([base], [worse], DEFAULT)
    assert found.exit_code == 3
    assert outcome(found, name) is RowOutcome.REGRESSION
    assert compare([base], [worse], parse_bounds([f"{name}=none"])).exit_code == 0


def test_a_missed_objective_is_a_regression_of_a_pair_and_of_sets_if_it_is_no_chance() -> None:
    missed = Verdict.SLO_BREACHED
    assert compare([run("a")], [run("b", missed)], DEFAULT).exit_code == 3
    assert compare([run("a", missed)], [run("b", missed)], DEFAULT).exit_code == 0
    once = [run("b", missed), *[run("b")] * 5]
    assert compare([run("a")] * 6, once, DEFAULT).exit_code == 0
    assert compare([run("a")] * 6, [run("b", missed)] * 5 + [run("b")], DEFAULT).exit_code == 3


@pytest.mark.parametrize(
    ("missed_before", "missed", "code"), [(0, 3, 3), (0, 2, 2), (0, 1, 0), (1, 3, 2), (2, 3, 0)]
)
def test_of_three_runs_a_median_that_misses_an_objective_is_no_pass(
    missed_before: int, missed: int, code: int
) -> None:
    """Chance alone leaves 1 of 20 for three of three, and 1 of 5 for two."""

    def three(name: str, bad: int) -> list[MeasuredRun]:
        return [run(name, Verdict.SLO_BREACHED)] * bad + [run(name)] * (3 - bad)

    found = compare(three("a", missed_before), three("b", missed), DEFAULT)
    assert found.exit_code == code
    words = f"{missed} of 3 candidate runs miss an objective"
    assert (words in found.headline) is bool(code)


def test_a_cleanup_that_is_not_proven_is_no_regression_of_the_store() -> None:
    candidate = run("b", Verdict.CLEANUP_NOT_PROVEN)
    assert compare([run("a")], [candidate], DEFAULT).exit_code == 0


@pytest.mark.parametrize("hidden", [Verdict.UNKNOWN, Verdict.HARNESS_FAILED])
def test_a_cleanup_that_is_not_proven_hides_no_run_that_showed_too_little(hidden: Verdict) -> None:
    idle = replace(
        run("b", Verdict.CLEANUP_NOT_PROVEN),
        checks={"cleanup": Verdict.CLEANUP_NOT_PROVEN, "faults": hidden},
    )
    found = compare([run("a")], [idle], DEFAULT)
    assert found.exit_code == 2
    assert "1 of 1 runs of the candidate showed too little" in found.headline
    assert replace(idle, checks=dict.fromkeys(idle.checks, Verdict.SLO_BREACHED)).usable
    assert replace(idle, verdict=Verdict.VIOLATED).usable, "a violation is never masked"


def test_writes_that_a_lost_group_took_are_lost_writes() -> None:
    def told(lost: int, of_groups: int) -> dict[str, Estimate]:
        checks = [
            CheckEntry(name=name, verdict=Verdict.PASSED, summary="", violations=count, checked=9)
            for name, count in (("lost-writes", lost), ("lost-groups", of_groups))
        ]
        return of_verdict(VerdictDocument(verdict=Verdict.PASSED, exit_code=0, checks=checks))

    assert told(3, 40)["lost"] == Estimate.exact(43)
    old, new = (replace(run(name), estimates=told(0, n)) for name, n in (("a", 0), ("b", 40)))
    assert compare([old], [new], parse_bounds(["lost=0"])).exit_code == 3


def test_fishers_test_has_the_numbers_of_the_tea_tasting() -> None:
    """Fisher, The Design of Experiments (1935): 4 of 4 and 3 of 4 cups of 8."""
    assert fisher(0, 4, 4, 4) == pytest.approx(1 / 70)
    assert fisher(1, 4, 3, 4) == pytest.approx(17 / 70)


def test_counts_of_sets_are_compared_also_where_a_side_has_none() -> None:
    bounds = parse_bounds(["resets=0"])
    none, some = [run("a", resets=0)] * 4, [run("b", resets=1)] * 4
    assert outcome(compare(none, some, bounds), "resets") is RowOutcome.REGRESSION
    assert outcome(compare(some, none, bounds), "resets") is RowOutcome.BETTER
    silent = [run("b", rate=Estimate.exact(0.0))] * 4
    assert outcome(compare([run("a")] * 4, silent, bounds), RATE) is RowOutcome.REGRESSION
    assert outcome(compare(silent, silent, bounds), RATE) is RowOutcome.WITHIN
    assert outcome(compare(silent, [run("a")] * 4, bounds), RATE) is RowOutcome.BETTER


def test_sets_are_compared_by_their_medians_so_that_one_bad_run_is_no_regression() -> None:
    base = [run("a", p99=near(v)) for v in (38.0, 40.0, 41.0, 39.0, 42.0)]
    same = [run("b", p99=near(v)) for v in (39.0, 41.0, 300.0, 40.0, 38.0)]
    assert compare(base, same, DEFAULT).exit_code == 0
    worse = [run("b", p99=near(v)) for v in (70.0, 74.0, 69.0, 80.0, 66.0)]
    found = compare(base, worse, DEFAULT)
    assert outcome(found, P99) is RowOutcome.REGRESSION
    row = next(row for row in found.rows if row.quantity.name == P99)
    assert row.change is not None
    assert row.change.value == pytest.approx(1.75)
    assert 1.5 < row.change.low < 1.75 < row.change.high < 2.2


def share_of_regressions(runs: int, worse: float, spread: float) -> float:
    """How many of 200 comparisons of so many runs a side are regressions of p99."""
    found = 0
    for seed in range(200):
        levels = 40 * np.random.default_rng(seed).lognormal(0, spread, (2, runs))
        base, candidate = (
            [run(f"r{i}", p99=near(level)) for i, level in enumerate(side)]
            for side in (levels[0], levels[1] * worse)
        )
        found += compare(base, candidate, DEFAULT).exit_code == 3
    return found / 200


def test_sets_of_five_seldom_show_a_regression_that_is_none_and_mostly_show_one_that_is() -> None:
    """Runs whose p99 spreads by a fifth; the page on how to compare runs has these shares."""
    assert share_of_regressions(5, 1.0, 0.2) <= 0.03
    assert share_of_regressions(5, 2.0, 0.2) >= 0.95
    assert 0.04 <= share_of_regressions(1, 1.0, 0.2) <= 0.12
    assert share_of_regressions(1, 2.0, 0.2) >= 0.75


def test_runs_of_two_scenarios_are_not_compared() -> None:
    with pytest.raises(ValueError, match="found runs of the scenarios leader-kill, other-one"):
        compare([run("a")], [run("b", scenario="other-one")], DEFAULT)


def test_a_run_of_no_scenario_is_compared_with_one_of_a_scenario_and_that_is_told() -> None:
    named, nameless = [run("a")], [run("b", scenario=""), run("c", scenario="")]
    found = compare(named, nameless, DEFAULT)
    assert found.exit_code == 0
    note = (
        "without a scenario in the candidate, so perhaps of other faults and another load than "
        "leader-kill: b, c"
    )
    assert note in found.notes
    assert note in to_text(found)
    assert "without a scenario in the base" in " ".join(compare(nameless, named, DEFAULT).notes)
    both = compare([*named, nameless[0]], [run("d"), nameless[1]], DEFAULT)
    assert sum("without a scenario" in told for told in both.notes) == 2
    assert not compare([nameless[0]], [nameless[1]], DEFAULT).notes[:-1]


def test_a_bound_that_is_asked_for_is_judged() -> None:
    bounds = parse_bounds(["resets=0", "sacrificed=10", "p99=none"])
    base = run("a", resets=1, sacrificed=100)
    assert compare([base], [run("b", resets=1, sacrificed=110)], bounds).exit_code == 0
    found = compare([base], [run("b", resets=2, sacrificed=111, p99=near(400.0))], bounds)
    worse = [r.quantity.name for r in found.rows if r.outcome is RowOutcome.REGRESSION]
    assert worse == ["resets", "sacrificed"]


@pytest.mark.parametrize(
    "given", ["p98=2", "p99", "p99=0.5", "rate=1.5", "window=-1", "p99=nan", "window=inf", "=1"]
)
def test_a_bound_that_makes_no_sense_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_bounds([given])


def metric(name: str, during: float, score: float) -> MeasuredMetric:
    return MeasuredMetric(
        name=name, measure="rate", unit="/s", before=1.0, during=during, score=score
    )


def test_metrics_stand_side_by_side_and_are_no_regression() -> None:
    quiet, cpu = metric("quiet_total", 1.1, 0.5), metric("cpu_total", 1.2, 1.0)
    base = [run("a", metrics=(quiet, cpu)) for _ in range(3)]
    after = [run("b", metrics=(quiet, metric("cpu_total", v, 20.0))) for v in (5.0, 6.0, 90.0)]
    found = compare(base, [*after, run("b", metrics=(metric("new_total", 7.0, 4.0),))], DEFAULT)
    assert [(row.name, row.base is None) for row in found.metrics] == [
        ("cpu_total", False),
        ("new_total", True),
    ]
    assert found.exit_code == 0
    text = " ".join(to_text(found).split())
    one, alike = "1 [1 … 1]", "1.2 [1.2 … 1.2]"
    assert f"cpu_total rate {one} → {alike} {one} → 6 [5 … 90] /s" in text
    assert "new_total rate – 1 → 7 [1 run] /s" in text


def test_metrics_of_one_run_or_two_have_no_interval_and_say_so() -> None:
    old, new = metric("cpu_total", 1.2, 9.0), metric("cpu_total", 5.0, 9.0)
    base = [run("a", metrics=(old,))]
    found = compare(base, [run("b", metrics=(new,)), run("c", metrics=(old,))], DEFAULT)
    text = " ".join(to_text(found).split())
    assert "cpu_total rate 1 → 1.2 [1 run] 1 → 3.1 [2 runs] /s" in text
    for told in (text, to_markdown(found)):
        assert "one run: no interval" in told
    (row,) = json.loads(to_json(found))["metrics"]
    assert row["base"]["during"] == {"value": 1.2, "low": None, "high": None, "runs": 1}


def test_the_interval_of_a_metric_is_that_of_the_median_of_runs() -> None:
    base = [run("a", metrics=(metric("cpu_total", 1.0 + n / 10, 9.0),)) for n in range(5)]
    after = [run("b", metrics=(metric("cpu_total", 2.0 + n, 9.0),)) for n in range(5)]
    (row,) = json.loads(to_json(compare(base, after, DEFAULT)))["metrics"]
    during = row["candidate"]["during"]
    assert (during["value"], during["runs"]) == (4.0, 5)
    assert 2.0 <= during["low"] < 4.0 < during["high"] <= 6.0
    assert row["base"]["during"]["high"] < during["low"], "beyond chance, as the two show"


EVIL = "x|y <script>alert(1)</script> [a](http://b) `c` *d* @user #12 www.e.org \x1b[31m\n# f"


def evil_comparison() -> RunComparison:
    metric = MeasuredMetric(name=EVIL, measure=EVIL, unit=EVIL, before=1.0, during=2.0, score=9.0)
    return compare([run(EVIL, metrics=(metric,), target=EVIL)], [run("b", p99=near(90.0))], DEFAULT)


def test_no_text_from_outside_is_markup_in_markdown() -> None:
    text = re.sub(r"&#\d+;", "¤", to_markdown(evil_comparison()))
    for mark in ("<script", "](", "`c`", "*d*", "@user", "#12", "www.e", "http://", "\x1b"):
        assert mark not in text, mark
    columns = {line.count("|") for line in text.splitlines() if line.startswith("| x")}
    assert columns == {6}
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# ✗ zonequake compare: regression"
    ]


def test_of_many_runs_the_first_are_named_and_the_rest_is_counted() -> None:
    base = [run(f"a{n}") for n in range(15)]
    few = [run(f"u{n}", Verdict.UNKNOWN) for n in range(7)]
    found = compare([*base, *few], [replace(one, has_operations=False) for one in base], DEFAULT)
    assert found.notes[:2] == (
        "left out of the base, for they showed too little: u0 (unknown), u1 (unknown), "
        "u2 (unknown), u3 (unknown), u4 (unknown), and 2 more",
        "without tables/ops in the candidate, so p99 of all operations alone and without an "
        "interval: a0, a1, a2, a3, a4, and 10 more; run `zonequake analyze` over them",
    )
    assert "base       a0, a1, a2," in to_text(found)
    assert "a11, and 3 more [" in to_text(found)


def test_no_text_from_outside_moves_the_cursor_of_a_terminal() -> None:
    text = to_text(evil_comparison())
    assert "\x1b" not in text
    assert "⟨U+001B⟩[31m" in text


def test_the_table_tells_numbers_intervals_and_bounds() -> None:
    text = to_text(compare([run("a")], [run("b", p99=near(80.0))], DEFAULT))
    assert text.startswith("✗ Regression: p99 of operations during the faults.")
    line = next(line for line in text.splitlines() if line.startswith("✗  p99"))
    assert " ".join(line.split()) == (
        "✗ p99 of operations during the faults 40 ms [38 … 42] 80 ms [76 … 84] ×2 ×1.5 at most"
    )


def test_the_json_says_the_same_with_null_for_an_open_end() -> None:
    wide = Estimate(value=80.0, low=30.0, high=math.inf)
    told = json.loads(to_json(compare([run("a")], [run("b", p99=wide)], DEFAULT)))
    row = next(row for row in told["rows"] if row["name"] == P99)
    assert (told["conclusion"], told["exit_code"]) == ("unknown", 2)
    assert row["candidate"] == {"value": 80.0, "low": 30.0, "high": None}
    assert (row["bound"], row["outcome"]) == (1.5, "suspect")
