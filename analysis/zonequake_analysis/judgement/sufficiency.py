"""Checks of the run itself: whether it showed enough for its other checks to mean anything. Pure.

No data is not success: unreadable lines, writes that were not read again, a fault that did not land
and a harness that could not do what was planned make a run *unknown*, or worse.
"""

from __future__ import annotations

from collections.abc import Sequence

from zonequake_analysis.inputs.run_folder import PlannedFault
from zonequake_analysis.judgement.evidence import Evidence, missing_records
from zonequake_analysis.judgement.harness_checks import harness_checks
from zonequake_analysis.text.first_few import first_few
from zonequake_analysis.verdict import Check, Kind, Verdict

_MOST_TOLD = 3
"""Most lines of `events.jsonl`, and most unread files, that are reported one by one."""

LOAD = "load"
"""The name of the check that the headline repeats, whatever the verdict is."""

LEAST_SHARE = 0.5
MIN_LOAD_S = 5.0
"""A shorter load is mostly the start of its pods."""
LEAST_EXPECTED = 50
"""The load draws what it does: of so many operations none at all is no chance."""


def sufficiency_checks(e: Evidence) -> list[Check]:
    """Checks whether the history, the load, the faults and the harness were as they should be."""
    return [
        _history(e),
        _coverage(e),
        load_check(e),
        fault_check(e),
        *harness_checks(e.description.harness),
    ]


def _history(e: Evidence) -> Check:
    q = e.quality
    problems = list(q.told_faults)
    if e.bad_events:
        shown = first_few(e.bad_events, _MOST_TOLD)
        problems.append(f"{len(e.bad_events)} events can't be read: {shown}")
    if lacking := missing_records(e.incomplete):
        problems.append(
            f"{len(lacking)} files are missing, or shorter than when the run ended, such as "
            f"{lacking[0]}: copy the run again"
        )
    if e.unread_histories:
        problems.append(_unread(e.unread_histories))
    if e.incomparable:
        shown = " and ".join(f"`{name[:60]}`" if name else "none" for name in q.clocks)
        problems.append(
            f"several clocks, such as {shown} in the field `clock`, and no clock_offset_ns in "
            "run.yaml"
        )
    good = (
        f"{q.lines:,} lines in {q.files} files; {q.torn_lines} torn at the end, "
        f"{q.cut_off} operations cut off"
    )
    return Check(
        kind=Kind.COVERAGE,
        name="history",
        verdict=Verdict.UNKNOWN if problems else Verdict.PASSED,
        summary="; ".join(problems) or good,
        violations=q.faults,
        checked=q.lines,
        excluded=q.torn_lines,
    )


def _unread(files: Sequence[str]) -> str:
    shown = first_few(files, _MOST_TOLD, separator=", ")
    return (
        f"{len(files)} files in `history` are not read: {shown}; expected nothing but files "
        "`*.jsonl`, directly in it"
    )


def _coverage(e: Evidence) -> Check:
    """Checks that every kind of operation that was asked for was tried, that each that was tried
    worked, and that writes were read again.

    No data is not success.
    """
    problems = []
    tried = {f for (role, f, _) in e.counts if role == "load"}
    worked = {f for (role, f, outcome) in e.counts if role == "load" and outcome == "ok"}
    if not tried:
        problems.append("there was no load")
    elif not worked & {"write", "append", "cas", "transaction"}:
        problems.append("no write was acknowledged")
    finals = sum(n for (role, _, o), n in e.counts.items() if role == "final" and o == "ok")
    if not finals:
        problems.append("there are no final reads")
    if "read" not in worked and not finals:
        problems.append("no read was answered")
    # Other tools record a cas that was refused as one that failed.
    may_fail = set() if e.description.asked_per_s else {"cas"}
    problems += [f"no {f} worked" for f in sorted(tried - worked - may_fail)]
    if tried and e.load is not None and not e.description.load_is_closed:
        problems += [
            f"no {f} was tried, though the scenario asks for {per_s:g} per second"
            for f, per_s in e.description.asked_per_s.items()
            if f not in tried and per_s * e.load.seconds > LEAST_EXPECTED
        ]
    if e.uncovered:
        problems.append(f"{e.uncovered} acknowledged writes were never read again")
    return Check(
        kind=Kind.COVERAGE,
        name="coverage",
        verdict=Verdict.UNKNOWN if problems else Verdict.PASSED,
        summary="; ".join(problems)
        or f"every acknowledged write was read again; {finals:,} final reads",
        violations=len(problems),
        checked=e.acknowledged,
        excluded=e.uncovered,
    )


def load_check(e: Evidence) -> Check:
    """Checks that the load was there: half of the requested load may miss every fault, so that it
    doesn't show half of what all of it would. The rate of a closed loop promises nothing: it makes
    as many operations as are answered, and shows too little only if there were none.
    """
    load, words, verdict, judged = e.load, "", Verdict.PASSED, False
    if load is None:
        words = "not judged: the events don't say when the load ran"
    elif not load.asked_per_s:
        words = "not judged: the plan asks for no rate"
    elif load.seconds < MIN_LOAD_S:
        words = f"not judged: the load ran for {load.seconds:.1f} s, less than {MIN_LOAD_S:g} s"
    elif not e.one_clock:
        words = "not judged: the events and the history are of several clocks"
    elif load.is_ceiling:
        judged = True
        words = (
            f"the load made {load.delivered_per_s:,.0f} operations per second in a closed loop, as "
            f"many as were answered; the scenario allows {load.asked_per_s:,.0f}"
        )
        if not load.operations:
            verdict = Verdict.UNKNOWN
    else:
        judged = True
        words = (
            f"the load delivered {load.delivered_per_s:,.0f} of {load.asked_per_s:,.0f} operations "
            "per second that the scenario asked for"
        )
        if load.delivered_per_s < LEAST_SHARE * load.asked_per_s:
            verdict = Verdict.UNKNOWN
            words += ", less than half"
    return Check(
        kind=Kind.COVERAGE,
        name=LOAD,
        verdict=verdict,
        summary=words,
        violations=int(verdict is not Verdict.PASSED),
        checked=max(1, load.operations) if load is not None and judged else 0,
    )


def fault_check(e: Evidence) -> Check:
    """Checks that every fault landed; a repeated one as often as planned.

    Without a plan, and a list of faults that must have hit, each that the events show had to.
    """
    by_name = {fault.name: fault for fault in e.faults}
    planned, listed = e.description.planned_faults, e.description.expectations.faults
    if listed is None and not planned:
        planned = tuple(
            PlannedFault(name=name, times=fault.times) for name, fault in by_name.items()
        )
    problems = []
    for name, times in ((fault.name, fault.times) for fault in planned):
        fault = by_name.get(name)
        often = f" {times} times" if times > 1 else ""
        if fault is None or (fault.start_ns is None and not fault.missed):
            problems.append(f"{name} was not installed{often}")
        elif fault.missed:
            took = f" after it had taken effect {fault.effective} of{often}" if often else ""
            problems.append(f"{name} missed{took}: {fault.missed}")
        elif not fault.hit:
            problems.append(f"{name} had no proven effect")
        elif fault.effective < times:
            problems.append(f"{name} had a proven effect {fault.effective} of {times} times")
    count = sum(fault.times for fault in planned)
    summary = f"{count} faults had to land, and all did as asked"
    if not planned:
        summary = "not judged: no fault was planned, and the events show none"
        if listed is not None:
            summary = "not judged: no fault had to land"
    return Check(
        kind=Kind.COVERAGE,
        name="faults",
        verdict=Verdict.UNKNOWN if problems else Verdict.PASSED,
        summary="; ".join(problems) or summary,
        violations=len(problems),
        checked=count,
    )
