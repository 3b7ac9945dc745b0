"""Checks that compare what Prometheus counted with what the run recorded itself. Pure.

Metrics never show that the store was right or wrong. They can show that the record is incomplete:
then other checks judged less than what happened, and the run is *unknown*. So it is if metrics that
it recorded can't be read any more, as they may have shown that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from zonequake_analysis.judgement.evidence import Evidence, missing_metrics
from zonequake_analysis.measures.answered_writes import HistoryWrites
from zonequake_analysis.metrics.alert_rules import Holding, due, fired
from zonequake_analysis.metrics.counters import (
    ANSWERED,
    DATA_LOST,
    LOAD_OPERATIONS,
    RESETS,
    Alert,
    Counted,
)
from zonequake_analysis.metrics.metric_facts import MetricFacts
from zonequake_analysis.metrics.tasks.steps import GAP_SCRAPES
from zonequake_analysis.text.first_few import first_few
from zonequake_analysis.verdict import Check, Kind, Verdict

RESET_ALERT = "ZonequakePartitionReset"
LOSS_ALERT = "ZonequakeDataLost"
_ALERT_OF = {RESETS: RESET_ALERT, DATA_LOST: LOSS_ALERT}
"""Alerts that fire at once, by the counter whose increase they watch (the chart's alerts.yml)."""

ALERT_LIMIT_MS = 45_000
"""Time within which an alert must fire after an increase: three evaluations of the chart's 15 s."""

_SHOWN = 5


def metric_checks(e: Evidence) -> list[Check]:
    """Returns the checks of a run that has metrics, or had some; none for a run without."""
    facts, lost = e.metrics, []
    if lacking := missing_metrics(e.incomplete):
        lost.append(
            f"{len(lacking)} files are missing, or shorter than when the run ended, such as "
            f"{lacking[0]}: copy the run again"
        )
    if facts is not None and facts.problem:
        lost.append(facts.problem)
    found = [_check("metrics", "; ".join(lost), missing=len(lost))] if lost else []
    if facts is None or facts.targets is None:
        return found
    return [
        *found,
        _load_counters(e, facts),
        _store_counters(e, facts),
        _operator_counters(e, facts),
        _alerts(facts),
    ]


def _check(name: str, summary: str, *, missing: int = 0, checked: int = 0) -> Check:
    return Check(
        kind=Kind.COVERAGE,
        name=name,
        verdict=Verdict.UNKNOWN if missing else Verdict.PASSED,
        summary=summary,
        violations=missing,
        checked=checked,
    )


def _load_counters(e: Evidence, facts: MetricFacts) -> Check:
    """Checks that the history holds every operation that the load's own counters showed at a
    scrape.

    An operation whose completion was cut off is in the history with an unknown outcome: that makes
    the number of an outcome smaller, but not the sum of all.
    """
    by_outcome: Counter[tuple[str, str, str]] = Counter()
    for one in facts.counted:
        if one.metric == LOAD_OPERATIONS:
            place = tuple(one.labels.get(name, "") for name in ("role", "f", "outcome"))
            by_outcome[place] += one.total  # type: ignore[index]  # three of them
    if not by_outcome:
        return _check("load-counters", "not judged: no load pod's counters were scraped")
    sums: Counter[tuple[str, str]] = Counter()
    held: Counter[tuple[str, str]] = Counter()
    for (role, f, _), number in by_outcome.items():
        sums[role, f] += number
    for (role, f, _), number in e.counts.items():
        held[role, f] += number
    problems = [
        (number - held[place], f"{place[1]} ({place[0]}): {number:,} counted, {held[place]:,} held")
        for place, number in sorted(sums.items())
        if number > held[place]
    ]
    if not problems:
        problems = [
            (number - there, f"{f} {outcome} ({role}): {number:,} counted, {there:,} held")
            for (role, f, outcome), number in sorted(by_outcome.items())
            for there in [e.counts.get((role, f, outcome), 0)]
            if number > there + e.quality.cut_off
        ]
    missing = sum(number for number, _ in problems)
    total = sum(sums.values())
    summary = f"the history holds all {total:,} operations that the load counted at its last scrape"
    if problems:
        summary = (
            f"the history lacks {missing:,} operations of those that the load itself counted: "
            + first_few([text for _, text in problems], _SHOWN)
        )
    return _check("load-counters", summary, missing=missing, checked=total)


def _store_counters(e: Evidence, facts: MetricFacts) -> Check:
    """Compares the writes that the data nodes answered with those that the history holds.

    A node counts a write when it answers it, once however often the answer is lost and the write is
    repeated: as a total is a lower bound, the history must hold as many that were answered, or may
    have been. More than all nodes counted it holds only if the nodes' metrics aren't whole.
    """
    name = "store-counters"
    writes = e.writes
    counted = [] if writes is None else [one for one in facts.counted if _is_of(one, writes)]
    if e.description.has_pressure:
        return _check(
            name, "not judged: nodes also count the writes of `load.pressure`, which no history has"
        )
    if writes is None or not counted:
        return _check(name, "not judged: no data node's counters of answered writes were scraped")
    first, all_of_them = (
        sum(one.total for one in counted if one.labels.get("request") in kinds)
        for kinds in (("first",), ("first", "repeated"))
    )
    reset = sum(facts.resets.begun[zone] for zone in writes.zones)
    missing = first - writes.answered - writes.open - e.quality.refused_operations
    added = writes.answered - all_of_them
    gap = _not_whole(e, facts, writes, counted)
    told = (
        f"the data nodes answered {first:,} writes at their last scrape, and the history holds "
        f"{writes.answered:,} that were answered and {writes.open:,} that may have been"
    )
    if missing > 0 and not reset:
        told += (
            f": it lacks {missing:,} writes, or a client that keeps no history, such as "
            "`zonequake kv`, wrote to the zone"
        )
        return _check(name, told, missing=missing, checked=first)
    if missing > 0:
        return _check(
            name,
            f"not judged: {told}; a write that is repeated after a reset counts twice",
        )
    if gap is not None:
        told += f"; whether the nodes answered fewer than the history holds can't be told: {gap}"
    elif added > 0:
        told += f": {added:,} of its answers were counted by no node"
        return _check(name, told, missing=added, checked=first)
    return _check(name, told, checked=first)


def _is_of(one: Counted, writes: HistoryWrites) -> bool:
    return one.metric == ANSWERED and one.labels.get("zone", "") in writes.zones


def _not_whole(
    e: Evidence, facts: MetricFacts, writes: HistoryWrites, counted: Sequence[Counted]
) -> str | None:
    """Returns why data nodes may have answered writes that no scrape shows; None if none did."""
    targets = facts.targets
    assert targets is not None
    late_ms = GAP_SCRAPES * targets.usual_scrape_ms
    unseen = sorted(writes.leaders - {one.target for one in counted})
    torn = sorted(
        {one.target for one in counted if not (one.whole and targets.without_gap(one.target))}
    )
    if not e.one_clock:
        return "times of several clocks can't be compared"
    if not writes.leaders:
        return "no journal says which nodes led"
    if unseen:
        return f"no counter of {first_few(unseen, _SHOWN, separator=', ')} was scraped"
    if torn:
        return (
            f"{first_few(torn, _SHOWN, separator=', ')} began again, or was not scraped all the "
            "time"
        )
    if targets.first_ms + late_ms > facts.start_ms:
        return "the first scrape came after the history's begin"
    if writes.last_ms is not None and targets.last_ms - late_ms < writes.last_ms:
        return "the last scrape came before the history's last write"
    return None


def _operator_counters(e: Evidence, facts: MetricFacts) -> Check:
    """Compares resets and losses that the operator counted with the data nodes' journals.

    More were counted than can be lower: a total is a lower bound. Fewer tell something only if the
    operator's metrics are whole.
    """
    name = "operator-counters"
    of_resets = [one for one in facts.counted if one.metric == RESETS]
    if not of_resets:
        return _check(name, "not judged: no operator's counters were scraped")
    if not e.journalled:
        return _check(name, "not judged: no journal of a data node is there to compare with")
    resets, losses = _by_zone(facts, RESETS), _by_zone(facts, DATA_LOST)
    targets, held = facts.targets, facts.resets
    assert targets is not None
    both = [one for one in facts.counted if one.metric in (RESETS, DATA_LOST)]
    whole = e.one_clock and all(one.whole and targets.without_gap(one.target) for one in both)
    problems = []
    for zone in sorted({*resets, *losses, *held.begun}):
        empty = held.empty[zone]
        others = held.begun[zone] - min(losses[zone], empty)
        if resets[zone] > others + held.only_decided[zone]:
            problems.append(f"{resets[zone]} resets of {zone} were counted, {others} are on record")
        if losses[zone] > empty:
            problems.append(
                f"{losses[zone]} partitions of {zone} that started over without their data were "
                f"counted, {empty} are on record"
            )
        if whole and held.seen[zone] > resets[zone] + losses[zone]:
            problems.append(
                f"{held.seen[zone]} resets of {zone} are on record, and the operator counted "
                f"{resets[zone] + losses[zone]}"
            )
    told = "; ".join(problems) or (
        f"{resets.total()} resets and {losses.total()} losses of all data counted by the operator; "
        f"the journals have {held.begun.total()} in all, {held.empty.total()} with nothing"
    )
    if not whole:
        why = "it was not scraped all the time, or began again"
        if not e.one_clock:
            why = "times of several clocks can't be compared"
        told += f"; whether the operator counted fewer than there were can't be told: {why}"
    return _check(name, told, missing=len(problems), checked=len(of_resets))


def _by_zone(facts: MetricFacts, metric: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in facts.counted:
        if one.metric == metric:
            found[one.labels.get("zone", "")] += one.total
    return found


def _alerts(facts: MetricFacts) -> Check:
    """Returns which alerts fired, and which should have fired and did not.

    By the counters those that fire at once are known, and by the rules, if the run recorded them,
    all whose expression held long enough.
    """
    assert facts.targets is not None
    firing = [one for one in facts.alerts if one.state == "firing"]
    counted = [
        one
        for one in facts.counted
        if one.metric in _ALERT_OF
        and one.seen_ms is not None
        and facts.targets.last_ms - one.seen_ms >= ALERT_LIMIT_MS
    ]
    held = due(facts.rules or (), ALERT_LIMIT_MS)
    names = [
        f"{_ALERT_OF[one.metric]} of zone {one.labels.get('zone', '')}"
        for one in counted
        if not any(_tells(alert, one) for alert in firing)
    ]
    names += [
        f"{rule.name} of {_of(holding)}"
        for rule, holding in held
        if not fired(rule, holding, firing, ALERT_LIMIT_MS)
    ]
    silent = list(dict.fromkeys(names))  # by its counter and by its rule it is one
    rules = facts.rules or ()
    broken = list(dict.fromkeys(f"{one.name} ({one.problem})" for one in rules if one.problem))
    summary = _that_fired(facts, firing)
    if facts.rules is None and not facts.alerts:
        # An alert leaves samples while pending or firing; without any its rule may not be loaded.
        expected = (
            f", though {', '.join(silent)} should have, if its rule was loaded" if silent else ""
        )
        return _check("alerts", f"not judged: {summary}{expected}")
    if facts.rules is not None:
        must = f"{len(held)} alerts had to fire" if held else "none had to fire"
        summary += f"; {len(facts.rules)} rules were loaded, {must}"
    if silent:
        limit_s = ALERT_LIMIT_MS // 1000
        told = first_few(silent, _SHOWN, separator=", ")
        summary += f"; should have fired and did not within {limit_s} s: {told}"
    if broken:
        told = first_few(broken, _SHOWN, separator=", ")
        summary += f"; rules that Prometheus couldn't evaluate: {told}"
    return _check(
        "alerts",
        summary,
        missing=len(silent) + len(broken),
        checked=len(facts.alerts) + len(counted) + len(held),
    )


def _that_fired(facts: MetricFacts, firing: Sequence[Alert]) -> str:
    shown = [
        f"{alert.name} {_zone(alert)}from {(alert.start_ms - facts.start_ms) / 1000:.0f} s"
        for alert in firing
    ]
    told = first_few(shown, _SHOWN, separator=", ")
    summary = f"{len(firing)} alerts fired: {told}" if firing else "no alert fired"
    known, of_firing = (
        {(one.name, *one.labels.items()) for one in some} for some in (facts.alerts, firing)
    )
    pending = len(known - of_firing)
    return f"{summary}; {pending} were only pending" if pending else summary


def _of(holding: Holding) -> str:
    if "zone" in holding.labels:
        return f"zone {holding.labels['zone']}"
    named = [
        f"{name} {text}" for name, text in sorted(holding.labels.items()) if name != "namespace"
    ]
    return ", ".join(named) or "the release"


def _tells(alert: Alert, one: Counted) -> bool:
    """Returns whether a firing alert is about this counter's increase, and fired in time."""
    assert one.seen_ms is not None
    return (
        alert.name == _ALERT_OF[one.metric]
        and alert.labels.get("zone", "") == one.labels.get("zone", "")
        and alert.start_ms <= one.seen_ms + ALERT_LIMIT_MS
        and alert.end_ms >= one.seen_ms
    )


def _zone(alert: Alert) -> str:
    zone = alert.labels.get("zone", "")
    return f"({zone}) " if zone else ""
