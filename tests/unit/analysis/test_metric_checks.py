"""What Prometheus counted against what the run recorded; each check with the fault it must find."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.unit.analysis import made_up_evidence
from zonequake_analysis.inputs.prometheus.remote_read import LABELS
from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.judgement.evidence import Evidence
from zonequake_analysis.judgement.judge import judge
from zonequake_analysis.judgement.metric_checks import metric_checks
from zonequake_analysis.measures.counted_resets import RecordedResets, recorded_resets
from zonequake_analysis.metrics.alert_rules import AlertRule, Holding
from zonequake_analysis.metrics.counters import (
    DATA_LOST,
    LOAD_OPERATIONS,
    RESETS,
    Alert,
    Counted,
    alerts,
    increase,
)
from zonequake_analysis.metrics.metric_facts import MetricFacts, metric_facts
from zonequake_analysis.metrics.scrapes import Gap, Targets
from zonequake_analysis.metrics.tasks.selected import SeriesSamples
from zonequake_analysis.verdict import Check, Verdict, worst

LAST_MS = 200_000


def evidence(
    facts: MetricFacts | None,
    *,
    counts: Mapping[tuple[str, str, str], int] | None = None,
    cut_off: int = 0,
    journalled: int = 4,
) -> Evidence:
    plain = made_up_evidence.evidence(
        counts=dict(counts or {}), journalled=journalled, metrics=facts
    )
    return replace(plain, quality=replace(plain.quality, cut_off=cut_off))


def facts(*counted: Counted, **more: Any) -> MetricFacts:
    targets = Targets(
        first_ms=0,
        last_ms=LAST_MS,
        samples=1,
        series=1,
        scrape_ms={"": 1000},
        gaps=more.pop("gaps", ()),
    )
    return MetricFacts(targets=targets, counted=counted, **more)


def load(outcome: str, total: int, f: str = "write", target: str = "load-0") -> Counted:
    labels = {"role": "load", "f": f, "outcome": outcome}
    return Counted(metric=LOAD_OPERATIONS, labels=labels, target=target, total=total, seen_ms=None)


def operator(metric: str, total: int, seen_ms: int | None = None, *, whole: bool = True) -> Counted:
    return Counted(
        metric=metric,
        labels={"zone": "z1"},
        target="operator",
        total=total,
        seen_ms=seen_ms,
        whole=whole,
    )


def recorded(begun: int, *, empty: int = 0, late: int = 0, decided: int = 0) -> RecordedResets:
    return RecordedResets(
        begun=Counter(z1=begun),
        empty=Counter(z1=empty),
        seen=Counter(z1=begun - late),
        only_decided=Counter(z1=decided),
    )


def check(name: str, e: Evidence) -> Check:
    """The check, out of all checks of the run."""
    (found,) = (one for one in judge(e) if one.name == name)
    return found


HELD = {("load", "write", "ok"): 100, ("load", "write", "info"): 5, ("load", "read", "ok"): 50}


def test_a_run_without_metrics_has_no_such_check() -> None:
    assert metric_checks(evidence(None)) == []


def test_metrics_that_cannot_be_read_are_unknown() -> None:
    (found,) = metric_checks(evidence(MetricFacts(problem="no Parquet")))
    assert (found.verdict, found.summary) == (Verdict.UNKNOWN, "no Parquet")


def test_a_history_that_holds_more_than_was_scraped_last_is_whole() -> None:
    some = facts(load("ok", 60), load("ok", 38, target="load-1"), load("info", 5))
    found = check("load-counters", evidence(some, counts=HELD))
    assert (found.verdict, found.checked) == (Verdict.PASSED, 103)


def test_a_history_that_lost_lines_is_unknown() -> None:
    some = facts(load("ok", 62), load("ok", 45, target="load-1"))
    found = check("load-counters", evidence(some, counts=HELD))
    assert (found.verdict, found.violations) == (Verdict.UNKNOWN, 2)
    assert "write (load): 107 counted, 105 held" in found.summary


def test_a_history_that_lost_completions_is_unknown_unless_they_were_cut_off() -> None:
    some = facts(load("ok", 103))
    assert check("load-counters", evidence(some, counts=HELD)).verdict is Verdict.UNKNOWN
    torn = evidence(some, counts=HELD, cut_off=3)
    assert check("load-counters", torn).verdict is Verdict.PASSED


def test_without_the_loads_counters_nothing_is_judged_by_them() -> None:
    assert not check("load-counters", evidence(facts(), counts=HELD)).judged


@pytest.mark.parametrize(
    ("resets", "losses", "held", "told"),
    [
        (1, 0, recorded(0), "1 resets of z1 were counted, 0 are on record"),
        (3, 0, recorded(2), "3 resets of z1 were counted, 2 are on record"),
        (2, 1, recorded(2, empty=1), "2 resets of z1 were counted, 1 are on record"),
        (0, 1, recorded(0), "1 partitions of z1 that started over without"),
        (0, 2, recorded(0), "2 partitions of z1 that started over without"),
        (0, 2, recorded(1, empty=1), "2 partitions of z1 .* were counted, 1 are on record"),
        (0, 3, recorded(1, empty=1), "3 partitions of z1 .* were counted, 1 are on record"),
        (0, 0, recorded(1), "1 resets of z1 are on record, and the operator counted 0"),
        (1, 1, recorded(3, empty=1), "3 resets of z1 are on record, and the operator counted 2"),
    ],
)
def test_numbers_of_resets_that_differ_are_unknown(
    resets: int, losses: int, held: RecordedResets, told: str
) -> None:
    some = facts(operator(RESETS, resets), operator(DATA_LOST, losses), resets=held)
    found = check("operator-counters", evidence(some))
    assert (found.verdict, found.violations) == (Verdict.UNKNOWN, 1)
    assert re.search(told, found.summary)


@pytest.mark.parametrize(
    ("resets", "losses", "held"),
    [
        (1, 0, recorded(1)),
        (0, 2, recorded(2, empty=2)),
        (2, 1, recorded(3, empty=1)),
        (1, 0, recorded(2, late=1)),
        (2, 0, recorded(1, decided=1)),
        (1, 0, recorded(1, empty=1)),
    ],
    ids=["reset", "losses", "both", "after the last scrape", "replaced", "with an empty survivor"],
)
def test_numbers_of_resets_that_agree_pass(resets: int, losses: int, held: RecordedResets) -> None:
    some = facts(operator(RESETS, resets), operator(DATA_LOST, losses), resets=held)
    found = check("operator-counters", evidence(some))
    assert (found.verdict, found.judged) == (Verdict.PASSED, True)
    assert f"the journals have {held.begun['z1']} in all" in found.summary


def test_fewer_resets_than_on_record_tell_nothing_of_an_operator_with_a_gap() -> None:
    gap = Gap(target="operator", start_ms=1, end_ms=9000, ended=True)
    for unseen in (
        facts(operator(RESETS, 1), resets=recorded(2), gaps=[gap]),
        facts(operator(RESETS, 1, whole=False), resets=recorded(2)),
    ):
        found = check("operator-counters", evidence(unseen))
        assert found.verdict is Verdict.PASSED
        assert "fewer than there were can't be told: it was not scraped all" in found.summary


def test_resets_of_another_clock_than_the_history_may_have_come_after_the_last_scrape() -> None:
    e = evidence(facts(operator(RESETS, 1), resets=recorded(2)))
    assert check("operator-counters", e).verdict is Verdict.UNKNOWN
    found = check("operator-counters", replace(e, one_clock=False))
    assert found.verdict is Verdict.PASSED
    assert found.summary.endswith("can't be told: times of several clocks can't be compared")
    more = evidence(facts(operator(RESETS, 3), resets=recorded(2)))
    assert check("operator-counters", replace(more, one_clock=False)).verdict is Verdict.UNKNOWN


def test_without_journals_the_operators_counts_are_not_judged() -> None:
    some = facts(operator(RESETS, 1))
    assert not check("operator-counters", evidence(some, journalled=0)).judged


def test_alerts_that_fired_are_listed_with_zone_and_time() -> None:
    fired = alert("ZonequakeMajorityLost", "firing", 5000)
    some = facts(alerts=[fired, alert("ZonequakeNodesSilent", "pending", 1000)], start_ms=2000)
    found = check("alerts", evidence(some))
    assert found.summary == (
        "1 alerts fired: ZonequakeMajorityLost (z1) from 3 s; 1 were only pending"
    )
    assert (found.verdict, found.judged) == (Verdict.PASSED, True)


def test_of_many_alerts_the_first_are_named_and_the_rest_is_counted() -> None:
    fired = [alert("ZonequakeMajorityLost", "firing", 5000 + n) for n in range(20)]
    summary = check("alerts", evidence(facts(alerts=fired, start_ms=2000))).summary
    assert summary.startswith("20 alerts fired: ZonequakeMajorityLost (z1) from 3 s, Zonequake")
    assert summary.endswith("from 3 s, and 15 more")


def test_an_alert_that_should_have_fired_and_did_not_is_unknown() -> None:
    reset = operator(RESETS, 1, seen_ms=100_000)
    other = alert("ZonequakeMajorityLost", "firing", 90_000)
    checks = judge(evidence(facts(reset, alerts=[other], resets=recorded(1))))
    assert worst(one.verdict for one in checks) is Verdict.UNKNOWN
    (found,) = (one for one in checks if one.verdict is Verdict.UNKNOWN and one.name == "alerts")
    assert "did not within 45 s: ZonequakePartitionReset of zone z1" in found.summary
    told = [other, alert("ZonequakePartitionReset", "firing", 110_000)]
    assert check("alerts", evidence(facts(reset, alerts=told))).verdict is Verdict.PASSED
    late = facts(operator(RESETS, 1, seen_ms=LAST_MS - 20_000), alerts=[other])
    assert check("alerts", evidence(late)).verdict is Verdict.PASSED, "it had no time to"


@pytest.mark.parametrize(
    ("start_ms", "verdict"),
    [(5_000, Verdict.PASSED), (145_000, Verdict.PASSED), (145_001, Verdict.UNKNOWN)],
)
def test_an_alert_that_fired_too_late_did_not_fire_at_once(start_ms: int, verdict: Verdict) -> None:
    reset = operator(RESETS, 1, seen_ms=100_000)
    told = alert("ZonequakePartitionReset", "firing", start_ms)
    found = check("alerts", evidence(facts(reset, alerts=[told])))
    assert found.verdict is verdict
    assert ("did not within 45 s: Zone" in found.summary) is (verdict is Verdict.UNKNOWN)


def test_an_alert_is_found_among_however_many_that_were_pending_before() -> None:
    told = [("ZonequakeNodesSilent", "pending", {"pod": f"zq-{n}"}) for n in range(200)]
    told += [("ZonequakePartitionReset", "firing", {"zone": "z1"})]
    rows = [
        {
            "metric": "ALERTS",
            "labels": [("alertname", name), ("alertstate", state), *labels.items()],
            "first_ms": 90_000 + 100 * number,
            "last_ms": LAST_MS,
        }
        for number, (name, state, labels) in enumerate(told)
    ]
    types = [
        ("metric", pa.string()),
        ("labels", LABELS),
        ("first_ms", pa.int64()),
        ("last_ms", pa.int64()),
    ]
    found = alerts(pa.Table.from_pylist(rows, schema=pa.schema(types)))
    assert len(found) == 201
    some = facts(operator(RESETS, 1, seen_ms=100_000), alerts=found)
    judged = check("alerts", evidence(some))
    assert (judged.verdict, judged.violations) == (Verdict.PASSED, 0)
    assert judged.summary.endswith("200 were only pending")


def test_without_any_alert_nothing_shows_that_rules_were_loaded() -> None:
    found = check("alerts", evidence(facts(operator(RESETS, 1, seen_ms=100_000))))
    assert (found.verdict, found.judged) == (Verdict.PASSED, False)
    assert "ZonequakePartitionReset of zone z1 should have, if its rule was loaded" in found.summary


def rule(name: str, *held: tuple[int, int], for_ms: int = 30_000, problem: str = "") -> AlertRule:
    return AlertRule(
        name=name,
        expression="up",
        for_ms=for_ms,
        interval_ms=15_000,
        problem=problem,
        held=tuple(
            Holding(labels={"namespace": "n", "zone": "z1"}, start_ms=start_ms, end_ms=end_ms)
            for start_ms, end_ms in held
        ),
    )


def of_rules(*rules: AlertRule, alerts: Sequence[Alert] = (), **more: Any) -> Check:
    reset = more.pop("counted", ())
    return check("alerts", evidence(facts(*reset, alerts=alerts, rules=rules)))


@pytest.mark.parametrize(
    ("until_ms", "verdict"), [(84_999, Verdict.PASSED), (85_000, Verdict.UNKNOWN)]
)
def test_a_rule_that_held_for_its_time_and_the_limit_must_have_fired(
    until_ms: int, verdict: Verdict
) -> None:
    found = of_rules(rule("ZonequakeMajorityLost", (10_000, until_ms)))
    assert found.verdict is verdict
    if verdict is Verdict.UNKNOWN:
        assert found.violations == 1
        assert found.summary == (
            "no alert fired; 1 rules were loaded, 1 alerts had to fire; should have fired "
            "and did not within 45 s: ZonequakeMajorityLost of zone z1"
        )


@pytest.mark.parametrize(
    ("name", "state", "start_ms", "labels", "verdict"),
    [
        ("ZonequakeMajorityLost", "firing", 85_000, {}, Verdict.PASSED),
        ("ZonequakeMajorityLost", "firing", 85_001, {}, Verdict.UNKNOWN),
        ("ZonequakeMajorityLost", "pending", 20_000, {}, Verdict.UNKNOWN),
        ("ZonequakeNodesSilent", "firing", 50_000, {}, Verdict.UNKNOWN),
        ("ZonequakeMajorityLost", "firing", 50_000, {"zone": "z2"}, Verdict.UNKNOWN),
        ("ZonequakeMajorityLost", "firing", 50_000, {"severity": "page"}, Verdict.PASSED),
    ],
)
def test_the_alert_that_a_rule_had_to_fire_is_known_by_name_labels_and_time(
    name: str, state: str, start_ms: int, labels: dict[str, str], verdict: Verdict
) -> None:
    told = Alert(
        name=name,
        state=state,
        labels={"namespace": "n", "zone": "z1"} | labels,
        start_ms=start_ms,
        end_ms=LAST_MS,
    )
    found = of_rules(rule("ZonequakeMajorityLost", (10_000, 150_000)), alerts=[told])
    assert found.verdict is verdict


def test_an_alert_of_an_earlier_time_is_not_that_of_a_later_one() -> None:
    told = replace(alert("ZonequakeMajorityLost", "firing", 20_000), end_ms=40_000)
    held = rule("ZonequakeMajorityLost", (60_000, 150_000))
    held = msgspec.structs.replace(
        held, held=(msgspec.structs.replace(held.held[0], labels={"zone": "z1"}),)
    )
    assert of_rules(held, alerts=[told]).verdict is Verdict.UNKNOWN


def test_where_rules_are_known_an_alert_whose_rule_was_not_loaded_is_missed() -> None:
    reset = [operator(RESETS, 1, seen_ms=100_000)]
    found = of_rules(rule("ZonequakeMajorityLost"), counted=reset)
    assert (found.verdict, found.judged) == (Verdict.UNKNOWN, True)
    assert "1 rules were loaded" in found.summary
    assert found.summary.endswith("ZonequakePartitionReset of zone z1")
    assert of_rules(counted=reset).verdict is Verdict.UNKNOWN, "none was loaded"


def test_a_rule_that_prometheus_could_not_evaluate_is_named() -> None:
    found = of_rules(rule("ZonequakeMajorityLost", problem="many-to-many matching"))
    assert found.verdict is Verdict.UNKNOWN
    assert found.summary.endswith(
        "rules that Prometheus couldn't evaluate: ZonequakeMajorityLost (many-to-many matching)"
    )


def test_rules_that_cannot_be_read_are_a_problem_that_names_their_file(tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "prometheus.parquet").touch()
    (tmp_path / "metrics" / "alert_rules.json").write_text('[{"name": 1}]')
    no_session = cast("SparkSession", None)
    times: dict[str, Any] = {"start_ns": 0, "end_ns": 1, "wall_offset_ns": 0}
    found = metric_facts(no_session, tmp_path, faults=[], windows=[], events=[], **times)
    assert found is not None
    assert found.problem == (
        "metrics/alert_rules.json can't be read: Expected `str`, got `int` - at `$[0].name`"
    )


def alert(name: str, state: str, start_ms: int) -> Alert:
    return Alert(name=name, state=state, labels={"zone": "z1"}, start_ms=start_ms, end_ms=LAST_MS)


def test_recorded_resets_count_each_lineage_once_and_empty_and_late_ones_apart() -> None:
    def event(partition: int, lineage: int, last_index: int, time: int = 1) -> RecordedEvent:
        data: dict[str, object] = {"lineage": lineage, "last_index": last_index}
        return RecordedEvent(
            kind="group.reset", time=time, zone="z1", partition=partition, data=data
        )

    def forced(partition: int, token: int, *names: str) -> RecordedEvent:
        data: dict[str, object] = {"token": token, "forced": list(names)}
        return RecordedEvent(
            kind="partition.changed", time=1, zone="z1", partition=partition, data=data
        )

    events = [
        event(0, 1, 7), event(0, 1, 7), event(1, 1, 0), event(1, 2, 9, time=50),
        forced(0, 1, "pending"), forced(0, 3, "pending"), forced(0, 3, "pending"), forced(1, 4),
    ]  # fmt: skip
    assert recorded_resets(events, until_ns=50) == recorded(3, empty=1, late=1, decided=1)


@pytest.mark.parametrize(
    ("values", "late", "whole"),
    [
        ([1, 1, 2], False, True),
        ([0, 1, 2], True, True),
        ([1, 1, 2], True, False),
        ([1, 0, 2], False, False),
        ([1, None, 2], False, False),
        ([1, 2, None], False, True),
    ],
    ids=["all", "began at zero", "began late", "fell", "stale between", "stale after"],
)
def test_a_counter_is_whole_if_nothing_was_counted_between_its_samples_and_lost(
    values: list[int | None], late: bool, whole: bool
) -> None:
    numbers = np.array([np.nan if value is None else value for value in values])
    stale = np.isnan(numbers)
    samples = SeriesSamples(
        series=1, t_ms=1000 * np.arange(len(values)), value=numbers, known=~stale, stale=stale
    )
    found = increase(samples, late=late, born=False, scrape_ms=1000)
    assert found is not None
    assert found.whole == whole


def test_a_counter_that_was_not_scraped_for_some_time_is_not_whole() -> None:
    samples = SeriesSamples(
        series=1,
        t_ms=np.array([0, 9000]),
        value=np.array([1.0, 1.0]),
        known=np.array([True, True]),
        stale=np.array([False, False]),
    )
    found = increase(samples, late=False, born=False, scrape_ms=1000)
    assert found is not None
    assert not found.whole
