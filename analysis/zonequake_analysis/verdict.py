"""From findings to checks, from checks to one verdict and an exit code. Pure.

    violated › cleanup-not-proven › harness-failed › unknown › slo-breached › passed

A violation is never masked by another state, and what was not shown never passes (design §6).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from zonequake_analysis import claimed_order, loss, prefixes, sets
from zonequake_analysis.ingest import Quality
from zonequake_analysis.rebalances import EarlyJoint, FaultLanding, Rebalance
from zonequake_analysis.replica_audit import Audit
from zonequake_analysis.run_folder import RunDescription
from zonequake_analysis.windows import Availability


class Verdict(StrEnum):
    """What a check, or the run, ended as; declared in order of precedence."""

    VIOLATED = "violated"
    CLEANUP_NOT_PROVEN = "cleanup-not-proven"
    HARNESS_FAILED = "harness-failed"
    UNKNOWN = "unknown"
    SLO_BREACHED = "slo-breached"
    PASSED = "passed"


EXIT_CODES = {
    Verdict.VIOLATED: 1,
    Verdict.CLEANUP_NOT_PROVEN: 4,
    Verdict.HARNESS_FAILED: 255,
    Verdict.UNKNOWN: 2,
    Verdict.SLO_BREACHED: 3,
    Verdict.PASSED: 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One property: what was judged, how much of it, and what was left out."""

    name: str
    verdict: Verdict
    summary: str
    violations: int = 0
    checked: int = 0
    excluded: int = 0

    @property
    def judged(self) -> bool:
        """Whether there was anything to judge; a pass without it says nothing."""
        return self.verdict is not Verdict.PASSED or self.checked > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the checks over operations found: rows per (check, kind) and their keys.

    `lost_on_replica`: of the lost writes, how many a replica dump still holds.
    """

    counts: Counter[tuple[str, str]]
    keys: dict[str, frozenset[int]]  # by check, without keys whose assumptions failed
    lost_on_replica: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that a verdict rests on. Latencies in ns, nan if there were none."""

    description: RunDescription
    quality: Quality
    bad_events: int
    found: Found
    counts: dict[tuple[str, str, str], int]  # (role, f, outcome)
    acknowledged: int
    uncovered: int
    availability: Availability
    rebalances: Sequence[Rebalance]
    early_joints: Sequence[EarlyJoint]
    faults: Sequence[FaultLanding]
    audit: Audit
    p99_before_ns: float
    p99_during_ns: float


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that outranks the others; of nothing `unknown`, as nothing was shown."""
    order = list(Verdict)
    return min(verdicts, key=order.index, default=Verdict.UNKNOWN)


def judge(evidence: Evidence) -> list[Check]:
    """Every check of a run, safety first."""
    return [
        *_loss_checks(evidence),
        *_set_checks(evidence),
        _linearizability(evidence),
        _sessions(evidence),
        _replicas(evidence),
        _joint(evidence),
        _history(evidence),
        _coverage(evidence),
        _faults(evidence),
        _rebalances_end(evidence),
        _windows(evidence),
        _latency(evidence),
    ]


def _limit(count: int, allowed: int) -> Verdict:
    return Verdict.VIOLATED if count > allowed else Verdict.PASSED


def _loss_checks(e: Evidence) -> list[Check]:
    counts, allowed = e.found.counts, e.description.expectations
    lost, hidden = counts[loss.CHECK, "lost"] - e.found.lost_on_replica, e.found.lost_on_replica
    stale = counts[loss.CHECK, "stale"]
    flicker = counts[loss.CHECK, "flicker"]
    reads = sum(n for (_, f, o), n in e.counts.items() if f == "read" and o == "ok")
    skipped = e.quality.unplaced
    return [
        Check(
            name="lost-writes",
            verdict=_limit(lost, allowed.lost),
            summary=f"{lost} of {e.acknowledged:,} acknowledged writes are lost",
            violations=lost,
            checked=e.acknowledged - e.uncovered,
            excluded=e.uncovered,
        ),
        Check(
            name="hidden-writes",
            verdict=_limit(hidden, 0),
            summary=f"{hidden} acknowledged writes are on a replica and not served",
            violations=hidden,
            checked=e.acknowledged - e.uncovered,
            excluded=e.uncovered,
        ),
        Check(
            name="stale-reads",
            verdict=_limit(stale, allowed.stale),
            summary=f"{stale} of {reads:,} reads are stale",
            violations=stale,
            checked=reads,
            excluded=skipped,
        ),
        Check(
            name="flicker",
            verdict=_limit(flicker, allowed.stale),
            summary=f"{flicker} reads miss what an earlier and a later read show",
            violations=flicker,
            checked=reads,
            excluded=skipped,
        ),
    ]


def _set_checks(e: Evidence) -> list[Check]:
    reads = sum(n for (_, f, o), n in e.counts.items() if f == "read" and o == "ok")
    named = {
        "phantoms": (("phantom",), "values were read that nobody wrote"),
        "aborted-reads": (("aborted",), "values were read whose writes certainly failed"),
        "duplicates": (
            ("duplicate", "applied-twice"),
            "reads or writes show one request applied twice",
        ),
        "refusals": (("wrong-refusal",), "cas were refused though they found what they expected"),
    }
    result = []
    for name, (kinds, words) in named.items():
        count = sum(e.found.counts[sets.CHECK, kind] for kind in kinds)
        result.append(
            Check(
                name=name,
                verdict=_limit(count, 0),
                summary=f"{count} {words}",
                violations=count,
                checked=reads,
            )
        )
    return result


def _linearizability(e: Evidence) -> Check:
    """The claimed order is a certificate; the black box trusts nobody; they watch each other."""
    claimed = e.found.keys.get(claimed_order.CHECK, frozenset())
    outside = e.found.keys.get(prefixes.CHECK, frozenset())
    twice = e.found.counts[prefixes.CHECK, "value-twice"]
    only_claim, only_outside = claimed - outside, outside - claimed
    certificate = e.quality.unplaced == 0
    operations = sum(n for (role, _, _), n in e.counts.items() if role != "probe")
    if claimed & outside or (outside and not certificate):
        bad = len(outside)
        verdict, summary = (
            Verdict.VIOLATED,
            f"{bad} keys are not linearizable: by zones or prefixes, and by the claimed order",
        )
        if not certificate:
            summary = f"{bad} keys are not linearizable, by zones or prefixes"
    elif only_claim:
        bad, verdict = len(only_claim), Verdict.VIOLATED
        summary = (
            f"the store's claim is wrong at {bad} keys: what clients saw has an order, "
            "but not the one that the store states"
        )
    elif only_outside:
        bad, verdict = len(only_outside), Verdict.HARNESS_FAILED
        summary = (
            f"the checkers contradict each other at {bad} keys: the claimed order explains "
            "everything, zones or prefixes find no order; one of them is wrong"
        )
    elif twice:
        bad, verdict = twice, Verdict.UNKNOWN
        summary = f"{twice} values were written twice; the checks need unique values"
    else:
        bad, verdict = 0, Verdict.PASSED
        summary = "every key is linearizable, by the claimed order and by zones and prefixes"
        if not certificate:
            summary = "every key is linearizable by zones and prefixes; the store claims no order"
    return Check(
        name="linearizability",
        verdict=verdict,
        summary=summary,
        violations=bad,
        checked=operations,
        excluded=e.quality.unplaced,
    )


def _sessions(e: Evidence) -> Check:
    count = e.found.counts[loss.CHECK, "session"]
    return Check(
        name="sessions",
        verdict=_limit(count, 0),
        summary=f"{count} operations stand before one that their own process had already reached",
        violations=count,
        checked=sum(e.counts.values()),
        excluded=e.quality.unplaced,
    )


def _replicas(e: Evidence) -> Check:
    unsettled = {(d.zone, d.partition) for d in e.audit.disagreements if d.kind == "applied"}
    bad = [d for d in e.audit.disagreements if (d.zone, d.partition) not in unsettled]
    if bad:
        verdict = Verdict.VIOLATED
        summary = f"{len(bad)} replicas differ: partition {bad[0].partition}: {bad[0].what}"
    elif unsettled:
        verdict = Verdict.UNKNOWN
        first = next(d for d in e.audit.disagreements if d.kind == "applied")
        where = f"partition {first.partition}: {first.what}"
        summary = f"{len(unsettled)} partitions had not settled: {where}"
    elif e.audit.replicas == 0:
        verdict, summary = Verdict.PASSED, "not judged: the run has no replica dumps"
    else:
        verdict = Verdict.PASSED
        summary = f"{e.audit.replicas} replicas of {e.audit.partitions} partitions are equal" + (
            f"; {e.audit.writes_compared:,} writes found" if e.audit.writes_compared else ""
        )
    return Check(
        name="replicas",
        verdict=verdict,
        summary=summary,
        violations=len(bad),
        checked=e.audit.replicas,
        excluded=len(unsettled),
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
        verdict=_limit(len(early), 0),
        summary=summary,
        violations=len(early),
        checked=joints,
    )


def _history(e: Evidence) -> Check:
    q = e.quality
    problems = []
    if q.bad_lines:
        problems.append(f"{q.bad_lines} lines can't be read")
    if q.foreign_schema_lines:
        problems.append(f"{q.foreign_schema_lines} lines are of another schema version")
    if q.unknown_names:
        problems.append(f"{q.unknown_names} lines lack a field or name what is not known")
    if q.orphans:
        problems.append(f"{q.orphans} completions have no invoke")
    if q.wide_positions:
        problems.append(f"{q.wide_positions} positions are too wide")
    if e.bad_events:
        problems.append(f"{e.bad_events} events can't be read")
    if len(q.clocks) > 1 and not e.description.clock_offset_ns:
        problems.append("several clocks and no clock_offset_ns in run.yaml")
    good = (
        f"{q.lines:,} lines in {q.files} files; {q.torn_lines} torn at the end, "
        f"{q.cut_off} operations cut off"
    )
    return Check(
        name="history",
        verdict=Verdict.UNKNOWN if problems else Verdict.PASSED,
        summary="; ".join(problems) or good,
        violations=q.bad_lines + q.unknown_names + q.orphans,
        checked=q.lines,
        excluded=q.torn_lines,
    )


def _coverage(e: Evidence) -> Check:
    """No data is not success: every kind that was tried must have worked, and been read again."""
    problems = []
    tried = {f for (role, f, _) in e.counts if role == "load"}
    worked = {f for (role, f, outcome) in e.counts if role == "load" and outcome == "ok"}
    if not tried:
        problems.append("there was no load")
    elif not worked & {"write", "append", "cas"}:
        problems.append("no write was acknowledged")
    finals = sum(n for (role, _, o), n in e.counts.items() if role == "final" and o == "ok")
    if not finals:
        problems.append("there are no final reads")
    if "read" not in worked and not finals:
        problems.append("no read was answered")
    problems += [f"no {f} worked" for f in sorted(tried - worked)]
    if e.uncovered:
        problems.append(f"{e.uncovered} acknowledged writes were never read again")
    return Check(
        name="coverage",
        verdict=Verdict.UNKNOWN if problems else Verdict.PASSED,
        summary="; ".join(problems)
        or f"every acknowledged write was read again; {finals:,} final reads",
        violations=len(problems),
        checked=e.acknowledged,
        excluded=e.uncovered,
    )


def _faults(e: Evidence) -> Check:
    by_name = {fault.name: fault for fault in e.faults}
    planned = e.description.planned_faults or tuple(by_name)
    problems = []
    for name in planned:
        fault = by_name.get(name)
        if fault is None or (fault.start_ns is None and not fault.missed):
            problems.append(f"{name} was not installed")
        elif fault.missed:
            problems.append(f"{name} missed: {fault.missed}")
        elif not fault.hit:
            problems.append(f"{name} had no proven effect")
    summary = f"{len(planned)} faults, all landed as asked"
    if not planned:
        summary = "not judged: no fault was planned, and the events show none"
    return Check(
        name="faults",
        verdict=Verdict.UNKNOWN if problems else Verdict.PASSED,
        summary="; ".join(problems) or summary,
        violations=len(problems),
        checked=len(planned),
    )


def _rebalances_end(e: Evidence) -> Check:
    running = [r for r in e.rebalances if r.ended_ns is None]
    judged = e.description.expectations.all_rebalances_end
    summary = f"all {len(e.rebalances)} rebalances ended"
    if running:
        summary = (
            f"{len(running)} of {len(e.rebalances)} rebalances have not ended, for instance "
            f"partition {running[0].partition} (token {running[0].token})"
        )
    elif not e.rebalances:
        summary = "not judged: the events show no rebalance"
    return Check(
        name="rebalances-end",
        verdict=Verdict.SLO_BREACHED if running and judged else Verdict.PASSED,
        summary=summary,
        violations=len(running),
        checked=len(e.rebalances),
    )


def _windows(e: Evidence) -> Check:
    a, limit = e.availability, e.description.expectations.max_window_ms
    longest = max((w.certain_ns for w in a.windows), default=0) / 1e6
    possible = max((w.possible_ns for w in a.windows), default=0) / 1e6
    unexplained = sum(not w.causes for w in a.windows)
    over = sum(limit is not None and w.certain_ns / 1e6 > limit for w in a.windows)
    summary = "no unavailability window"
    if a.windows:
        summary = (
            f"{len(a.windows)} windows, the longest {longest:,.0f} ms for certain and "
            f"{possible:,.0f} ms at most; {unexplained} unexplained"
        )
    summary += f"; resolution {a.resolution_ns / 1e6:,.0f} ms"
    verdict = Verdict.PASSED
    if not a.vantages:
        verdict = Verdict.UNKNOWN if limit is not None else Verdict.PASSED
        summary = "not judged: nobody probed"
    elif over:
        verdict = Verdict.SLO_BREACHED
        summary += f"; {over} are certainly longer than {limit:,.0f} ms"
    elif a.silences:
        verdict = Verdict.UNKNOWN if limit is not None else Verdict.PASSED
        summary += f"; {len(a.silences)} times a vantage did not probe"
    elif limit is not None and possible > limit:
        summary += f"; none is certainly longer than {limit:,.0f} ms"
    return Check(
        name="availability",
        verdict=verdict,
        summary=summary,
        violations=over,
        checked=sum(v.probes for v in a.vantages),
        excluded=len(a.silences),
    )


def _latency(e: Evidence) -> Check:
    limit = e.description.expectations.p99_ratio
    before, during = e.p99_before_ns, e.p99_during_ns
    known = not (math.isnan(before) or math.isnan(during))
    verdict, summary = Verdict.PASSED, "not judged: the events show no phase before the faults"
    if known:
        ratio = during / before
        summary = (
            f"p99 {before / 1e6:,.1f} ms before and {during / 1e6:,.1f} ms during the faults: "
            f"{ratio:.2f} times"
        )
        if limit is not None and ratio > limit:
            verdict = Verdict.SLO_BREACHED
            summary += f", more than {limit:g}"
    elif limit is not None:
        verdict = Verdict.UNKNOWN
    return Check(name="latency", verdict=verdict, summary=summary, checked=int(known))
