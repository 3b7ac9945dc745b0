"""Checks of what must never happen: lost, stale and invented values, order, replicas. Pure."""

from __future__ import annotations

from dataclasses import replace

from zonequake_analysis.checks import diverged, loss, sets
from zonequake_analysis.checks.transactions.of_operations import (
    ALLOWED,
    HALF_BY_TIMES,
    VIOLATIONS,
)
from zonequake_analysis.judgement.evidence import Evidence
from zonequake_analysis.verdict import Check, Verdict, limited

_BY_TIMES = ("lost-writes", "hidden-writes", "stale-reads", "flicker", "linearizability")
"""Checks that compare the times of operations of several processes."""

_WITHOUT_PLACES = (
    "not judged: no answer has a place in the store's order, and no list was read; "
    "`linearizability` judges registers by zones"
)


def safety_checks(e: Evidence) -> list[Check]:
    """Checks whether the store kept its promises."""
    checks = [
        _diverged(e),
        _lost_groups(e),
        *_loss_checks(e),
        *_set_checks(e),
        _linearizability(e),
        *_transactions(e),
        _sessions(e),
        _replicas(e),
        _joint(e),
    ]
    return [_unless_incomparable(check, e) if e.incomparable else check for check in checks]


def _unless_incomparable(check: Check, e: Evidence) -> Check:
    """Returns a check of a history of several clocks: what its times alone show is unknown."""
    bad = check.verdict in (Verdict.VIOLATED, Verdict.HARNESS_FAILED)
    if not bad or not _is_by_times(check.name, e):
        return check
    told = f"{check.summary}; unknown, as times of several clocks can't be compared"
    return replace(check, verdict=Verdict.UNKNOWN, summary=told)


def _is_by_times(name: str, e: Evidence) -> bool:
    """Returns whether all that a check has found needs the times of several processes."""
    if name == "duplicates":
        return not e.found.counts[sets.CHECK, "duplicate"]
    if name == "transactions" and e.transactions is not None:
        return e.transactions.violations == e.transactions.counts.get(HALF_BY_TIMES, 0)
    return name in _BY_TIMES


def _loss_checks(e: Evidence) -> list[Check]:
    counts, allowed = e.found.counts, e.description.expectations
    lost, hidden = counts[loss.CHECK, "lost"] - e.found.lost_on_replica, e.found.lost_on_replica
    stale = counts[loss.CHECK, "stale"]
    flicker = counts[loss.CHECK, "flicker"]
    reads = e.answered_reads
    left_out = _left_out(e)
    checks = [
        Check(
            name="lost-writes",
            verdict=limited(lost, allowed.lost),
            summary=f"{lost} of {e.acknowledged:,} acknowledged writes are lost{left_out}",
            violations=lost,
            checked=e.compared_writes,
            excluded=e.acknowledged - e.compared_writes,
        ),
        Check(
            name="hidden-writes",
            verdict=limited(hidden, 0),
            summary=f"{hidden} acknowledged writes are on a replica and not served",
            violations=hidden,
            checked=e.compared_writes,
            excluded=e.acknowledged - e.compared_writes,
        ),
        Check(
            name="stale-reads",
            verdict=limited(stale, allowed.stale),
            summary=f"{stale} of {reads:,} reads are stale{left_out}",
            violations=stale,
            checked=e.compared_reads,
            excluded=max(0, reads - e.compared_reads),
        ),
        Check(
            name="flicker",
            verdict=limited(flicker, allowed.stale),
            summary=f"{flicker} reads miss a write that was not acknowledged and was seen before"
            + left_out,
            violations=flicker,
            checked=e.compared_reads,
            excluded=max(0, reads - e.compared_reads),
        ),
    ]
    if e.placed or not e.quality.unplaced:
        return checks
    return [check if check.judged else replace(check, summary=_WITHOUT_PLACES) for check in checks]


def _set_checks(e: Evidence) -> list[Check]:
    reads = e.answered_reads
    cas = sum(n for (_, f, o), n in e.on_keys.items() if f == "cas" and o == "ok")
    named = {
        "phantoms": (("phantom",), reads, "values were read that no operation wrote"),
        "aborted-reads": (("aborted",), reads, "values were read whose writes certainly failed"),
        "duplicates": (
            ("duplicate", "applied-twice"),
            reads,
            "reads or writes show one request applied twice",
        ),
        "refusals": (
            ("wrong-refusal",),
            cas,
            "cas were refused though they found what they expected",
        ),
    }
    result = []
    for name, (kinds, checked, words) in named.items():
        count = sum(e.found.counts[sets.CHECK, kind] for kind in kinds)
        verdict, summary = limited(count, 0), f"{count} {words}"
        if name == "phantoms" and count and e.unread:
            verdict = Verdict.UNKNOWN
            summary += (
                f", as far as the history can be read: {e.unread}, and may be what wrote them"
            )
        if name == "duplicates" and (open_ones := e.found.counts[sets.TWO_PLACES]):
            summary += (
                f"; {open_ones} more stand at two places by two members: no dumps tell whether "
                "they were applied twice or the members differ"
            )
        if name == "duplicates":
            summary += _left_out(e)
        if name == "refusals" and not cas:
            summary = "not judged: no cas was answered"
        result.append(
            Check(
                name=name,
                verdict=verdict,
                summary=summary,
                violations=count,
                checked=checked,
            )
        )
    return result


def _left_out(e: Evidence) -> str:
    """Returns the words on keys that a check leaves out, as it needs unique values."""
    keys = e.found.by_search.keys
    return f"; {keys:,} keys whose values repeat are left out" if keys else ""


def _linearizability(e: Evidence) -> Check:
    """Compares the claimed order, a certificate, with the black box, which trusts no claim.

    Keys whose values repeat are judged by search alone.
    """
    without = e.found.without_order
    outside = without.by_both + without.by_black_box_only
    repeated = e.found.by_search
    unsure = repeated.without_order if e.unread else 0
    by_search = repeated.without_order - unsure
    unwritten = e.found.counts[sets.CHECK, "phantom"]
    refused = e.found.counts[sets.CHECK, "wrong-refusal"]
    certificate = e.quality.unplaced == 0
    operations = sum(n for (role, _, _), n in e.on_keys.items() if role != "probe")
    proven = outside if without.by_both or not certificate else 0
    if proven or by_search:
        bad, verdict = proven + by_search, Verdict.VIOLATED
        keys = "1 key is" if bad == 1 else f"{bad} keys are"
        summary = f"{keys} not linearizable: by zones or prefixes, and by the claimed order"
        if not certificate:
            summary = f"{keys} not linearizable, by zones or prefixes"
        if by_search:
            summary = f"{keys} not linearizable: {by_search} by search, as values repeat"
            summary += f", and {proven} by zones or prefixes" if proven else ""
    elif without.by_claim_only:
        bad, verdict = without.by_claim_only, Verdict.VIOLATED
        summary = (
            f"the store's claim is wrong at {bad} keys: what clients saw has an order, "
            "but not the one that the store states"
        )
    elif outside:
        bad, verdict = outside, Verdict.HARNESS_FAILED
        summary = (
            f"the checkers contradict each other at {bad} keys: the claimed order explains "
            "everything, zones or prefixes find no order; one of them is wrong"
        )
    elif refused:
        bad, verdict = refused, Verdict.VIOLATED
        summary = (
            f"no order explains {refused} answers: cas were refused though they found what they "
            "expected"
        )
    elif unsure:
        bad, verdict = unsure, Verdict.UNKNOWN
        summary = (
            f"{unsure} keys whose values repeat have no order, by search, but {e.unread}: any of "
            "them may be a write that is missing there"
        )
    elif repeated.gave_up:
        bad, verdict = repeated.gave_up, Verdict.UNKNOWN
        summary = "no key was found without an order"
    elif unwritten and e.unread:
        bad, verdict = unwritten, Verdict.UNKNOWN
        summary = f"{unwritten} values were read that no readable line writes; {e.unread}"
    else:
        bad, verdict = 0, Verdict.PASSED
        summary = "every key is linearizable, by the claimed order and by zones and prefixes"
        if not certificate:
            summary = "every key is linearizable by zones and prefixes; the store claims no order"
        if repeated.keys:
            summary += f"; {repeated.keys:,} keys whose values repeat, by search"
    if repeated.gave_up:
        summary += (
            f"; {repeated.gave_up} keys whose values repeat are undecided: the search explored "
            f"{repeated.most_explored:,} configurations of one and stopped; write a value only "
            "once, or have fewer operations open on a key, or fewer on each key"
        )
    if e.quality.refused_operations:
        summary += f"; {e.quality.refused_operations:,} operations on keys with faults are left out"
    return Check(
        name="linearizability",
        verdict=verdict,
        summary=summary,
        violations=bad,
        checked=operations - e.quality.refused_operations,
        excluded=e.quality.unplaced + e.quality.refused_operations,
    )


def _transactions(e: Evidence) -> list[Check]:
    """Returns the check of transactions, if the history has any."""
    found = e.transactions
    if found is None:
        return []
    bad = found.violations
    summary = f"{found.judged:,} transactions were done as a whole or not at all, in an order"
    if bad:
        kinds = ", ".join(
            f"{number} {kind}" for kind, number in found.counts.items() if kind in VIOLATIONS
        )
        first = next(one for one in found.examples if one.kind in VIOLATIONS)
        summary = f"{bad} findings among {found.judged:,} transactions ({kinds}): {first.text}"
    if skews := found.counts.get(ALLOWED):
        summary += (
            f"; {skews} cycles that need two missed reads (G2) are not judged, as their answers "
            "claim no place"
        )
    return [
        Check(
            name="transactions",
            verdict=limited(bad, 0),
            summary=summary,
            violations=bad,
            checked=found.judged,
            excluded=found.excluded,
        )
    ]


def _sessions(e: Evidence) -> Check:
    count = e.found.counts[loss.CHECK, "session"]
    summary = f"{count} operations stand before one that their own process had already reached"
    if e.quality.unplaced and not e.placed:
        summary = "not judged: no answer has a place in the store's order"
    return Check(
        name="sessions",
        verdict=limited(count, 0),
        summary=summary,
        violations=count,
        checked=e.placed,
        excluded=e.quality.unplaced,
    )


def _diverged(e: Evidence) -> Check:
    """Checks for members of one group with different states, the violation that explains most."""
    shown = [d for d in e.audit.disagreements if d.diverged]
    answers = e.found.counts[diverged.CHECK, "diverged"]
    count = len(shown) + answers
    reads = e.answered_reads
    checked = e.audit.replicas + (reads if reads > e.quality.unplaced else 0)
    said = []
    if shown:
        partitions = len({d.where for d in shown})
        said.append(
            f"members of {partitions} partitions have different states: {shown[0].where}: "
            f"{shown[0].what}"
        )
    if answers:
        said.append(
            f"{answers} reads lack a write that was acknowledged before their place, and that "
            "another member still shows"
        )
    good = "no two members show different states at one place of the log"
    if not checked:
        good = "not judged: the run has no replica dumps, and answers without a place"
    return Check(
        name="diverged",
        verdict=limited(count, 0),
        summary=("; ".join(said) or good) + (_left_out(e) if checked else ""),
        violations=count,
        checked=checked,
        excluded=e.quality.unplaced,
    )


def _lost_groups(e: Evidence) -> Check:
    """Checks for groups whose replicas all say that their data is lost, and acknowledged writes
    with it.
    """
    groups, rest = e.lost_groups, e.leaderless - len(e.lost_groups)
    count = sum(group.acknowledged for group in groups)
    summary = "not judged: no partition was seen without a leader after the quiet time"
    if groups:
        first = groups[0]
        summary = (
            f"{len(groups)} groups lost their data, and {count:,} acknowledged writes with it, for "
            f"instance {first.zone}/{first.partition}: {first.in_words}"
        )
    elif rest:
        summary = (
            f"not judged: {rest} partitions had no leader after the quiet time, but not all "
            "replicas of one said that acknowledged writes are lost"
        )
    return Check(
        name="lost-groups",
        verdict=limited(count, e.description.expectations.lost),
        summary=summary,
        violations=count,
        checked=len(groups),
        excluded=rest,
    )


def _replicas(e: Evidence) -> Check:
    """Checks that the replicas had settled, and hold what was acknowledged.

    `diverged` checks which of them differ.
    """
    apart = {d.where for d in e.audit.disagreements if d.diverged}
    rest = [d for d in e.audit.disagreements if d.where not in apart]
    unsettled = [d for d in rest if d.kind == "applied"]
    bad = [d for d in e.audit.disagreements if d.kind == "missing"]
    equal = e.audit.partitions - len(apart)
    if bad:
        verdict = Verdict.VIOLATED
        summary = (
            f"{len(bad)} replicas lack acknowledged writes that none holds: "
            f"{bad[0].where}: {bad[0].what}"
        )
    elif unsettled:
        verdict = Verdict.UNKNOWN
        where = f"{unsettled[0].where}: applied {unsettled[0].what}"
        summary = f"{len(unsettled)} partitions had not settled: {where}"
    elif e.audit.replicas == 0:
        verdict, summary = Verdict.PASSED, "not judged: the run has no replica dumps"
    else:
        verdict = Verdict.PASSED
        summary = f"the replicas of {equal} partitions are equal" + (
            f"; {e.audit.writes_compared:,} writes found" if e.audit.writes_compared else ""
        )
    if apart and e.audit.replicas:
        summary += f"; {len(apart)} partitions are left out, whose members have diverged"
    return Check(
        name="replicas",
        verdict=verdict,
        summary=summary,
        violations=len(bad),
        checked=e.audit.replicas if equal or bad else 0,
        excluded=len(unsettled) + len(apart),
    )


def _joint(e: Evidence) -> Check:
    early = e.early_joints
    joints = sum("JOINT" in r.stage_ns for r in e.rebalances)
    summary = f"{joints} joint configurations, all after their peers had caught up"
    if early:
        summary = (
            f"{len(early)} joint configurations came too early: partition "
            f"{early[0].partition}: {early[0].why}"
        )
    elif not joints:
        summary = "not judged: the events show no joint configuration"
    return Check(
        name="joint-after-caught-up",
        verdict=limited(len(early), 0),
        summary=summary,
        violations=len(early),
        checked=joints,
    )
